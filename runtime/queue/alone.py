"""Lets one process at a time do a periodic duty: two beats do no harm, the second finds the duty taken."""

from __future__ import annotations

from django.db import connection


def take(duty: str) -> bool:
    """Take the advisory lock of a duty until the end of this transaction. False: another one does it now."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtextextended('csbot ' || %s, 0))", [duty])
        return bool(cursor.fetchone()[0])
