"""The database's clock: the only one that due times and leases are made of, the same for every process."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection


def now() -> datetime:
    """Return the present instant of the database, in UTC."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        instant: datetime = cursor.fetchone()[0]
        return instant


def in_seconds(seconds: float) -> datetime:
    """Return the instant `seconds` from now; earlier for a negative number."""
    return now() + timedelta(seconds=seconds)
