"""Makes the run of an event that a sender offered, or says why its body cannot become one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from zoneinfo import ZoneInfo

from django.db import transaction

from automations import contract
from automations.body import Body, BodyError
from automations.contract import Refusal, Values
from csbot.lib import json
from csbot.lib.errors import RequestRefused
from runtime import services
from runtime.intake.offer import Offer
from runtime.models import Run
from runtime.queue import states
from runtime.queue.states import DeliveryIdentity, Enqueued
from runtime.triggers import ordering

BODY_CODES = {400: "body.unreadable", 413: "body.depth", 415: "body.type"}
# Length of the column.
MAX_CONTENT_TYPE = 200


def values_of(offer: Offer, read: Body) -> Values | Refusal:
    """Return the parameters of the addressee's contract, or why the body does not fulfil it."""
    return contract.extract(offer.to.parameters, read.value, zone=ZoneInfo(offer.to.tenant_timezone))


def enqueue(offer: Offer, read: Body, values: Values, identity: DeliveryIdentity | None) -> Enqueued | None:
    """Make the run of an event, with the notes on its body in its log. Returns None when the delivery came before."""
    to = offer.to
    given = {"body": read.value, "headers": offer.headers, "params": values.values}
    rest = json.dumps({"headers": offer.headers, "params": values.values})
    body = json.dumps(read.value) if read.text is None else read.text
    line = ordering.line_of(to.trigger, to.automation_id, given)
    notes = [*read.notes, *values.notes]
    # One statement is a transaction by itself; BEGIN and COMMIT would be two more round trips.
    with transaction.atomic() if notes or line else contextlib.nullcontext():
        run = states.enqueue(
            tenant_id=to.tenant_id,
            automation_id=to.automation_id,
            version_id=to.version_id,
            trigger=Run.Trigger.WEBHOOK,
            priority=to.trigger.get("priority", 5),
            input_json=f'{{"body":{body},{rest[1:]}',
            line=line,
            delivery=identity,
            raw=offer.raw,
            content_type=(offer.content_type or "")[:MAX_CONTENT_TYPE],
        )
        if run is not None:
            for note in notes:
                services.note(to.tenant_id, run.run_id, note.code, level="warning", **note.params)
    return run


def unreadable(error: BodyError) -> RequestRefused:
    """Return the refusal of a body that cannot be read; of a 400 with `line` and `column`."""
    place = {"line": error.line, "column": error.column} if error.status == 400 else None
    return RequestRefused(BODY_CODES[error.status], error.message, status=error.status, extra=place)


def unfulfilled(refusal: Refusal) -> RequestRefused:
    """Return the refusal of a body that does not fulfil the contract, with every parameter at once."""
    told = []
    if refusal.missing:
        told.append(f"missing {_names(refusal.missing)}")
    if refusal.invalid:
        told.append(f"of a wrong type {_names(refusal.invalid)}")
    return RequestRefused(
        "contract",
        f"The body does not fulfil the contract: {'; '.join(told)}.",
        extra={"missing": refusal.missing, "invalid": refusal.invalid},
    )


def _names(parameters: Iterable[dict[str, str]]) -> str:
    return ", ".join(parameter["param"] for parameter in parameters)
