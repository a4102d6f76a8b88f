"""Registration of the app, and of what it knows of the use of connections, people, groups and ticket types."""

from django.apps import AppConfig


class AutomationsConfig(AppConfig):
    name = "automations"

    def ready(self) -> None:
        """Tell connections, people, groups and ticket types which automations use them."""
        from automations import references
        from connectors import services
        from tickets import people

        services.connection_users.append(references.users_of_connection)
        people.desk_users.append(references.users_of_desk)
