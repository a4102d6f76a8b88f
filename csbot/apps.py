"""Registration of the project package: management commands, translations and the Celery application."""

from django.apps import AppConfig


class CsbotConfig(AppConfig):
    name = "csbot"

    def ready(self) -> None:
        """Make csbot's Celery application the current one, so that shared tasks publish through it."""
        import csbot.celery  # noqa: F401
