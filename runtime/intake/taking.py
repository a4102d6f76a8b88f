"""Takes an event in: reads it, recognises a repeat, checks the contract, makes the run (SPEC section 2).

Invariant: `Taken` is returned only after the commit of what it tells; nothing but PostgreSQL is asked.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from automations import body
from automations.body import Body, BodyError
from automations.contract import Refusal, Values
from automations.values import MISSING
from csbot.lib.errors import RequestRefused
from runtime.intake import answers, delivery, rejected, starting
from runtime.intake.arrival import Arrival
from runtime.intake.database import Patience
from runtime.intake.offer import Offer
from runtime.queue.states import DeliveryIdentity

# The second time the key that was in the way is free; a third time it can only be in the way of a storm.
TRIES = 3


@dataclass(frozen=True)
class Taken:
    """An event that is on disk: its run, or None for a parked one. `is_duplicate`: it was taken before."""

    run_id: uuid.UUID | None
    is_duplicate: bool = False


def take(offer: Offer, arrival: Arrival, patience: Patience) -> Taken:
    """Take the event in. Raises RequestRefused 400, 413, 415, 422 and database.Unavailable.

    What is refused with 400 or 422 has been kept; where the trigger parks, there is no 400.
    """
    dedupe = offer.to.trigger.get("dedupe")
    try:
        read = body.read(offer.raw, offer.content_type)
    except BodyError as error:
        refusal = starting.unreadable(error)
        if refusal.status != 400:
            raise refusal from error
        identity = delivery.identity(arrival, dedupe, offer.raw, MISSING)
        with patience.spent():
            return _refuse(offer, identity, refusal)
    identity = delivery.identity(arrival, dedupe, offer.raw, read.value)
    values = starting.values_of(offer, read)
    with patience.spent():
        if isinstance(values, Refusal):
            return _repeated(offer, identity) or _refuse(offer, identity, starting.unfulfilled(values))
        return _start(offer, identity, read, values)


def _start(offer: Offer, identity: DeliveryIdentity, read: Body, values: Values) -> Taken:
    for _ in range(TRIES):
        run = starting.enqueue(offer, read, values, identity)
        if run is not None:
            return Taken(run.public_id)
        repeated = _repeated(offer, identity)
        if repeated is not None:
            return repeated
        _let_go(offer, identity)
    raise answers.unavailable()


def _refuse(offer: Offer, identity: DeliveryIdentity, refusal: RequestRefused) -> Taken:
    """Keep what cannot become a run: park it, or raise its refusal."""
    if offer.to.trigger.get("onRefusal") != "park":
        rejected.keep(offer, identity, refusal)
        raise refusal
    for _ in range(TRIES):
        if rejected.park(offer, identity, refusal):
            return Taken(None)
        repeated = _repeated(offer, identity)
        if repeated is not None:
            return repeated
        _let_go(offer, identity)
    raise answers.unavailable()


def _repeated(offer: Offer, identity: DeliveryIdentity) -> Taken | None:
    """Return the first taking of a repeated delivery, None for a new one. Raises RequestRefused 422: another body."""
    known = delivery.known(offer.to.tenant_id, offer.to.automation_id, identity.key)
    if known is None:
        return None
    if known.sha256 != identity.sha256:
        refusal = RequestRefused(
            "delivery.conflict", "The same delivery id came before with another body.", status=422
        )
        rejected.keep(offer, identity, refusal)
        raise refusal
    delivery.count(offer.to, duplicate=1)
    return Taken(known.run_id, is_duplicate=True)


def _let_go(offer: Offer, identity: DeliveryIdentity) -> None:
    if identity.key is not None:
        delivery.let_go(offer.to.tenant_id, offer.to.automation_id, identity.key)
