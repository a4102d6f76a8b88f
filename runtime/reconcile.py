"""Reconciliation: what arrived for each automation on a day against the runs that exist, by identity (SPEC section 11).

Received = done + failed + review + waiting + cancelled + refused + duplicate + missing, since each delivery and each
ticket event is counted once, under what became of it. `runtime.daily` compares every tenant's yesterday by the clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Count, QuerySet

from automations.models import Automation
from csbot.lib.values import instant_text
from runtime import missed, services
from runtime.models import Delivery, DeliveryCount, Reaction, Run
from runtime.triggers import reactions
from tickets.models import Tenant

# What became of the events of a day, in the order of the answer (SPEC section 13).
OUTCOMES = ("done", "failed", "review", "waiting", "cancelled", "refused", "duplicate")
WAITING = {"queued", "running"}
EVENT_TRIGGERS = ("webhook", "ticket")
# SPEC section 11: a run that is due for longer is stuck.
STUCK_AFTER = timedelta(minutes=5)


@dataclass(frozen=True)
class Day:
    """A day of a tenant, from its midnight to before the next one."""

    date: date
    begins: datetime
    ends: datetime


@dataclass
class Tally:
    """What became of one automation's events of a day; `missing` are the public ids of those without a run."""

    automation: Automation
    outcomes: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)

    def representation(self) -> dict[str, Any]:
        """Return the row of SPEC section 13."""
        return {
            "automation": {"id": str(self.automation.public_id), "name": self.automation.name},
            "received": sum(self.outcomes.values()) + len(self.missing),
            **{outcome: self.outcomes[outcome] for outcome in OUTCOMES},
            "missing": self.missing,
        }


def day_of(tenant: Tenant, day: date, days: int = 1) -> Day:
    """Return the bounds of a day of the tenant, or of as many days from it on."""
    zone = ZoneInfo(tenant.timezone)
    bounds = (datetime.combine(at, time.min, zone) for at in (day, day + timedelta(days=days)))
    begins, ends = (bound.astimezone(ZoneInfo("UTC")) for bound in bounds)
    return Day(day, begins, ends)


def today(tenant: Tenant, now: datetime) -> date:
    """Return the tenant's present day."""
    return now.astimezone(ZoneInfo(tenant.timezone)).date()


def compare(tenant: Tenant, day: Day) -> list[Tally]:
    """Return what became of the events of each automation that has, or had that day, a trigger for events."""
    automations = {
        row.pk: row for row in Automation.objects.of(tenant).select_related("trigger").order_by("pk")
    }
    tallies = {pk: Tally(row) for pk, row in automations.items()}
    ids = list(tallies)
    _tally_deliveries(tenant, day, ids, tallies)
    _tally_ticket_events(tenant, day, ids, tallies)
    return [tally for tally in tallies.values() if _awaits_events(tally.automation) or _has_any(tally)]


def _tally_deliveries(tenant: Tenant, day: Day, ids: list[int], tallies: Mapping[int, Tally]) -> None:
    runs = Run.objects.of(tenant).filter(
        automation__in=ids,
        trigger=Run.Trigger.WEBHOOK,
        rerun_of=None,
        created_at__gte=day.begins,
        created_at__lt=day.ends,
    )
    for automation, status, count in _counted(runs, "automation", "status"):
        tallies[automation].outcomes[outcome_of(status)] += count
    lost = Delivery.objects.of(tenant).filter(
        outcome=Delivery.Outcome.TAKEN, run=None, at__gte=day.begins, at__lt=day.ends
    )
    for automation, public_id in lost.order_by("id").values_list("automation", "public_id"):
        tallies[automation].missing.append(str(public_id))
    counts = DeliveryCount.objects.of(tenant).filter(automation__in=ids, day=day.date)
    for automation, refused, duplicate in counts.values_list("automation", "refused", "duplicate"):
        tallies[automation].outcomes.update(refused=refused, duplicate=duplicate)


def _tally_ticket_events(tenant: Tenant, day: Day, ids: list[int], tallies: Mapping[int, Tally]) -> None:
    outcome = Reaction.Outcome
    recorded = Reaction.objects.of(tenant).filter(automation__in=ids, at__gte=day.begins, at__lt=day.ends)
    for automation, reaction, status, count in _counted(recorded, "automation", "outcome", "run__status"):
        outcomes = tallies[automation].outcomes
        if reaction == outcome.REFUSED:
            outcomes["refused"] += count
        elif reaction in reactions.STAND_FOR_A_RUN and status is not None:
            outcomes["duplicate" if reaction == outcome.JOINED else outcome_of(status)] += count
    for one in missed.missed(tenant, day.begins, day.ends):
        tallies[one.automation_id].missing.append(str(one.public_id))


def _counted(rows: QuerySet, *keys: str) -> QuerySet:
    return rows.order_by().values_list(*keys).annotate(count=Count("pk"))


def outcome_of(status: int) -> str:
    """Return what a run's state counts as; what has not ended is waiting."""
    outside = services.OUTSIDE[Run.Status(status)]
    return "waiting" if outside in WAITING else outside


def _awaits_events(automation: Automation) -> bool:
    trigger = getattr(automation, "trigger", None)
    return trigger is not None and trigger.kind in EVENT_TRIGGERS


def _has_any(tally: Tally) -> bool:
    return bool(sum(tally.outcomes.values()) or tally.missing)


@dataclass(frozen=True)
class Stuck:
    """Work of a tenant that does not get on: due for longer than `STUCK_AFTER`, or waiting for a person."""

    oldest_due_at: datetime | None
    is_late: bool
    review: int

    def __bool__(self) -> bool:
        return self.is_late or bool(self.review)

    def representation(self) -> dict[str, Any]:
        """Return it as reconciliation shows it; `oldestDueAt` only where it is late."""
        late_since = self.oldest_due_at if self.is_late else None
        return {"oldestDueAt": instant_text(late_since) if late_since else None, "review": self.review}


STUCK = """
SELECT oldest, oldest < clock_timestamp() - %(stuck_after)s, review FROM
  (SELECT min(due_at) AS oldest FROM runtime_run
   WHERE tenant_id = %(tenant)s AND (status = 0 OR (status = 2 AND due_at <= clock_timestamp()))) AS due,
  (SELECT count(*) AS review FROM runtime_run WHERE tenant_id = %(tenant)s AND status = 7) AS held
"""


def stuck(tenant: Tenant) -> Stuck:
    """Return what of the tenant's work is stuck now."""
    with connection.cursor() as cursor:
        cursor.execute(STUCK, {"tenant": tenant.pk, "stuck_after": STUCK_AFTER})
        oldest, is_late, review = cursor.fetchone()
    return Stuck(oldest, bool(is_late), review)


# An id has a run when it is a parameter of one, or what its sender named the delivery; or it is the external id of a
# ticket. Runs of the next day count too: what was ordered before midnight arrives after it.
KNOWN = """
SELECT external_id FROM tickets_ticket WHERE tenant_id = %(tenant)s AND external_id = ANY(%(ids)s)
UNION
SELECT p.value FROM runtime_run r JOIN runtime_rundata d ON d.run_id = r.id
CROSS JOIN LATERAL jsonb_each_text(
  CASE jsonb_typeof(d.input -> 'params') WHEN 'object' THEN d.input -> 'params' END) AS p
WHERE r.tenant_id = %(tenant)s AND r.automation_id = %(automation)s
  AND r.created_at >= %(begins)s AND r.created_at < %(ends)s AND p.value = ANY(%(ids)s)
UNION
SELECT substring(key FROM position(': ' IN key) + 2) FROM runtime_delivery
WHERE tenant_id = %(tenant)s AND automation_id = %(automation)s AND outcome IN ('taken', 'parked')
  AND key IS NOT NULL AND run_id IS NOT NULL AND substring(key FROM position(': ' IN key) + 2) = ANY(%(ids)s)
"""


def unknown_ids(automation: Automation, day: date, ids: Sequence[str]) -> list[str]:
    """Return which of a sender's own ids have neither a run of the automation nor a ticket, in the order given."""
    bounds = day_of(automation.tenant, day, days=2)
    with connection.cursor() as cursor:
        cursor.execute(
            KNOWN,
            {
                "tenant": automation.tenant_id,
                "automation": automation.pk,
                "begins": bounds.begins,
                "ends": bounds.ends,
                "ids": list(ids),
            },
        )
        known = {row[0] for row in cursor.fetchall()}
    return [one for one in dict.fromkeys(ids) if one not in known]
