"""`manage.py demo`: make the demo company and write its logins and addresses to `$CSBOT_HOME/demo.json`."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from csbot import demo


class Command(BaseCommand):
    """Loads the demo; run again it changes nothing."""

    help = "Makes the demo company and writes its logins and addresses to $CSBOT_HOME/demo.json."

    def handle(self, *args: Any, **options: Any) -> None:
        """Load the demo and say where its logins are."""
        demo.load()
        self.stdout.write(
            f"The demo company is ready; its logins are in {settings.CSBOT_HOME / 'demo.json'}."
        )
