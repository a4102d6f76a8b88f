"""`manage.py web`: webhooks, REST, portal and admin, on CSBOT_BIND and CSBOT_PORT."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from csbot import ports, programs
from csbot.processes import become


class Command(BaseCommand):
    help = "Serves HTTP on CSBOT_BIND and CSBOT_PORT until SIGTERM."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Become the server. Ends with one line when the address is in use."""
        refusal = ports.refusal(settings.CSBOT_BIND, settings.CSBOT_PORT)
        if refusal:
            raise CommandError(refusal)
        become(programs.web(settings.CSBOT_BIND, settings.CSBOT_PORT))
