"""Numbers of tickets: each tenant counts its own in a row of its own, so that counting locks nothing else."""

from __future__ import annotations

import re

from django.db import connection

from tickets.models import Tenant

# Spelled out: the classes of `re` take the digits of every script, and `IGNORECASE` the Kelvin sign for a K.
_KEY = re.compile(r"\s*[tT][kK]-([0-9]{1,18})\s*")


def read_key(text: str) -> int | None:
    """Return 12 for `TK-12` in any case, None for every other text."""
    match = _KEY.fullmatch(text)
    return int(match.group(1)) if match else None


def take(tenant: Tenant) -> int:
    """Return the tenant's next ticket number; others that take one wait until this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tickets_ticketcounter AS counter (tenant_id, next_number) VALUES (%s, 2)"
            " ON CONFLICT (tenant_id) DO UPDATE SET next_number = counter.next_number + 1"
            " RETURNING next_number - 1",
            [tenant.pk],
        )
        return int(cursor.fetchone()[0])
