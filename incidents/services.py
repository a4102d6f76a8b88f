"""All writes of incidents. One cause of one tenant has at most one incident that is not resolved.

The database keeps that promise (`incident_one_for_cause`); each change of state is one guarded UPDATE.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from connectors.models import Connection
from csbot.lib import json
from csbot.lib.errors import RequestRefused
from csbot.lib.values import instant_text, storable
from incidents import messages
from incidents.events import incident_resolved
from incidents.models import Incident
from tickets.models import Tenant, Ticket

UNRESOLVED = (Incident.Status.OPEN, Incident.Status.ACKNOWLEDGED)
# Length of the column `cause`.
CAUSE_LENGTH = 300
# Of the runs of an incident the newest this many are listed (SPEC section 13).
LISTED_RUNS = 100

# One statement, so that failures at the same moment count one by one: whoever comes second waits for the row
# of the first and adds to it; if that is resolved meanwhile, PostgreSQL tries again and inserts. `several`
# stays once it is set: the title then names the automation instead of one ticket.
OPEN = """
INSERT INTO incidents_incident AS known
  (public_id, tenant_id, cause, status, code, params, title, impact, count, first_at, last_at, notify_after,
   ticket_id, automation, connection_id, detail)
VALUES
  (gen_random_uuid(), %(tenant)s, %(cause)s, 'open', %(code)s, %(params)s::jsonb, %(title)s, %(impact)s, 1,
   clock_timestamp(), clock_timestamp(), clock_timestamp(),
   %(ticket)s, %(automation)s::jsonb, %(connection)s, %(detail)s::jsonb)
ON CONFLICT (tenant_id, cause) WHERE status IN ('open', 'acknowledged') DO UPDATE SET
  count = known.count + 1, last_at = clock_timestamp(), code = excluded.code, title = excluded.title,
  impact = excluded.impact, detail = excluded.detail, automation = excluded.automation,
  ticket_id = excluded.ticket_id, connection_id = excluded.connection_id,
  params = excluded.params || CASE
    WHEN known.params ? 'several' OR known.ticket_id IS DISTINCT FROM excluded.ticket_id
    THEN '{"several": true}'::jsonb ELSE '{}'::jsonb END
RETURNING *
"""


def open_incident(
    tenant: Tenant,
    *,
    cause: str,
    code: str,
    params: dict[str, Any],
    detail: dict[str, Any],
    ticket: Ticket | None = None,
    automation: dict[str, Any] | None = None,
    connection: Connection | None = None,
    title: str = "",
    impact: str = "",
) -> Incident:
    """Found the incident of `cause`, or count once more on the one that is not resolved (SPEC section 9).

    Belongs into the caller's transaction. `cause` names automation, step and code; `code` and `params` (see
    `messages.texts`) make title and impact, unless `title` and `impact` give them; `automation` is a snapshot
    `{"id", "name"}`; `detail` is shown to platform staff only. What PostgreSQL cannot store in a text becomes
    U+FFFD. Raises ValueError for another tenant's ticket or connection.
    """
    for owned in (ticket, connection):
        if owned is not None and owned.tenant_id != tenant.pk:
            raise ValueError(f"An incident of tenant {tenant} cannot point to {owned} of another tenant.")
    given = {
        "tenant": tenant.pk,
        "cause": _fitting(storable(cause)),
        "code": code,
        "params": json.dumps(storable(params)),
        "title": storable(title),
        "impact": storable(impact),
        "ticket": ticket.pk if ticket else None,
        "automation": json.dumps(storable(automation)) if automation is not None else None,
        "connection": connection.pk if connection else None,
        "detail": json.dumps(storable(detail)),
    }
    incident: Incident = Incident.objects.raw(OPEN, given)[0]
    return incident


def acknowledge(incident: Incident) -> Incident:
    """open -> acknowledged: somebody looks into it. One that is acknowledged stays so.

    Returns the incident as it is now. Raises RequestRefused (409 `incident.resolved`) for a resolved one.
    """
    status = Incident.Status
    Incident.objects.of(incident.tenant_id).filter(pk=incident.pk, status=status.OPEN).update(
        status=status.ACKNOWLEDGED
    )
    incident.refresh_from_db()
    if incident.status == status.RESOLVED:
        raise RequestRefused("incident.resolved", "A resolved incident cannot be acknowledged.", status=409)
    return incident


def resolve(incident: Incident) -> Incident:
    """open | acknowledged -> resolved by a person. Resolving a resolved one changes nothing.

    Returns the incident as it is now. The next failure of the same cause founds a new one.
    """
    _resolve(incident)
    incident.refresh_from_db()
    return incident


def resolve_if_passed(incident_id: int, has_passed: Callable[[], bool] = lambda: True) -> bool:
    """open | acknowledged -> resolved because its runs have passed. False: it stays, or was resolved before.

    `has_passed` asks the engine whether every run of the incident has passed. It is called while the row is
    held, so a failure that joins at this moment is either seen by it or founds a new incident.
    """
    with transaction.atomic():
        incident = Incident.objects.select_for_update(no_key=True).get(pk=incident_id)
        return incident.status in UNRESOLVED and has_passed() and _resolve(incident)


def representation(
    incident: Incident, language: str, *, with_runs: bool = False, with_detail: bool = False
) -> dict[str, Any]:
    """Return the incident as SPEC section 13 shows it; `detail` is there only with `with_detail` (staff)."""
    texts = messages.texts(incident.code, incident.params, language)
    answer: dict[str, Any] = {
        "id": str(incident.public_id),
        "title": incident.title or texts.title,
        "impact": incident.impact or texts.impact,
        "status": incident.status,
        "count": incident.count,
        "firstAt": instant_text(incident.first_at),
        "lastAt": instant_text(incident.last_at),
        "ticket": incident.ticket.key if incident.ticket else None,
        "automation": incident.automation,
        "connection": _named(incident.connection),
    }
    if with_runs:
        answer["runs"] = newest_runs(incident)
    if with_detail:
        answer["detail"] = incident.detail
    return answer


def newest_runs(incident: Incident) -> list[str]:
    """Return the public ids of the incident's newest runs, newest first, at most `LISTED_RUNS`."""
    newest = incident.runs.order_by("-id").values_list("public_id", flat=True)[:LISTED_RUNS]
    return [str(public_id) for public_id in newest]


def _fitting(cause: str) -> str:
    """Return `cause`, or one of the column's length that is as unique: its beginning and its SHA-256."""
    if len(cause) <= CAUSE_LENGTH:
        return cause
    digest = hashlib.sha256(cause.encode()).hexdigest()
    return f"{cause[: CAUSE_LENGTH - len(digest) - 1]}#{digest}"


def _resolve(incident: Incident) -> bool:
    """Whether this call resolved it. What waits for the decision is told in the same transaction."""
    with transaction.atomic():
        hit = (
            Incident.objects.of(incident.tenant_id)
            .filter(pk=incident.pk, status__in=UNRESOLVED)
            .update(status=Incident.Status.RESOLVED, resolved_at=Now())
        )
        if hit:
            incident_resolved.send(sender=Incident, incident_id=incident.pk)
    return bool(hit)


def _named(connection: Connection | None) -> dict[str, str] | None:
    return {"id": str(connection.public_id), "name": connection.name} if connection else None
