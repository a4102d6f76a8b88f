"""The filters of templates: a closed list of named functions over data (SPEC section 3.1). Pure.

What did not arrive and null pass through every filter but `default` and `json` as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, NamedTuple, TypeAlias

from automations import dates, values
from automations.values import MISSING

Argument: TypeAlias = str | int | Decimal | bool

# What a number with that many digits after its point is printed for, nobody reads.
MAX_PLACES = 20
_PLACES = range(MAX_PLACES + 1)
# Digits of a rounded number: those that a body may bring, and the places.
_CONTEXT = Context(prec=values.MAX_DIGITS + MAX_PLACES, rounding=ROUND_HALF_UP)


class FilterError(ValueError):
    """A value or an argument that a filter cannot take: what it expected and the kind of what came."""


class Reader(NamedTuple):
    """For whom a template is rendered. Without a zone a date keeps its own, and one without any is in UTC."""

    zone: tzinfo | None = None
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter, as the catalogue documents it.

    `arguments` are the kinds of its arguments, `text`, `places` or `any`, of which the first `required` must
    be given.
    """

    name: str
    signature: str
    doc: str
    example: str
    apply: Callable[[Any, tuple[Argument, ...], Reader], Any]
    arguments: tuple[str, ...] = ()
    required: int = 0

    def check(self, arguments: tuple[Argument, ...]) -> None:
        """Raise FilterError for arguments that the filter does not take."""
        if not self.required <= len(arguments) <= len(self.arguments):
            raise FilterError(f"expected `{self.signature}`, came {len(arguments)} arguments")
        for kind, argument in zip(self.arguments, arguments, strict=False):
            if kind == "places" and argument not in _PLACES:
                raise FilterError(f"expected `{self.signature}` with 0 to {MAX_PLACES} places")
            if kind == "text" and not isinstance(argument, str):
                raise FilterError(f"expected `{self.signature}`, a text in quotes")


def _default(value: Any, arguments: tuple[Argument, ...], reader: Reader) -> Any:
    return arguments[0] if values.is_empty(value) else value


def _date(value: Any, arguments: tuple[Argument, ...], reader: Reader) -> Any:
    if values.is_empty(value):
        return value
    zone = reader.zone or UTC
    moment = dates.read(value, zone) if isinstance(value, str) else None
    if moment is None:
        raise FilterError(f"expected a date such as 2026-11-02 or 2. 11. 2026, came {_told(value)}")
    at = dates.beginning(moment, zone)
    if isinstance(moment, datetime) and reader.zone is not None and (instant := dates.instant(moment, zone)):
        at = instant.astimezone(zone)
    return dates.show(at, str(arguments[0]), reader.language)


def _number(value: Any, arguments: tuple[Argument, ...], reader: Reader) -> Any:
    if values.is_empty(value):
        return value
    number = values.number_in(value)
    if number is None:
        raise FilterError(f"expected a number, came {_told(value)}")
    places, point = arguments[0], str(arguments[1]) if len(arguments) > 1 else "."
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    rounded = exact.quantize(Decimal(1).scaleb(-int(places)), context=_CONTEXT)
    return format(abs(rounded) if rounded == 0 else rounded, "f").replace(".", point)


def _text_filter(change: Callable[[str], str]) -> Callable[[Any, tuple[Argument, ...], Reader], Any]:
    def apply(value: Any, arguments: tuple[Argument, ...], reader: Reader) -> Any:
        return value if value is MISSING or value is None else change(values.text_of(value))

    return apply


def _json(value: Any, arguments: tuple[Argument, ...], reader: Reader) -> Any:
    return value if value is MISSING else values.json_of(value)


def _first(value: Any, arguments: tuple[Argument, ...], reader: Reader) -> Any:
    if not isinstance(value, list):
        return value
    return value[0] if value else MISSING


def _join(value: Any, arguments: tuple[Argument, ...], reader: Reader) -> Any:
    if not isinstance(value, list):
        return value if value is MISSING or value is None else values.text_of(value)
    separator = str(arguments[0]) if arguments else ", "
    return separator.join(values.text_of(part) for part in value)


def _told(value: Any) -> str:
    """Return the kind of a value, and a short text itself: whoever reads this may read the run's data."""
    kind = values.kind(value)
    return f'text "{value}"' if kind == "text" and len(value) <= 40 and re.match(r"[\S ]+\Z", value) else kind


FILTERS: dict[str, Filter] = {
    one.name: one
    for one in (
        Filter(
            "default",
            'default: "x"',
            "Puts something in place of a value that is empty or did not arrive; 0 and false are values.",
            '{{customer.name | default: "unknown"}}',
            _default,
            ("any",),
            1,
        ),
        Filter(
            "date",
            'date: "d. m. Y"',
            "Prints a date by the letters of Django's date filter, in the company's time zone and language.",
            '{{dueDate | date: "d. m. Y"}}',
            _date,
            ("text",),
            1,
        ),
        Filter(
            "number",
            'number: 2, ","',
            "Rounds half up to so many places and prints them all; the second argument replaces the point.",
            "{{price | number: 2}}",
            _number,
            ("places", "text"),
            1,
        ),
        Filter("lower", "lower", "Makes all letters small.", "{{email | lower}}", _text_filter(str.lower)),
        Filter("upper", "upper", "Makes all letters capital.", "{{code | upper}}", _text_filter(str.upper)),
        Filter("trim", "trim", "Takes blanks off both ends.", "{{code | trim}}", _text_filter(str.strip)),
        Filter("json", "json", "Writes the value as JSON.", "{{_body | json}}", _json),
        Filter(
            "first",
            "first",
            "Takes the first item of an array; of an empty one nothing arrives, any other value stays.",
            "{{items | first}}",
            _first,
        ),
        Filter(
            "join",
            'join: ", "',
            "Writes the items of an array as one text, with the separator between them.",
            '{{tags | join: ", "}}',
            _join,
            ("text",),
        ),
    )
}
