"""Registration of the app and of every provider that is there."""

from django.apps import AppConfig


class ConnectorsConfig(AppConfig):
    name = "connectors"

    def ready(self) -> None:
        """Load the providers, which register their operations by being loaded."""
        from connectors import providers

        providers.load()
