"""Registration of the app, and of what it knows of the use of connections."""

from django.apps import AppConfig


class AutomationsConfig(AppConfig):
    name = "automations"

    def ready(self) -> None:
        """Tell the connections which automations use them."""
        from automations import references
        from connectors import services

        services.connection_users.append(references.users_of_connection)
