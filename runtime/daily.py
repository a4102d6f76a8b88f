"""Once a day for each tenant, after its midnight: its yesterday is compared, and a difference founds an incident.

Which days were compared are rows (`Reconciliation`), so a clock that stood still for days makes up for them, and two
clocks compare no day twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import OuterRef, Subquery

from csbot.lib import database_clock
from incidents import services as incidents
from runtime import reconcile
from runtime.models import Reconciliation
from runtime.queue import alone
from runtime.reconcile import Tally
from tickets.models import Tenant

# Time for what arrived just before midnight to be committed and for clocks of machines that differ.
AFTER_MIDNIGHT = timedelta(minutes=10)
# As long as deliveries are kept, by which a lost run is seen.
MADE_UP_FOR = timedelta(days=7)
# Of one tick: it shares its worker with those that start polls and schedules.
BUDGET_SECONDS = 2.0
# Ids in the detail of an incident; the answer of the API lists all.
LISTED = 100


def reconcile_due() -> int:
    """Compare the days that are due, tenant by tenant, until the tick's time is over; return how many were compared."""
    end_at = time.monotonic() + BUDGET_SECONDS
    now = database_clock.now()
    last = Reconciliation.objects.of(OuterRef("pk")).order_by("-day").values("day")[:1]
    compared = 0
    for tenant in Tenant.objects.filter(suspended_at=None).annotate(last=Subquery(last)).order_by("pk"):
        newest = newest_due(tenant, now)
        for day in _due(tenant.last, newest):
            if time.monotonic() >= end_at:
                return compared
            compared += _reconcile(tenant, day, is_newest=day == newest)
    return compared


def newest_due(tenant: Tenant, now: datetime) -> date:
    """Return the tenant's last day that can be compared at `now`."""
    wall = now.astimezone(ZoneInfo(tenant.timezone)).replace(tzinfo=None)
    return (wall - AFTER_MIDNIGHT).date() - timedelta(days=1)


def _due(last: date | None, newest: date) -> Iterator[date]:
    """Yield the days after the last compared one, oldest first; of a tenant that never was, yesterday alone."""
    day = newest if last is None else max(last + timedelta(days=1), newest - MADE_UP_FOR + timedelta(days=1))
    while day <= newest:
        yield day
        day += timedelta(days=1)


def _reconcile(tenant: Tenant, day: date, *, is_newest: bool) -> bool:
    """Compare a day and found its incidents in one transaction. False: somebody else has done it, or does it now."""
    with transaction.atomic():
        if not alone.take("reconciliation"):
            return False
        _, is_first = Reconciliation.objects.get_or_create(tenant=tenant, day=day)
        if not is_first:
            return False
        for tally in reconcile.compare(tenant, reconcile.day_of(tenant, day)):
            if tally.missing:
                _tell_missing(tenant, day, tally)
        if is_newest:
            _tell_stuck(tenant)
        return True


def _tell_missing(tenant: Tenant, day: date, tally: Tally) -> None:
    automation = {"id": str(tally.automation.public_id), "name": tally.automation.name}
    incidents.open_incident(
        tenant,
        cause=f"{automation['id']}//reconciliation.missing",
        code="reconciliation.missing",
        params={"ticket": None, "automation": automation["name"]},
        detail={
            "day": day.isoformat(),
            "count": len(tally.missing),
            "missing": tally.missing[:LISTED],
            "stuck": reconcile.stuck(tenant).representation(),
        },
        automation=automation,
    )


def _tell_stuck(tenant: Tenant) -> None:
    stuck = reconcile.stuck(tenant)
    if not stuck:
        return
    incidents.open_incident(
        tenant,
        cause="reconciliation.stuck",
        code="reconciliation.stuck",
        params={"ticket": None, "automation": None},
        detail=stuck.representation(),
    )
