"""Who acts, and the one signal that tells the engine about tickets."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.dispatch import Signal


@dataclass(frozen=True)
class Actor:
    """Who changed something: `kind` is automation, person, token or system. `run_id` is the public id of the run."""

    kind: str
    name: str
    run_id: uuid.UUID | None = None


SYSTEM = Actor("system", "csbot")

ticket_changed = Signal()
"""Sent by `tickets.services` inside its transaction, once for each edit.

Arguments: `ticket` (Ticket as it is now), `event` (`created` or `changed`), `changes`
(`{"status": {"from", "to"}}`, net changes only, never empty for `changed`) and `actor`.
"""
