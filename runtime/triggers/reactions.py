"""Records what each ticket event did to each automation that asks for it, in the transaction of the event.

A run alone does not tell which events it stands for: some joined it, some were refused, and the mark of SPEC section 6
leaves no trace. With the record, reconciliation compares events by their identity.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

from automations.models import Automation
from runtime.models import Reaction
from tickets.models import Ticket

KINDS = {"created": ["created"], "changed": ["changed", "assigned"]}
"""Event of a trigger's `on` -> the kinds of log entries that are one when they hold changes."""

# The newest entry of these kinds is the event's own: whoever changes a ticket holds its row.
RECORD = """
INSERT INTO runtime_reaction (tenant_id, automation_id, event_id, outcome, run_id, at)
SELECT e.tenant_id, %s, e.id, %s, %s, e.at FROM tickets_ticketevent e
WHERE e.ticket_id = %s AND e.kind = ANY(%s) ORDER BY e.id DESC LIMIT 1
"""
# A record whose run was lost gives way; one that stands for a run does not, nor does a refusal or the mark.
TAKE_LATE = """
INSERT INTO runtime_reaction AS known (tenant_id, automation_id, event_id, outcome, run_id, at)
SELECT e.tenant_id, %s, e.id, 'late', NULL, e.at FROM tickets_ticketevent e WHERE e.id = %s
ON CONFLICT (event_id, automation_id) DO UPDATE SET outcome = 'late'
WHERE known.run_id IS NULL AND known.outcome = ANY(%s)
RETURNING id
"""
STAND_FOR_A_RUN = (Reaction.Outcome.STARTED, Reaction.Outcome.JOINED, Reaction.Outcome.LATE)


def record(automation: Automation, ticket: Ticket, event: str, outcome: str, run_id: int | None) -> None:
    """Record what the present event of the ticket did to the automation."""
    with connection.cursor() as cursor:
        cursor.execute(RECORD, [automation.pk, outcome, run_id, ticket.pk, KINDS.get(event, [])])


def take_late(automation: Automation, event_id: int) -> int | None:
    """Take the record of an event that was missed, for a run that starts in this transaction; return its inner id.

    None: the event is not missing any more. Whoever comes second waits for the first one.
    """
    with connection.cursor() as cursor:
        cursor.execute(TAKE_LATE, [automation.pk, event_id, list(STAND_FOR_A_RUN)])
        row = cursor.fetchone()
    return row[0] if row else None


def set_run(reaction_id: int, run_id: int) -> None:
    """Let the run stand for the event of a record that was taken late."""
    Reaction.objects.filter(pk=reaction_id).update(run=run_id)


def late_runs(tenant_id: int, event_ids: Sequence[int]) -> list[str]:
    """Return the public ids of the runs that were started late for these events, in the order of the events."""
    found = Reaction.objects.of(tenant_id).filter(event__in=event_ids, outcome=Reaction.Outcome.LATE)
    ids = found.exclude(run=None).order_by("event", "pk").values_list("run__public_id", flat=True)
    return [str(public_id) for public_id in ids]
