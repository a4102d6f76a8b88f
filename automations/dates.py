"""Dates as text: reading what senders write, the instant behind it, and printing by Django's letters. Pure.

A day alone is its beginning; a date without a zone is in the zone that the caller names (SPEC sections 2.2
and 3.2).
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from email.utils import format_datetime
from typing import NamedTuple, TypeAlias

Moment: TypeAlias = date | datetime
"""A `date` that is no `datetime` is a day alone; a `datetime` always has its zone."""

_ISO = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r" ?(?:(?P<utc>[Zz]|UTC|GMT)"
    r"|(?P<sign>[+-])(?P<h>[0-9]{2})(?::?(?P<m>[0-5][0-9])(?::?(?P<s>[0-5][0-9]))?)?)?)?"
)
_CZECH = re.compile(
    r"(?P<day>[0-9]{1,2})\.\s*(?P<month>[0-9]{1,2})\.\s*(?P<year>[0-9]{4})"
    r"(?:,?\s+(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?)?"
)
# With date, time, seconds and zone there is nothing to add: such a text stays as it was sent, nanoseconds and
# all.
_COMPLETE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
# The longest form, with nanoseconds and an offset to the second, has 38 characters.
_MAX_LENGTH = 48


def read_iso(text: str, zone: tzinfo) -> Moment | None:
    """Return the day or instant of a text `YYYY-MM-DD` with or without a time and a zone, or None.

    ISO 8601 as senders write it: `T` or a blank before the time, `Z`, ` UTC`, `+01:00`, `+0100` or nothing
    after it.
    """
    return _read(_ISO, text, zone)


def read(text: str, zone: tzinfo) -> Moment | None:
    """Return what `read_iso` does, or the day of a Czech `2. 11. 2026` or `2. 11. 2026 14:30`, or None."""
    return _read(_ISO, text, zone) or _read(_CZECH, text, zone)


def _read(form: re.Pattern[str], text: str, zone: tzinfo) -> Moment | None:
    text = text.strip()
    found = form.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if found is None:
        return None
    part = found.groupdict()
    try:
        day = date(int(part["year"]), int(part["month"]), int(part["day"]))
        if part["hour"] is None:
            return day
        fraction = (part.get("fraction") or "").ljust(6, "0")[:6]
        clock = time(int(part["hour"]), int(part["minute"]), int(part["second"] or 0), int(fraction))
        return datetime.combine(day, clock, _offset(part) or zone)
    except ValueError:
        return None


def _offset(part: dict[str, str | None]) -> tzinfo | None:
    if part.get("utc"):
        return UTC
    if not part.get("sign"):
        return None
    ahead = timedelta(hours=int(part["h"] or 0), minutes=int(part["m"] or 0), seconds=int(part["s"] or 0))
    return timezone(-ahead if part["sign"] == "-" else ahead)


def instant(moment: Moment, zone: tzinfo) -> datetime | None:
    """Return the instant in UTC, of a day alone its beginning in `zone`; None at the ends of the calendar.

    Instants are compared in UTC: Python compares two times of one zone by their clocks, wrong on both DST
    days.
    """
    try:
        return beginning(moment, zone).astimezone(UTC)
    except OverflowError:
        return None


def beginning(moment: Moment, zone: tzinfo) -> datetime:
    """Return a moment with its time and zone, of a day alone its first one in `zone`."""
    return moment if isinstance(moment, datetime) else datetime.combine(moment, time(), zone)


def iso_text(text: str, zone: tzinfo) -> str | None:
    """Return the ISO text that a date has in the tree, or None for what is no date.

    `2026-11-02` for a day alone, `2026-11-02T14:30:00+01:00` with a time; the sender's zone is kept, and
    `zone` is that of a text without one.
    """
    moment = read(text, zone)
    if moment is None:
        return None
    text = text.strip()
    return text if _COMPLETE.fullmatch(text) else moment.isoformat()


class Names(NamedTuple):
    """The words of one language, each month and weekday in order, weeks beginning on Monday."""

    months: tuple[str, ...]
    months_alternative: tuple[str, ...]
    months_short: tuple[str, ...]
    months_press: tuple[str, ...]
    weekdays: tuple[str, ...]
    weekdays_short: tuple[str, ...]
    halves: tuple[str, str]
    halves_capital: tuple[str, str]
    midnight: str
    noon: str


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ENGLISH_MONTHS = _words(
    "January February March April May June July August September October November December"
)
# The words of Django's own locales en and cs, so that a text reads as it would in a Django template.
NAMES = {
    "en": Names(
        months=_ENGLISH_MONTHS,
        months_alternative=_ENGLISH_MONTHS,
        months_short=_words("jan feb mar apr may jun jul aug sep oct nov dec"),
        months_press=_words("Jan. Feb. March April May June July Aug. Sept. Oct. Nov. Dec."),
        weekdays=_words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        weekdays_short=_words("Mon Tue Wed Thu Fri Sat Sun"),
        halves=("a.m.", "p.m."),
        halves_capital=("AM", "PM"),
        midnight="midnight",
        noon="noon",
    ),
    "cs": Names(
        months=_words("leden únor březen duben květen červen červenec srpen září říjen listopad prosinec"),
        months_alternative=_words(
            "ledna února března dubna května června července srpna září října listopadu prosince"
        ),
        months_short=_words("led úno bře dub kvě čen čec srp zář říj lis pro"),
        months_press=_words("Led. Úno. Bře. Dub. Kvě. Čer. Čec. Srp. Zář. Říj. Lis. Pro."),
        weekdays=_words("pondělí úterý středa čtvrtek pátek sobota neděle"),
        weekdays_short=_words("po út st čt pá so ne"),
        halves=("dop.", "odp."),
        halves_capital=("dop.", "odp."),
        midnight="půlnoc",
        noon="poledne",
    ),
}


def show(moment: datetime, letters: str, language: str) -> str:
    r"""Return the moment printed by the letters of Django's `date` filter; a backslash keeps a letter.

    Languages without names here are printed in English.
    Source: https://docs.djangoproject.com/en/5.2/ref/templates/builtins/#date
    """
    names = NAMES.get(language, NAMES["en"])
    return _LETTERS.sub(lambda found: found[1] or FORMAT[found[0]](moment, names), letters)


def _hour_of_half(moment: datetime) -> int:
    return moment.hour % 12 or 12


def _short_clock(moment: datetime) -> str:
    return f"{_hour_of_half(moment)}:{moment.minute:02}" if moment.minute else str(_hour_of_half(moment))


def _spoken_clock(moment: datetime, names: Names) -> str:
    if moment.minute == 0 and moment.hour in (0, 12):
        return names.noon if moment.hour else names.midnight
    return f"{_short_clock(moment)} {names.halves[moment.hour // 12]}"


def _ordinal(moment: datetime) -> str:
    if moment.day in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(moment.day % 10, "th")


def _seconds_ahead(moment: datetime) -> int:
    return int((moment.utcoffset() or timedelta()).total_seconds())


def _numeric_offset(moment: datetime) -> str:
    seconds = _seconds_ahead(moment)
    hours, minutes = divmod(abs(seconds) // 60, 60)
    return f"{'-' if seconds < 0 else '+'}{hours:02}{minutes:02}"


FORMAT: dict[str, Callable[[datetime, Names], str]] = {
    "a": lambda at, names: names.halves[at.hour // 12],
    "A": lambda at, names: names.halves_capital[at.hour // 12],
    "b": lambda at, names: names.months_short[at.month - 1],
    "c": lambda at, names: at.isoformat(),
    "d": lambda at, names: f"{at.day:02}",
    "D": lambda at, names: names.weekdays_short[at.weekday()],
    "e": lambda at, names: at.tzname() or "",
    "E": lambda at, names: names.months_alternative[at.month - 1],
    "f": lambda at, names: _short_clock(at),
    "F": lambda at, names: names.months[at.month - 1],
    "g": lambda at, names: str(_hour_of_half(at)),
    "G": lambda at, names: str(at.hour),
    "h": lambda at, names: f"{_hour_of_half(at):02}",
    "H": lambda at, names: f"{at.hour:02}",
    "i": lambda at, names: f"{at.minute:02}",
    "I": lambda at, names: "1" if at.dst() else "0",
    "j": lambda at, names: str(at.day),
    "l": lambda at, names: names.weekdays[at.weekday()],
    "L": lambda at, names: str(calendar.isleap(at.year)),
    "m": lambda at, names: f"{at.month:02}",
    "M": lambda at, names: names.months_short[at.month - 1].title(),
    "n": lambda at, names: str(at.month),
    "N": lambda at, names: names.months_press[at.month - 1],
    "o": lambda at, names: str(at.isocalendar().year),
    "O": lambda at, names: _numeric_offset(at),
    "P": lambda at, names: _spoken_clock(at, names),
    "r": lambda at, names: format_datetime(at),
    "s": lambda at, names: f"{at.second:02}",
    "S": lambda at, names: _ordinal(at),
    "t": lambda at, names: str(calendar.monthrange(at.year, at.month)[1]),
    "T": lambda at, names: at.tzname() or "",
    "u": lambda at, names: f"{at.microsecond:06}",
    "U": lambda at, names: str(int(at.timestamp())),
    "w": lambda at, names: str(at.isoweekday() % 7),
    "W": lambda at, names: str(at.isocalendar().week),
    "y": lambda at, names: f"{at.year % 100:02}",
    "Y": lambda at, names: f"{at.year:04}",
    "z": lambda at, names: str(at.timetuple().tm_yday),
    "Z": lambda at, names: str(_seconds_ahead(at)),
}
_LETTERS = re.compile(rf"\\(.)|[{''.join(FORMAT)}]", re.DOTALL)
