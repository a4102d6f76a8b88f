"""A 429 closes the whole connection, for all methods and all workers (SPEC section 10).

The only writer of `Connection.closed_until` and `refusals`. All instants are the database's clock.
"""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import Error as DatabaseFailure
from django.db import connection as database

from connectors.models import Connection
from csbot.lib.errors import Snooze, TerminalError

# SPEC section 10: without a named time 30 s, doubling to 15 min.
FIRST_PAUSE_SECONDS = 30
LONGEST_PAUSE_SECONDS = 900

logger = logging.getLogger(__name__)

# Several calls under way at once are refused together; only the first of them counts as one more in a row.
_CLOSE = """
UPDATE connectors_connection SET
    refusals = CASE WHEN closed_until > clock_timestamp() THEN refusals ELSE refusals + 1 END,
    closed_until = GREATEST(closed_until, clock_timestamp() + make_interval(secs => COALESCE(
        %(named)s::float8,
        CASE WHEN closed_until > clock_timestamp() THEN 0
             ELSE LEAST(%(first)s * 2 ^ LEAST(refusals, 10), %(longest)s) END)))
WHERE id = %(id)s AND tenant_id = %(tenant)s
RETURNING closed_until
"""

_LOOK = """
SELECT closed_until, refusals, closed_until > clock_timestamp()
FROM connectors_connection WHERE id = %(id)s AND tenant_id = %(tenant)s
"""

# The success of a call that began before the closing does not open the connection again.
_REOPEN = """
UPDATE connectors_connection SET refusals = 0, closed_until = NULL
WHERE id = %(id)s AND tenant_id = %(tenant)s AND refusals > 0
  AND (closed_until IS NULL OR closed_until <= clock_timestamp())
"""


def expect_open(account: Connection) -> int:
    """Return how many refusals in a row the connection has had.

    Raises Snooze `rate` while it is closed, TerminalError `missing.connection` when it has been deleted.
    """
    with database.cursor() as cursor:
        cursor.execute(_LOOK, _place(account))
        row = cursor.fetchone()
    if row is None:
        raise TerminalError("missing.connection", f"The connection {account.name} has been deleted.")
    closed_until, refusals, is_closed = row
    if is_closed:
        raise Snooze("rate", until=closed_until)
    return int(refusals)


def close(account: Connection, named_seconds: float | None) -> datetime | None:
    """Close the connection for as long as the service named, else for the next pause; return until when.

    None when the connection is gone.
    """
    values = {"named": named_seconds, "first": FIRST_PAUSE_SECONDS, "longest": LONGEST_PAUSE_SECONDS}
    with database.cursor() as cursor:
        cursor.execute(_CLOSE, {**_place(account), **values})
        row = cursor.fetchone()
    return row[0] if row else None


def forget(account: Connection) -> bool:
    """Start counting anew after a success; False when there was nothing to forget.

    Losing this write must not lose the answer of the call, so a database that fails is only logged: the next
    success repeats it.
    """
    try:
        with database.cursor() as cursor:
            cursor.execute(_REOPEN, _place(account))
            return bool(cursor.rowcount)
    except DatabaseFailure:
        logger.warning(
            "The refusals of connection %s could not be forgotten.", account.public_id, exc_info=True
        )
        return False


def _place(account: Connection) -> dict[str, int]:
    return {"id": account.pk, "tenant": account.tenant_id}
