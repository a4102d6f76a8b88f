"""Ticket events that should have started an automation and did nothing, by their identity (SPEC section 11).

The log of the tickets says what happened, the audit which version was active then, the log again how the ticket stood
after the event. What `runtime.triggers.reactions` recorded is accounted for; an expected event without a record, or
with one whose run is gone, was missed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Any

from django.db import connection

from automations.models import Automation, AutomationVersion
from csbot.lib import json
from runtime.models import Reaction
from runtime.triggers import reactions
from runtime.triggers.tickets import matches
from tickets.models import AuditEntry, Tenant, Ticket, TicketType

# What happens this near to a publishing or a pause may be before or after it: clocks of machines and commits differ.
MARGIN = timedelta(seconds=10)
STANDING = ("automation.published", "automation.paused", "automation.resumed")


@dataclass(frozen=True)
class Period:
    """A time in which an automation was active with a ticket trigger."""

    automation_id: int
    begins: datetime
    ends: datetime
    trigger: dict[str, Any]


@dataclass(frozen=True)
class Missed:
    """An event that has no run although it should: the automation, the event's inner id and its public one."""

    automation_id: int
    event_id: int
    public_id: uuid.UUID


# Columns of the ticket as it stood after the event: the `from` of the next change, else the present value. Each is one
# probe of `ticket_event_of_ticket`, and made only where the trigger's filter asks for it.
STOOD = """
CASE WHEN %(asks_{key})s THEN coalesce((
  SELECT l.data -> 'changes' -> '{key}' -> 'from' FROM tickets_ticketevent l
  WHERE l.ticket_id = e.ticket_id AND l.id > e.id AND l.data -> 'changes' ? '{key}' ORDER BY l.id LIMIT 1
), {present}) #>> '{{}}' END"""
UNRECORDED = f"""
SELECT e.id, e.public_id, e.kind, ARRAY(SELECT jsonb_object_keys(e.data -> 'changes')),
  {STOOD.format(key="type", present="to_jsonb(k.key)")},
  {STOOD.format(key="status", present="to_jsonb(t.status)")},
  {STOOD.format(key="tags", present="to_jsonb(t.tags)")}
FROM tickets_ticketevent e JOIN tickets_ticket t ON t.id = e.ticket_id
LEFT JOIN tickets_tickettype k ON k.id = t.type_id
WHERE e.tenant_id = %(tenant)s AND e.at >= %(begins)s AND e.at < %(ends)s AND e.kind = ANY(%(kinds)s)
  AND e.data -> 'changes' <> '{{}}'::jsonb
  AND (%(changed)s::text[] IS NULL OR e.data -> 'changes' ?| %(changed)s::text[])
  AND (%(events)s::bigint[] IS NULL OR e.id = ANY(%(events)s::bigint[]))
  AND NOT EXISTS (
    SELECT 1 FROM runtime_reaction r WHERE r.event_id = e.id AND r.automation_id = %(automation)s)
ORDER BY e.id
"""


def missed(
    tenant: Tenant, begins: datetime, ends: datetime, event_ids: Sequence[int] | None = None
) -> list[Missed]:
    """Return what was missed of the events from `begins` to before `ends`; `event_ids` narrows to these events."""
    found = list(_lost(tenant, begins, ends, event_ids))
    for period in periods(tenant, begins, ends):
        found += _unrecorded(tenant, period, event_ids)
    return sorted(found, key=lambda one: (one.automation_id, one.event_id))


def periods(tenant: Tenant, begins: datetime, ends: datetime) -> list[Period]:
    """Return when which automation waited for ticket events between two instants, less the margins."""
    entries = (
        AuditEntry.objects.of(tenant)
        .filter(action__in=STANDING, at__lt=ends)
        .order_by("object", "id")
        .values_list("object", "at", "after")
    )
    triggers = _ticket_triggers(tenant)
    found = []
    for label, of_one in groupby(entries, key=lambda entry: entry[0]):
        standing = [(at, after) for _, at, after in of_one] + [(ends + MARGIN, None)]
        for (since, after), (until, _) in pairwise(standing):
            known = triggers.get((label.rpartition("/")[2], after["version"]))
            first, last = max(since + MARGIN, begins), min(until - MARGIN, ends)
            if known and after["state"] == Automation.State.ACTIVE and first < last:
                found.append(Period(known[0], first, last, known[1]))
    return found


def _ticket_triggers(tenant: Tenant) -> dict[tuple[str, int], tuple[int, dict[str, Any]]]:
    """Return (public id, version number) -> (inner id, trigger) of every version with a ticket trigger."""
    versions = AutomationVersion.objects.of(tenant).filter(tree__trigger__kind="ticket")
    rows = versions.values_list("automation__public_id", "number", "automation_id", "tree__trigger")
    return {(str(public_id), number): (inner, trigger) for public_id, number, inner, trigger in rows}


def _unrecorded(tenant: Tenant, period: Period, event_ids: Sequence[int] | None) -> Iterator[Missed]:
    wanted = period.trigger.get("filter") or {}
    parameters = {
        "tenant": tenant.pk,
        "automation": period.automation_id,
        "begins": period.begins,
        "ends": period.ends,
        "kinds": [
            kind
            for event in period.trigger.get("on", reactions.KINDS)
            for kind in reactions.KINDS.get(event, [])
        ],
        "changed": wanted.get("changed") or None,
        "events": None if event_ids is None else list(event_ids),
        **{f"asks_{key}": key in wanted for key in ("type", "status", "tags")},
    }
    with connection.cursor() as cursor:
        cursor.execute(UNRECORDED, parameters)
        rows = cursor.fetchall()
    # One ticket stands for all of them in turn; making one for each event took most of the time.
    ticket, types = Ticket(), _Types()
    for event_id, public_id, kind, changed, type_key, status, tags in rows:
        ticket.type, ticket.status = types[type_key], status
        ticket.tags = json.loads(tags) if tags else []
        if matches(period.trigger, ticket, event_of(kind), dict.fromkeys(changed)):
            yield Missed(period.automation_id, event_id, public_id)


class _Types(dict[str | None, TicketType | None]):
    """Types by their keys, as they were called then."""

    def __missing__(self, key: str | None) -> TicketType | None:
        self[key] = TicketType(key=key) if key is not None else None
        return self[key]


def _lost(
    tenant: Tenant, begins: datetime, ends: datetime, event_ids: Sequence[int] | None
) -> Iterable[Missed]:
    """Yield the events whose run is gone."""
    rows = Reaction.objects.of(tenant).filter(
        automation__in=list(Automation.objects.of(tenant).values_list("pk", flat=True)),
        outcome__in=reactions.STAND_FOR_A_RUN,
        run=None,
        at__gte=begins,
        at__lt=ends,
    )
    if event_ids is not None:
        rows = rows.filter(event__in=event_ids)
    for automation_id, event_id, public_id in rows.values_list("automation", "event", "event__public_id"):
        yield Missed(automation_id, event_id, public_id)


def event_of(kind: str) -> str:
    """Return the word of a trigger's `on` for a log entry's kind."""
    return next(event for event, kinds in reactions.KINDS.items() if kind in kinds)
