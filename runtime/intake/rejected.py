"""Bodies that made no run: refused with 400 or 422, or parked (SPEC sections 2.3 and 2.5). Kept, listed, replayed.

Invariant: at most 1,000 bodies and 100 MiB of each automation, of the last 7 days; the oldest go first.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from automations import body, contract
from automations.body import BodyError
from automations.contract import Parameter, Refusal
from automations.models import Automation
from csbot.lib import json
from csbot.lib.errors import RequestRefused
from csbot.lib.values import instant_text
from incidents import services as incidents
from runtime.intake import delivery, starting
from runtime.intake.offer import Addressee, Offer
from runtime.models import Delivery
from runtime.queue.states import DeliveryIdentity
from tickets.models import Tenant

MAX_KEPT = 1_000
MAX_KEPT_BYTES = 100 * 1024 * 1024
# The status of the one refusal that mending the contract does not help.
CONFLICT = 422

# None of a parked delivery's row comes back when its key is another one's already.
INSERT = """
INSERT INTO runtime_delivery (public_id, tenant_id, automation_id, key, sha256, outcome, refusal, raw, headers, at)
VALUES (gen_random_uuid(), %s, %s, %s, %s, %s, %s::jsonb, %s, %s::jsonb, clock_timestamp())
ON CONFLICT (automation_id, key) WHERE outcome IN ('taken', 'parked') AND key IS NOT NULL DO NOTHING
RETURNING id
"""
# The length of a stored body is read without reading the body. A parked delivery stays remembered without its body.
MAKE_ROOM = """
WITH kept AS (
  SELECT id, row_number() OVER newest AS place, sum(octet_length(raw)) OVER newest AS bytes
  FROM runtime_delivery WHERE automation_id = %s AND outcome <> 'taken' AND raw IS NOT NULL
  WINDOW newest AS (ORDER BY id DESC)
), surplus AS (SELECT id FROM kept WHERE place > %s OR bytes > %s),
gone AS (DELETE FROM runtime_delivery USING surplus WHERE runtime_delivery.id = surplus.id AND outcome = 'refused')
UPDATE runtime_delivery SET raw = NULL, headers = NULL, refusal = NULL
FROM surplus WHERE runtime_delivery.id = surplus.id AND outcome = 'parked'
"""


@dataclass(frozen=True)
class Replayed:
    """What became of a kept body: `accepted` with its new run, `duplicate` with the run that its delivery has made
    meanwhile, or `refused` again, with the reasons of today."""

    id: uuid.UUID
    status: str
    run_id: uuid.UUID | None = None
    reason: str = ""
    missing: list[dict[str, str]] = field(default_factory=list)
    invalid: list[dict[str, str]] = field(default_factory=list)


def keep(offer: Offer, identity: DeliveryIdentity, refusal: RequestRefused) -> None:
    """Keep a body that was refused, and count it."""
    with transaction.atomic():
        delivery.count(offer.to, refused=1)
        _insert(offer, identity, Delivery.Outcome.REFUSED, refusal)
        _make_room(offer.to.automation_id)


def park(offer: Offer, identity: DeliveryIdentity, refusal: RequestRefused) -> bool:
    """Keep a body for which its sender is told a success, with an incident. False: its delivery came before."""
    with transaction.atomic():
        if not _insert(offer, identity, Delivery.Outcome.PARKED, refusal):
            return False
        delivery.count(offer.to, refused=1)
        _make_room(offer.to.automation_id)
        automation = Automation.objects.of(offer.to.tenant_id).get(pk=offer.to.automation_id)
        incidents.open_incident(
            Tenant.objects.get(pk=offer.to.tenant_id),
            cause=f"{automation.public_id}//delivery.parked",
            code="delivery.parked",
            params={"ticket": None, "automation": automation.name},
            detail={"refusal": _record(refusal), "headers": dict(offer.headers)},
            automation={"id": str(automation.public_id), "name": automation.name},
        )
    return True


def list_for(automation: Automation) -> QuerySet[Delivery]:
    """Return the kept bodies of an automation, newest first, without the bytes."""
    return _kept(automation).defer("raw", "headers").order_by("-id")


def representation(kept: Delivery) -> dict[str, Any]:
    """Return a kept body as SPEC section 13 shows it; `status` is why it made no run, also where it was parked."""
    refusal: dict[str, Any] = kept.refusal or {}
    return {
        "id": str(kept.public_id),
        "at": instant_text(kept.at),
        "status": refusal.get("status"),
        "reason": refusal.get("reason"),
        "missing": refusal.get("missing", []),
        "invalid": refusal.get("invalid", []),
    }


def replay(automation: Automation, ids: Sequence[uuid.UUID] | None) -> list[Replayed]:
    """Make runs of kept bodies by the contract of today, the oldest first; what fulfils it leaves the list.

    `ids` names bodies, None means all but those whose delivery id came with two bodies (422): such a one becomes a run
    only when it is named, for a person decides that it is another event. Unknown ids are passed over. Raises
    RequestRefused 409 when the automation is not active or not started by a webhook.
    """
    addressee = _addressee(automation)
    kept = _kept(automation)
    chosen = kept.exclude(refusal__status=CONFLICT) if ids is None else kept.filter(public_id__in=ids)
    results = (_replay(addressee, pk) for pk in chosen.order_by("id").values_list("pk", flat=True)[:MAX_KEPT])
    return [result for result in results if result is not None]


@dataclass(frozen=True)
class _Published:
    """The published version of an automation, as the addressee of its kept bodies."""

    tenant_id: int
    tenant_timezone: str
    automation_id: int
    version_id: int
    trigger: Mapping[str, Any]
    parameters: Sequence[Parameter]


def _addressee(automation: Automation) -> Addressee:
    version = automation.published
    if version is None or automation.state != Automation.State.ACTIVE:
        raise RequestRefused(
            "automation.notActive",
            "Only an active automation can take bodies; publish or resume it.",
            status=409,
        )
    trigger = version.tree["trigger"]
    if trigger.get("kind") != "webhook":
        raise RequestRefused("webhook.none", "This automation is not started by a webhook.", status=409)
    return _Published(
        tenant_id=automation.tenant_id,
        tenant_timezone=automation.tenant.timezone,
        automation_id=automation.pk,
        version_id=version.pk,
        trigger=trigger,
        parameters=contract.parse_params(trigger.get("params") or []),
    )


def _kept(automation: Automation) -> QuerySet[Delivery]:
    return Delivery.objects.of(automation.tenant_id).filter(
        automation=automation,
        outcome__in=[Delivery.Outcome.REFUSED, Delivery.Outcome.PARKED],
        raw__isnull=False,
        at__gt=Now() - delivery.REMEMBERED,
    )


def _replay(addressee: Addressee, pk: int) -> Replayed | None:
    """Replay one body; None when it is gone, or in another replay's hands."""
    try:
        return _replay_once(addressee, pk)
    except IntegrityError:
        # Its delivery was taken at this moment, so now it is found to be known.
        return _replay_once(addressee, pk)


def _replay_once(addressee: Addressee, pk: int) -> Replayed | None:
    with transaction.atomic():
        rows = Delivery.objects.of(addressee.tenant_id).filter(pk=pk, raw__isnull=False)
        row = rows.select_for_update(skip_locked=True).exclude(outcome=Delivery.Outcome.TAKEN).first()
        if row is None:
            return None
        # A body that came under the id of another one is a delivery without an id.
        key = row.key if row.refusal["status"] != CONFLICT else None
        if row.outcome == Delivery.Outcome.REFUSED and key is not None:
            known = delivery.known(addressee.tenant_id, addressee.automation_id, key)
            if known is not None:
                row.delete()
                return Replayed(row.public_id, "duplicate", known.run_id)
            delivery.let_go(addressee.tenant_id, addressee.automation_id, key)
        return _start(addressee, row, key)


def _start(addressee: Addressee, row: Delivery, key: str | None) -> Replayed:
    """Make the run of a locked row's body and let the row be its delivery, or tell why it is refused again."""
    offer = Offer(addressee, bytes(row.raw), row.headers.get("content-type"), row.headers)
    try:
        read = body.read(offer.raw, offer.content_type)
    except BodyError as error:
        return _refused_again(row, starting.unreadable(error))
    values = starting.values_of(offer, read)
    if isinstance(values, Refusal):
        return _refused_again(row, starting.unfulfilled(values))
    run = starting.enqueue(offer, read, values, None)
    assert run is not None, "a run without an identity is never a duplicate"
    Delivery.objects.of(row.tenant_id).filter(pk=row.pk).update(
        outcome=Delivery.Outcome.TAKEN,
        run=run.run_id,
        key=key,
        refusal=None,
        raw=None,
        headers=None,
        at=Now(),
    )
    return Replayed(row.public_id, "accepted", run.public_id)


def _refused_again(row: Delivery, refusal: RequestRefused) -> Replayed:
    """Let a kept body show the reasons of today; one of 422 stays one."""
    record = _record(refusal)
    if row.refusal["status"] != CONFLICT:
        Delivery.objects.of(row.tenant_id).filter(pk=row.pk).update(refusal=record)
    return Replayed(
        row.public_id,
        "refused",
        reason=record["reason"],
        missing=record["missing"],
        invalid=record["invalid"],
    )


def _insert(offer: Offer, identity: DeliveryIdentity, outcome: str, refusal: RequestRefused) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            INSERT,
            [
                offer.to.tenant_id,
                offer.to.automation_id,
                identity.key,
                identity.sha256,
                outcome,
                json.dumps(_record(refusal)),
                offer.raw,
                json.dumps(offer.headers),
            ],
        )
        return cursor.fetchone() is not None


def _make_room(automation_id: int) -> None:
    """Let the oldest bodies go; whoever has counted a refusal in this transaction does it alone."""
    with connection.cursor() as cursor:
        cursor.execute(MAKE_ROOM, [automation_id, MAX_KEPT, MAX_KEPT_BYTES])


def _record(refusal: RequestRefused) -> dict[str, Any]:
    return {
        "status": refusal.status,
        "code": refusal.code,
        "reason": refusal.message,
        "missing": refusal.extra.get("missing", []),
        "invalid": refusal.extra.get("invalid", []),
    }
