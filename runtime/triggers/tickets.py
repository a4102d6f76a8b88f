"""Ticket events become runs, in the transaction of the change: no change without its run, no run without its change."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.dispatch import receiver

from automations.models import Automation, Trigger
from csbot.lib import json
from incidents import services as incidents
from runtime.execution.context import current_run
from runtime.models import Reaction, Run
from runtime.queue import states
from runtime.queue.states import Enqueued
from runtime.triggers import loopguard, ordering, reactions
from tickets import services as tickets
from tickets.events import SYSTEM, Actor, ticket_changed
from tickets.models import Ticket
from tickets.representation import representation

# A run that was not yet begun takes further changes of its ticket; one that is being claimed is left alone.
UNBEGUN = """
SELECT d.run_id, d.input FROM runtime_run r JOIN runtime_rundata d ON d.run_id = r.id
WHERE r.tenant_id = %s AND r.automation_id = %s AND r.ticket_id = %s AND r.trigger = 'ticket' AND r.status IN (0, 3)
  AND r.started_at IS NULL AND r.rerun_of_id IS NULL
ORDER BY r.id DESC LIMIT 1 FOR NO KEY UPDATE OF r SKIP LOCKED
"""


@receiver(ticket_changed)
def _on_ticket_changed(
    ticket: Ticket, event: str, changes: dict[str, Any], actor: Actor, **_kwargs: Any
) -> None:
    cause = current_run.get()
    if cause is not None and cause.pk is None:
        # A dry run: it has no row, and nothing it changes stays.
        return
    triggers = (
        Trigger.objects.of(ticket.tenant_id)
        .filter(kind="ticket", automation__state=Automation.State.ACTIVE)
        .select_related("automation__published")
        .order_by("pk")
    )
    for trigger in triggers:
        automation = trigger.automation
        if automation.published and matches(automation.published.tree["trigger"], ticket, event, changes):
            outcome, run_id = _react(automation, ticket, event, changes)
            reactions.record(automation, ticket, event, outcome, run_id)


def matches(trigger: dict[str, Any], ticket: Ticket, event: str, changes: dict[str, Any]) -> bool:
    """Whether a ticket event is one that the trigger asks for (`on` and `filter` of SPEC section 13).

    `type` and `status` name one value or several, `tags` are all to be there, and of `changed` one has to be among the
    changes; a new ticket has changed in everything it was given.
    """
    if event not in trigger.get("on", ["created", "changed"]):
        return False
    wanted = trigger.get("filter") or {}
    if "type" in wanted and (ticket.type.key if ticket.type else None) not in _several(wanted["type"]):
        return False
    if "status" in wanted and ticket.status not in _several(wanted["status"]):
        return False
    if not set(_several(wanted.get("tags") or [])) <= set(ticket.tags):
        return False
    asked = _several(wanted.get("changed") or [])
    return not asked or any(field in changes for field in asked)


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _react(
    automation: Automation, ticket: Ticket, event: str, changes: dict[str, Any]
) -> tuple[str, int | None]:
    """Start a run, join one, refuse, or pass over the automation's own doing; return which, and the run."""
    cause = current_run.get()
    if loopguard.is_own_doing(automation, cause):
        return Reaction.Outcome.OWN, None
    unbegun = _join_unbegun(automation, ticket, changes)
    if unbegun is not None:
        return Reaction.Outcome.JOINED, unbegun
    if loopguard.is_too_deep(cause):
        _refuse(automation, ticket, "loop.depth", cause, with_incident=True)
        return Reaction.Outcome.REFUSED, None
    if loopguard.is_over_ceiling(automation, ticket):
        _refuse(automation, ticket, "loop.ceiling", cause, with_incident=False)
        return Reaction.Outcome.REFUSED, None
    return Reaction.Outcome.STARTED, enqueue(automation, ticket, event, changes, caused_by=cause).run_id


def enqueue(
    automation: Automation,
    ticket: Ticket,
    event: str,
    changes: dict[str, Any],
    *,
    caused_by: Run | None = None,
) -> Enqueued:
    """Put the run of a ticket event into the queue, on the published version of the automation."""
    assert automation.published is not None
    trigger = automation.published.tree["trigger"]
    run = states.enqueue(
        tenant_id=ticket.tenant_id,
        automation_id=automation.pk,
        version_id=automation.published.pk,
        trigger=Run.Trigger.TICKET,
        ticket_id=ticket.pk,
        priority=trigger.get("priority", 5),
        input_json=json.dumps({"ticket": ticket.key, "event": event, "changes": changes}),
        line=ordering.line_of(
            trigger, automation.pk, {"ticket": representation(ticket), "event": event, "changes": changes}
        ),
        caused_by=caused_by,
    )
    assert run is not None, "a ticket run has no key that another one could have"
    return run


def _join_unbegun(automation: Automation, ticket: Ticket, changes: dict[str, Any]) -> int | None:
    """Add the changes to a run of this ticket that was not begun; return its inner id, None when there is none."""
    with connection.cursor() as cursor:
        cursor.execute(UNBEGUN, [ticket.tenant_id, automation.pk, ticket.pk])
        row = cursor.fetchone()
        if row is None:
            return None
        given = json.loads(row[1])
        given["changes"] = joined(given["changes"], changes)
        cursor.execute(
            "UPDATE runtime_rundata SET input = %s::jsonb WHERE run_id = %s", [json.dumps(given), row[0]]
        )
    return int(row[0])


def joined(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Return both sets of changes as one, from the first `from` to the last `to` (SPEC section 6)."""
    changes = dict(earlier)
    for field, change in later.items():
        if field in changes and "from" in changes[field]:
            changes[field] = {**change, "from": changes[field]["from"]}
        else:
            changes[field] = change
    return changes


def _refuse(
    automation: Automation, ticket: Ticket, code: str, cause: Run | None, *, with_incident: bool
) -> None:
    chain = loopguard.chain_of(cause)
    tickets.log(
        ticket,
        "refusal",
        SYSTEM,
        code,
        {"automation": automation.name, "chain": " → ".join(link["automation"] for link in chain)},
        {"chain": chain, "automation": str(automation.public_id)},
    )
    if with_incident:
        incidents.open_incident(
            ticket.tenant,
            cause=f"{automation.public_id}//{code}",
            code=code,
            params={"ticket": ticket.key, "automation": automation.name},
            detail={"chain": chain, "automation": {"id": str(automation.public_id), "name": automation.name}},
            ticket=ticket,
            automation={"id": str(automation.public_id), "name": automation.name},
        )
