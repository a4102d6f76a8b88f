"""What makes two requests one delivery, and which deliveries came before (SPEC section 2.3).

A delivery that was taken or parked is remembered for 7 days under the id that its sender gave it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models.functions import Now

from automations import contract, values
from automations.values import MISSING
from runtime.intake.arrival import Arrival
from runtime.intake.offer import Addressee
from runtime.models import Delivery
from runtime.queue.states import DeliveryIdentity

REMEMBERED = timedelta(days=7)
# A header or value longer than this is known by its SHA-256; the column has 500.
MAX_KEY = 300
# The ids that senders give of themselves, the first that came counts.
KNOWN_HEADERS = (
    "Idempotency-Key",
    "webhook-id",
    "X-GitHub-Delivery",
    "X-Shopify-Webhook-Id",
    "X-WC-Webhook-Delivery-ID",
)
# WooCommerce hashes its webhook's id and the second: two orders of one second have the same id.
NOT_UNIQUE = "x-wc-webhook-delivery-id"
REMEMBERED_OUTCOMES = (Delivery.Outcome.TAKEN, Delivery.Outcome.PARKED)

COUNT = """
INSERT INTO runtime_deliverycount AS known (tenant_id, automation_id, day, refused, duplicate)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (automation_id, day) DO UPDATE
SET refused = known.refused + excluded.refused, duplicate = known.duplicate + excluded.duplicate
"""


@dataclass(frozen=True)
class Known:
    """A delivery that came before: the run it made (None when it was parked) and the SHA-256 of its body."""

    run_id: uuid.UUID | None
    sha256: bytes


def identity(arrival: Arrival, dedupe: Mapping[str, Any] | None, raw: bytes, body: Any) -> DeliveryIdentity:
    """Return what identifies a delivery: what the trigger's `dedupe` names, else what a known header says.

    `body` is the body as data, or MISSING when it could not be read. The key is None where nothing is named.
    """
    sha256 = hashlib.sha256(raw).digest()
    return DeliveryIdentity(
        _named_key(arrival, dedupe or {}, sha256, body) or _known_key(arrival, sha256), sha256
    )


def known(tenant_id: int, automation_id: int, key: str | None) -> Known | None:
    """Return the delivery with this key that was taken or parked within the last 7 days, or None."""
    if key is None:
        return None
    found = (
        Delivery.objects.of(tenant_id)
        .filter(
            automation_id=automation_id, key=key, outcome__in=REMEMBERED_OUTCOMES, at__gt=Now() - REMEMBERED
        )
        .values_list("run__public_id", "sha256")
        .first()
    )
    return Known(found[0], bytes(found[1])) if found else None


def let_go(tenant_id: int, automation_id: int, key: str) -> None:
    """Free a key whose 7 days have passed, so that a new delivery may have it."""
    Delivery.objects.of(tenant_id).filter(
        automation_id=automation_id, key=key, outcome__in=REMEMBERED_OUTCOMES, at__lte=Now() - REMEMBERED
    ).update(key=None)


def forget_old(limit: int = 10_000) -> int:
    """Delete deliveries of all tenants that are older than 7 days, kept bodies with them; return how many.

    Idempotent, for a periodic tick; at most `limit` at once, so that no transaction becomes long.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM runtime_delivery WHERE id IN (SELECT id FROM runtime_delivery "
            "WHERE at < clock_timestamp() - %s ORDER BY at LIMIT %s FOR UPDATE SKIP LOCKED)",
            [REMEMBERED, limit],
        )
        return int(cursor.rowcount)


def count(addressee: Addressee, *, refused: int = 0, duplicate: int = 0) -> None:
    """Count deliveries that made no run, on the present day of the tenant.

    In a transaction the row stays locked to its end, so whoever counts first does alone for this automation what
    follows.
    """
    day = datetime.now(ZoneInfo(addressee.tenant_timezone)).date()
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [addressee.tenant_id, addressee.automation_id, day, refused, duplicate])


def _named_key(arrival: Arrival, dedupe: Mapping[str, Any], sha256: bytes, body: Any) -> str | None:
    if "header" in dedupe:
        return _header_key(arrival, str(dedupe["header"]), sha256)
    if "path" in dedupe and body is not MISSING:
        path = str(dedupe["path"])
        return _key(f"path {path}", values.text_of(contract.lookup_path(path, body)))
    return None


def _known_key(arrival: Arrival, sha256: bytes) -> str | None:
    keys = (_header_key(arrival, name, sha256) for name in KNOWN_HEADERS)
    return next((key for key in keys if key is not None), None)


def _header_key(arrival: Arrival, name: str, sha256: bytes) -> str | None:
    value = arrival.header(name)
    if value is None:
        return None
    name = name.lower()
    return _key(name, f"{value} {sha256.hex()}" if name == NOT_UNIQUE else value)


def _key(source: str, value: str) -> str | None:
    """Return the key of an id: its source belongs to it, so that the numbers of two sources are never one."""
    if not value.strip():
        return None
    key = f"{source}: {value}"
    return key if len(key) <= MAX_KEY else f"sha256: {hashlib.sha256(key.encode()).hexdigest()}"
