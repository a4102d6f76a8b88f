"""Custom fields of tickets: a type defines them, every writing is checked against that (SPEC section 8).

Pure: definitions are the JSON of `TicketType.fields`, values are JSON. A value is stored under the field's
`key`; a caller may name the field by its `key` or its `id`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from csbot.lib.values import escape, is_storable

TYPES = ("text", "number", "date", "boolean", "select", "multiselect", "url", "email")

MAX_TEXT = 10_000
"""Characters of a text value: a page or two; longer text belongs into the description."""

MAX_URL = 2_000
"""Characters of an address: what browsers and proxies pass on without trouble."""

MAX_DIGITS = 4_000
"""Digits of a number written out, as SPEC section 2.1 allows them."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII)


class BadField(ValueError):
    """A value does not fit its field; the message says what is expected."""


def merged(
    definitions: Sequence[Mapping[str, Any]], current: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return `current` with `given` merged in, and the faults by JSON pointer (relative to `fields`).

    Null or blank text removes a value. A value that is there already is not checked again, so a definition
    that became stricter forbids no edit of another field. A stored field that the type does not define may be
    removed.
    """
    by_name = {name: one for one in definitions for name in (one.get("id"), one.get("key")) if name}
    result = dict(current)
    faults: dict[str, str] = {}
    for name, value in given.items():
        definition = by_name.get(name)
        key = definition["key"] if definition else name
        try:
            _merge_one(result, definition, key, value)
        except BadField as error:
            faults[f"/{escape(name)}"] = str(error)
    return result, faults


def _merge_one(result: dict[str, Any], definition: Mapping[str, Any] | None, key: str, value: Any) -> None:
    if is_blank(value):
        if definition and definition.get("required") and key in result:
            raise BadField("This field is required; it cannot be removed.")
        result.pop(key, None)
        return
    if definition is None:
        if key not in result or not equal(result[key], value):
            raise BadField("The ticket's type defines no such field.")
        return
    if key in result and equal(result[key], value):
        return
    clean = checked(definition, value)
    if key not in result or not _is_same_value(result[key], clean):
        result[key] = clean


def _is_same_value(stored: Any, clean: Any) -> bool:
    """Whether nothing changes: what is chosen in a multiselect has no order."""
    if isinstance(stored, list) and isinstance(clean, list) and all(isinstance(one, str) for one in stored):
        return set(stored) == set(clean)
    return equal(stored, clean)


def missing(definitions: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> list[str]:
    """Return the keys of required fields that `values` does not hold."""
    return [one["key"] for one in definitions if one.get("required") and one["key"] not in values]


def is_blank(value: Any) -> bool:
    """Whether `value` counts as no value: null, blank text, an empty list."""
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are the same: 12.50 and 12.5 are, true and 1 are not; a list has an order."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    return bool(left == right)


def checked(definition: Mapping[str, Any], value: Any) -> Any:
    """Return `value` as it is stored in a field of this definition. Raises BadField."""
    check = _CHECKS.get(definition.get("type", "text"))
    if check is None:
        raise BadField(f"The field has an unknown type {definition.get('type')!r}.")
    return check(definition, value)


def _text(_definition: Mapping[str, Any], value: Any) -> str:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        value = plain_number(value)
    if not isinstance(value, str):
        raise BadField(f"Expected text, got {kind_of(value)}.")
    return _storable(value, MAX_TEXT)


def _number(_definition: Mapping[str, Any], value: Any) -> int | Decimal:
    if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()) and len(value) <= MAX_DIGITS:
        value = Decimal(value.strip())
        value = int(value) if value == value.to_integral_value() and value.as_tuple().exponent == 0 else value
    if isinstance(value, float):
        value = _decimal_of(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise BadField(f"Expected a number, got {kind_of(value)}.")
    if isinstance(value, Decimal) and not value.is_finite():
        raise BadField("Expected a finite number.")
    if _digits(value) > MAX_DIGITS:
        raise BadField(f"Expected a number of at most {MAX_DIGITS} digits.")
    return value


def _decimal_of(value: float) -> Decimal:
    try:
        return Decimal(repr(value))
    except InvalidOperation as error:
        raise BadField("Expected a finite number.") from error


def _digits(value: int | Decimal) -> int:
    if isinstance(value, int):
        return int(value.bit_length() * 0.30103) + 1
    return max(value.adjusted(), 0) + 1 + max(-int(value.as_tuple().exponent), 0)


def _date(_definition: Mapping[str, Any], value: Any) -> str:
    expected = "Expected a date such as 2026-11-02 or 2026-11-02T14:30:00+01:00"
    if not isinstance(value, str):
        raise BadField(f"{expected}, got {kind_of(value)}.")
    written = value.strip()
    if not _DATE.fullmatch(written):
        raise BadField(f"{expected}.")
    try:
        datetime.fromisoformat(written)
    except ValueError as error:
        raise BadField(f"There is no such date; {expected[0].lower()}{expected[1:]}.") from error
    return written


def _boolean(_definition: Mapping[str, Any], value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "1", "false", "0"}:
        return value.strip().lower() in {"true", "1"}
    if isinstance(value, int | Decimal) and value in (0, 1):
        return bool(value)
    raise BadField(f"Expected true or false, got {kind_of(value)}.")


def options_of(definition: Mapping[str, Any]) -> list[str]:
    """Return the values that a `select` offers; an option is a text or `{"value", "label"}`."""
    options = definition.get("options") or []
    return [str(one.get("value")) if isinstance(one, Mapping) else str(one) for one in options]


def _select(definition: Mapping[str, Any], value: Any) -> str:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        value = plain_number(value)
    if not isinstance(value, str) or value not in options_of(definition):
        raise BadField(f"Expected one of: {', '.join(options_of(definition))}.")
    return value


def _multiselect(definition: Mapping[str, Any], value: Any) -> list[str]:
    if not isinstance(value, list):
        value = [value]
    return list(dict.fromkeys(_select(definition, one) for one in value))


def _url(_definition: Mapping[str, Any], value: Any) -> str:
    if not isinstance(value, str):
        raise BadField(f"Expected an http or https address, got {kind_of(value)}.")
    written = _storable(value.strip(), MAX_URL)
    try:
        parts = urlsplit(written)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    # Only these two schemes: the value is shown as a link, and `javascript:` would run in the reader's page.
    if not is_address or re.search(r"[\s\x00-\x1f\x7f]", written):
        raise BadField("Expected an http or https address.")
    return written


def _email(_definition: Mapping[str, Any], value: Any) -> str:
    try:
        if not isinstance(value, str):
            raise ValidationError("")
        validate_email(value.strip())
    except ValidationError as error:
        raise BadField("Expected an e-mail address.") from error
    return value.strip()


def _storable(value: str, most: int) -> str:
    if not is_storable(value):
        raise BadField("A text may not have a NUL character or half a surrogate pair.")
    if len(value) > most:
        raise BadField(f"Expected at most {most} characters, got {len(value)}.")
    return value


def plain_number(value: int | Decimal) -> str:
    """Return a number as people write it: 12.50 stays 12.50, 1E+3 is 1000."""
    return str(value) if isinstance(value, int) else format(value, "f")


def kind_of(value: Any) -> str:
    """Return the JSON word for what `value` is, for messages: never the value itself."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float | Decimal):
        return "number"
    return "array" if isinstance(value, list | tuple) else "object"


_CHECKS: dict[str, Callable[[Mapping[str, Any], Any], Any]] = {
    "text": _text,
    "number": _number,
    "date": _date,
    "boolean": _boolean,
    "select": _select,
    "multiselect": _multiselect,
    "url": _url,
    "email": _email,
}
