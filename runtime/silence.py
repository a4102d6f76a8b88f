"""Silence: a webhook or poll that usually brings events and has brought none for far longer than its own rhythm.

One incident for each automation and each silence; it resolves itself when events come again (SPEC section 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db import connection, transaction
from django.db.models import Exists, OuterRef

from csbot.lib import database_clock
from csbot.lib.values import instant_text
from incidents import services as incidents
from incidents.models import Incident
from runtime.queue import alone, findings
from tickets.models import Tenant

CODE = "reconciliation.silence"
# SPEC section 11: the rhythm is learned from this many events within this time.
EVENTS = 20
WITHIN = timedelta(days=7)
LONGEST_GAPS = 3
LEAST = timedelta(hours=1)
# Polls that are sorted before a look, so that what they found counts at once.
SORTED = 1_000

# Events of a webhook are its deliveries' runs, of a poll the runs that found something; the newest one first. Only who
# has been quiet for the least time is looked at closely: one probe of `run_arrived` or `run_poll_done` for the others.
WEBHOOK_EVENTS = """
SELECT created_at FROM runtime_run
WHERE automation_id = a.id AND trigger = 'webhook' AND rerun_of_id IS NULL ORDER BY created_at DESC LIMIT"""
POLL_EVENTS = """
SELECT created_at FROM runtime_run
WHERE automation_id = a.id AND trigger = 'poll' AND status = 4 AND found = 1 ORDER BY created_at DESC LIMIT"""
QUIET = f"""
SELECT a.id, a.public_id, a.name, a.tenant_id, CASE g.kind
  WHEN 'webhook' THEN ARRAY({WEBHOOK_EVENTS} %(most)s) ELSE ARRAY({POLL_EVENTS} %(most)s) END
FROM automations_trigger g JOIN automations_automation a ON a.id = g.automation_id
JOIN tickets_tenant t ON t.id = a.tenant_id
WHERE g.kind IN ('webhook', 'poll') AND a.state = 'active' AND t.suspended_at IS NULL
  AND (%(tenant)s::bigint IS NULL OR a.tenant_id = %(tenant)s)
  AND CASE g.kind WHEN 'webhook' THEN ({WEBHOOK_EVENTS} 1) ELSE ({POLL_EVENTS} 1) END < %(quiet_since)s
ORDER BY a.id
"""
# Nothing came since the incident from an automation that is still expected to bring events.
GOES_ON = f"""
SELECT 1 FROM automations_automation a JOIN automations_trigger g ON g.automation_id = a.id
WHERE a.tenant_id = %(tenant)s AND a.public_id = %(automation)s
  AND a.state = 'active' AND g.kind IN ('webhook', 'poll')
  AND CASE g.kind WHEN 'webhook' THEN ({WEBHOOK_EVENTS} 1) ELSE ({POLL_EVENTS} 1) END <= %(since)s
"""


@dataclass(frozen=True)
class Silent:
    """An automation that is silent, its last event, and how long none may come by its rhythm."""

    automation: dict[str, str]
    tenant_id: int
    last_at: datetime
    allowed: timedelta


def allowed_gap(newest_first: Sequence[datetime]) -> timedelta | None:
    """Return how long no event may come after these ones; None while too few came to know the rhythm."""
    recent = [at for at in newest_first[: EVENTS + 1] if newest_first[0] - at <= WITHIN]
    if len(recent) < EVENTS:
        return None
    return max(LONGEST_GAPS * max(later - earlier for later, earlier in pairwise(recent)), LEAST)


def silent(now: datetime, tenant: Tenant | None = None) -> list[Silent]:
    """Return the automations that are silent at `now`, of one tenant or of all."""
    parameters = {
        "tenant": tenant.pk if tenant else None,
        "most": EVENTS + 1,
        "quiet_since": now - LEAST,
    }
    with connection.cursor() as cursor:
        cursor.execute(QUIET, parameters)
        rows = cursor.fetchall()
    found = []
    for _, public_id, name, tenant_id, newest_first in rows:
        allowed = allowed_gap(newest_first)
        if allowed is not None and now - newest_first[0] > allowed:
            found.append(Silent({"id": str(public_id), "name": name}, tenant_id, newest_first[0], allowed))
    return found


def representation(one: Silent) -> dict[str, Any]:
    """Return a silence as reconciliation shows it."""
    return {
        "automation": one.automation,
        "lastAt": instant_text(one.last_at),
        "allowedSec": int(one.allowed.total_seconds()),
    }


def watch() -> None:
    """Found an incident for each new silence and resolve those that are over; one watcher at a time."""
    with transaction.atomic():
        if not alone.take("silence"):
            return
        findings.sort(SORTED)
        for one in silent(database_clock.now()):
            _tell(one)
        waiting = Incident.objects.of(OuterRef("pk")).filter(code=CODE, status__in=incidents.UNRESOLVED)
        for tenant in Tenant.objects.filter(Exists(waiting)):
            _resolve_over(tenant)


def _tell(one: Silent) -> None:
    """Found the incident of a silence, once: what a person has resolved is not founded again for the same silence."""
    cause = f"{one.automation['id']}//{CODE}"
    if Incident.objects.of(one.tenant_id).filter(cause=cause, first_at__gt=one.last_at).exists():
        return
    incidents.open_incident(
        Tenant.objects.get(pk=one.tenant_id),
        cause=cause,
        code="reconciliation.silence",
        params={"ticket": None, "automation": one.automation["name"]},
        detail=representation(one),
        automation=one.automation,
    )


def _resolve_over(tenant: Tenant) -> None:
    for incident in Incident.objects.of(tenant).filter(code=CODE, status__in=incidents.UNRESOLVED):
        if not _goes_on(incident):
            incidents.resolve_if_passed(incident.pk)


def _goes_on(incident: Incident) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            GOES_ON,
            {
                "tenant": incident.tenant_id,
                "automation": incident.automation["id"],
                "since": incident.first_at,
            },
        )
        return cursor.fetchone() is not None
