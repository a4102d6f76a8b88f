"""`manage.py worker`: claims and executes runs, CSBOT_SLOTS at once."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from csbot import programs
from csbot.processes import become


class Command(BaseCommand):
    help = "Executes runs, CSBOT_SLOTS at once, until SIGTERM; then it finishes what it has begun."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Become the Celery worker."""
        become(programs.worker(settings.CSBOT_SLOTS))
