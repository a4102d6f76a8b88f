"""Keeps automations from running in circles: mark, ceiling, depth (SPEC section 6)."""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now

from automations.models import Automation
from runtime.models import Run
from tickets.models import Ticket

# One automation over one ticket in a minute.
CEILING = 5
CEILING_WINDOW = timedelta(seconds=60)
# Links of a chain of runs, each caused by the one before.
MAX_DEPTH = 10


def is_own_doing(automation: Automation, cause: Run | None) -> bool:
    """Whether the change was made by a run of the same automation, or by one that it called or sent."""
    while cause is not None:
        if cause.automation_id == automation.pk:
            return True
        if cause.trigger not in (Run.Trigger.CALL, Run.Trigger.SEND):
            return False
        cause = cause.caused_by
    return False


def is_over_ceiling(automation: Automation, ticket: Ticket) -> bool:
    """Whether the automation was triggered over this ticket as often as it may be in a minute."""
    recent = Run.objects.of(ticket.tenant_id).filter(
        automation=automation,
        ticket=ticket,
        trigger=Run.Trigger.TICKET,
        rerun_of=None,
        created_at__gt=Now() - CEILING_WINDOW,
    )
    return len(recent.values_list("pk")[:CEILING]) >= CEILING


def is_too_deep(cause: Run | None) -> bool:
    """Whether the next link would be the eleventh."""
    return cause is not None and cause.depth >= MAX_DEPTH


def chain_of(cause: Run | None) -> list[dict[str, str]]:
    """Return the chain that a refusal cut, oldest first: `[{"automation", "run"}]`."""
    chain: list[dict[str, str]] = []
    while cause is not None and len(chain) <= MAX_DEPTH:
        chain.append({"automation": cause.automation.name, "run": str(cause.public_id)})
        cause = cause.caused_by
    return chain[::-1]
