"""`manage.py beat`: the ticks (pump, sweep, polls, schedules, retention, …) and the worker that runs them."""

from typing import Any

from django.core.management.base import BaseCommand

from csbot import programs
from csbot.processes import become


class Command(BaseCommand):
    help = "Sends the ticks and runs them until SIGTERM. Ticks are idempotent: two of these do no harm."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Become the small parent of Celery beat and of the tick worker."""
        become(programs.beat())
