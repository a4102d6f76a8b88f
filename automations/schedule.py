"""When a cron expression fires next by the clock on a tenant's wall (SPEC section 7). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from automations import cron
from automations.cron import Cron

# A 29th of February comes back within eight years, also around 2100.
MAX_DAYS = 366 * 8 + 2
MINUTE = timedelta(minutes=1)


def next_at(expression: str, after: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the first instant after `after` (aware) at which the expression fires, in UTC; None for never.

    A local time that does not exist fires at the next that does; one that exists twice fires once, the first
    time. Raises CronError for an expression that is none.
    """
    parsed = cron.parse(expression)
    first = after.astimezone(zone).date()
    for offset in range(MAX_DAYS):
        for wall in _walls(parsed, first + timedelta(days=offset)):
            instant = _instant(wall, zone)
            if instant > after:
                return instant
    return None


def _walls(parsed: Cron, day: date) -> Iterator[datetime]:
    midnight = datetime(day.year, day.month, day.day)
    if parsed.matches_day(midnight):
        for hour in sorted(parsed.hours):
            for minute in sorted(parsed.minutes):
                yield midnight.replace(hour=hour, minute=minute)


def _instant(wall: datetime, zone: ZoneInfo) -> datetime:
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    while instant.astimezone(zone).replace(tzinfo=None) != wall:
        wall += MINUTE
        instant = wall.replace(tzinfo=zone).astimezone(UTC)
    return instant
