"""Starts what reconciliation found missing, once, however often it is asked for (SPEC section 11)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import transaction

from automations.models import Automation
from csbot.lib.errors import RequestRefused
from runtime import missed, services
from runtime.missed import Missed
from runtime.models import Delivery
from runtime.triggers import reactions
from runtime.triggers import tickets as ticket_triggers
from tickets.events import Actor
from tickets.models import Tenant, TicketEvent

# A delivery's body is kept with its run: who lost the run lost both, so its sender has to send it again.
BODY_GONE = "delivery.bodyGone"
NOT_ACTIVE = "automation.notActive"


@dataclass
class Started:
    """The public ids of the runs that stand for the events now, and why others could not be started."""

    run_ids: list[str] = field(default_factory=list)
    not_started: list[dict[str, str]] = field(default_factory=list)


def start(tenant: Tenant, actor: Actor, ids: Sequence[uuid.UUID]) -> Started:
    """Start the runs of missing events; a repeat answers with the runs of the first time. What is not missing stays.

    `ids` are those that reconciliation lists. Raises RequestRefused 404 for ids of no event or delivery of the tenant.
    """
    events = {row.pk: row for row in TicketEvent.objects.of(tenant).filter(public_id__in=ids)}
    deliveries = list(Delivery.objects.of(tenant).filter(public_id__in=ids, outcome=Delivery.Outcome.TAKEN))
    unknown = set(ids) - {row.public_id for row in (*events.values(), *deliveries)}
    if unknown:
        message = f"There is no such event: {', '.join(sorted(map(str, unknown)))}."
        raise RequestRefused("reconciliation.unknown", message, status=404)
    started = Started()
    for one in _missing(tenant, events):
        if not _start(tenant, actor, one):
            started.not_started.append({"id": str(one.public_id), "reason": NOT_ACTIVE})
    for delivery in deliveries:
        if delivery.run_id is None:
            started.not_started.append({"id": str(delivery.public_id), "reason": BODY_GONE})
    started.run_ids = reactions.late_runs(tenant.pk, list(events))
    return started


def _missing(tenant: Tenant, events: dict[int, TicketEvent]) -> list[Missed]:
    if not events:
        return []
    arrived = [event.at for event in events.values()]
    ends = max(arrived) + timedelta(microseconds=1)
    return missed.missed(tenant, min(arrived), ends, list(events))


def _start(tenant: Tenant, actor: Actor, one: Missed) -> bool:
    """Start one event's run on the published version. False: the automation is not active with a ticket trigger."""
    automation = Automation.objects.of(tenant).select_related("published").get(pk=one.automation_id)
    version = automation.published
    is_active = version is not None and automation.state == Automation.State.ACTIVE
    if version is None or not is_active or version.tree["trigger"]["kind"] != "ticket":
        return False
    related = ("ticket__type", "ticket__assignee", "ticket__group")
    event = TicketEvent.objects.of(tenant).select_related(*related).get(pk=one.event_id)
    with transaction.atomic():
        reaction = reactions.take_late(automation, event.pk)
        if reaction is None:
            return True
        word, changes = missed.event_of(event.kind), event.data["changes"]
        run = ticket_triggers.enqueue(automation, event.ticket, word, changes)
        reactions.set_run(reaction, run.run_id)
        services.note(tenant.pk, run.run_id, "run.started", actor=actor.name)
    return True
