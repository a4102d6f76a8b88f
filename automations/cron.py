"""Cron expressions of five fields: minute, hour, day of month, month, day of week. Pure.

`*`, lists, ranges, steps and the English names of months and days, Sunday being 0 or 7. As in every cron, an
instant fits when either of the two day fields fits, unless one of them begins with `*`: then both have to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_FIELDS: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "minute": (0, 59, ()),
    "hour": (0, 23, ()),
    "day of month": (1, 31, ()),
    "month": (
        1,
        12,
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ),
    "day of week": (0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
}
_ITEM = re.compile(r"(?:(\*)|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?")
_LONGEST_MONTHS = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
# More than any field has values.
_MAX_LENGTH = 400


class CronError(ValueError):
    """A text that is no cron expression; the message says which field and why."""


@dataclass(frozen=True, slots=True)
class Cron:
    """When a schedule fires, by a clock on the wall; days of the week count from Sunday, 0."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    def matches(self, wall: datetime) -> bool:
        """Say whether the schedule fires in this minute of the wall clock."""
        return wall.minute in self.minutes and wall.hour in self.hours and self.matches_day(wall)

    def matches_day(self, wall: datetime) -> bool:
        """Say whether the schedule fires on this day at all."""
        by_date, by_weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        fits = by_date or by_weekday if self.either_day else by_date and by_weekday
        return wall.month in self.months and fits


def parse(text: str) -> Cron:
    """Return the schedule of a cron expression. Raises CronError, also for a day that no calendar has."""
    fields = text.lower().split()
    if len(text) > _MAX_LENGTH or len(fields) != len(_FIELDS):
        raise CronError("Expected five fields: minute, hour, day of month, month, day of week.")
    minutes, hours, days, months, weekdays = (
        _values(field, name) for field, name in zip(fields, _FIELDS, strict=True)
    )
    cron = Cron(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        either_day=not (fields[2].startswith("*") or fields[4].startswith("*")),
    )
    if not cron.either_day and min(days) > max(_LONGEST_MONTHS.get(month, 31) for month in months):
        raise CronError("This day of month is in none of these months.")
    return cron


def _values(field: str, name: str) -> frozenset[int]:
    return frozenset(value for item in field.split(",") for value in _item(item, name))


def _item(item: str, name: str) -> range:
    low, high, _ = _FIELDS[name]
    found = _ITEM.fullmatch(item)
    if found is None:
        raise CronError(f"The {name} {item[:20]!r} is none of *, n, n-m, */n and lists of these.")
    star, first, last, step = found.groups()
    start = low if star else _number(first, name)
    # `5/15` means from 5 on, as `5-59/15` does.
    end = high if star or (step and last is None) else _number(last or first, name)
    if name == "day of week" and end == 0 < start:
        # Sunday ends the week as well: `sat-sun`.
        end = high
    if not low <= start <= end <= high or step in ("0", "00"):
        raise CronError(f"The {name} {item!r} is outside {low}-{high}.")
    return range(start, end + 1, int(step or 1))


def _number(text: str, name: str) -> int:
    low, _, words = _FIELDS[name]
    if text.isdigit():
        return int(text)
    if text not in words:
        raise CronError(f"The {name} {text!r} is not known.")
    return words.index(text) + low
