"""What the language makes of a JSON value: its kind, its text, whether it is empty, a number, a yes or a no.

Pure. Conditions, templates and the contract all ask here, so that they can never disagree.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

import simplejson


class Missing(Enum):
    """The type of MISSING."""

    MISSING = "not arrived"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING
"""Stands for what never arrived; null is a value that did."""

NotArrived: TypeAlias = Literal[Missing.MISSING]
Number: TypeAlias = int | Decimal | float

# SPEC section 2.1: what has more written-out digits is no number.
MAX_DIGITS = 4_000
_PLAIN_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def kind(value: Any) -> str:
    """Return `text`, `number`, `boolean`, `object`, `array` or `null`, the words of SPEC section 2.2."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return "null" if value is None else "number"


def is_empty(value: Any) -> bool:
    """Say whether a value is not arrived, null, blank text, `[]` or `{}`; 0 and false are not (SPEC 3.2)."""
    if isinstance(value, str):
        return not value.strip()
    return value is MISSING or value is None or value == [] or value == {}


def is_number(value: Any) -> bool:
    """Say whether a value is a JSON number; true and false are none."""
    return isinstance(value, int | Decimal | float) and not isinstance(value, bool)


def number_in(value: Any) -> Number | None:
    """Return the number that a value is or, as a plain decimal text, says; else None.

    A plain decimal is an optional sign, digits and one point with blanks around it, so neither `1e3` nor
    `1_000` (SPEC section 3.2). A text without a point gives an int, any other a Decimal.
    """
    if is_number(value):
        number: Number = value
        return number
    if not isinstance(value, str):
        return None
    text = value.strip()
    if len(text) > MAX_DIGITS or not _PLAIN_DECIMAL.fullmatch(text):
        return None
    return Decimal(text) if "." in text else int(text)


def boolean_in(value: Any) -> bool | None:
    """Return what true, "true", "1", 1 and their opposites say, in any case of letters; else None."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _BOOLEANS.get(value.strip().lower())
    if is_number(value) and value in (0, 1):
        return bool(value)
    return None


def text_of(value: Any) -> str:
    """Return a value as it stands inside a longer text: a number in digits, an object or array as its JSON.

    What did not arrive and null are the empty text (SPEC section 3.1).
    """
    if isinstance(value, str):
        return value
    if value is None or value is MISSING:
        return ""
    if isinstance(value, Decimal):
        return format(value, "f")
    return json_of(value)


def json_of(value: Any) -> str:
    """Return a value as compact JSON whose decimals keep their digits, as `csbot.lib.json.dumps` does."""
    return str(
        simplejson.dumps(value, use_decimal=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    )
