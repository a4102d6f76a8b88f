"""JSON as SPEC section 2.1 wants it: exact numbers, bounded depth, a place for every fault, storable texts.

Pure. Nothing here recurses deeper than the levels that are allowed, and everything takes time in proportion
to the text.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, NoReturn

from automations.values import MAX_DIGITS

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class NotJson(Exception):
    """The text is not one JSON document: why, and where, line and column counted from 1."""

    def __init__(self, message: str, text: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = text.count("\n", 0, position) + 1
        self.column = position - text.rfind("\n", 0, position)


class TooDeep(Exception):
    """The text opens one level more than is allowed."""


class TooMany(Exception):
    """The text has more than MAX_CONTAINERS objects and arrays."""


# An object takes some 200 bytes, so this keeps what 1 MiB of text can make of itself below 20 MB; data of real
# senders have one for every 30 or more characters, 35,000 in a MiB.
MAX_CONTAINERS = 80_000


# A string runs to its closing quote or to the end of the text, so that a broken one is read once and not from
# each of its quotes; the possessive loops keep no way back, which would cost memory for each character.
_TEXT = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_BRACKETS = re.compile(_TEXT + r"|[\[\]{}]", re.DOTALL)
_NUMBERS = re.compile(
    _TEXT
    + r"|(?P<bad>-?Infinity|NaN)|-?(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]+))?(?:[eE](?P<shift>[+-]?[0-9]+))?",
    re.DOTALL,
)
_NUMBER = re.compile(r"-?(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]+))?(?:[eE](?P<shift>[+-]?[0-9]+))?")


class _Refused(Exception):
    """A token that the parser took and JSON or SPEC section 2.1 does not."""


def parse(text: str, max_depth: int) -> Any:
    """Return the data of one JSON document. Raises NotJson, TooDeep and TooMany."""
    _check_size(text, max_depth)
    return _decoded(text)


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, text, error.pos) from None
    except _Refused as error:
        raise NotJson(str(error), text, _place_of_refused(text)) from None


def _check_size(text: str, max_depth: int) -> None:
    """Raise TooDeep where one level too many opens, or NotJson where the text before that is broken; or TooMany.

    What stands before that bracket is parsed with a number in its place and the open levels closed again.
    """
    if text.count("[") + text.count("{") <= max_depth:
        return
    closing: list[str] = []
    opened = 0
    for token in _BRACKETS.finditer(text):
        bracket = token[0]
        if bracket in "]}":
            if closing:
                closing.pop()
        elif bracket in "[{" and len(closing) < max_depth:
            closing.append("]" if bracket == "[" else "}")
            opened += 1
            if opened > MAX_CONTAINERS:
                raise TooMany
        elif bracket in "[{":
            _decoded(text[: token.start()] + "0" + "".join(reversed(closing)))
            raise TooDeep


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS and len(digits.lstrip("-")) > MAX_DIGITS:
        _refuse_digits()
    return int(digits)


def _decimal(number: str) -> Decimal:
    if len(number) <= _SHORT:
        return _short_decimal(number)
    if (len(number) > MAX_DIGITS or "e" in number or "E" in number) and _written_digits(number) > MAX_DIGITS:
        _refuse_digits()
    return Decimal(number)


# A Decimal takes 104 bytes; those of short texts are few, and one object serves a whole body of `0.1`.
_SHORT = 4
_short_decimal = lru_cache(maxsize=4096)(Decimal)


def _written_digits(number: str) -> int:
    """Return how many digits a number has when it is written out without its exponent; it is not done."""
    found = _NUMBER.fullmatch(number)
    assert found is not None, "the parser hands over numbers only"
    whole, part, shift = len(found["whole"]), len(found["part"] or ""), found["shift"] or "0"
    # Six digits of an exponent are beyond the limit already; more are never made a number.
    size = int(shift.lstrip("+-").lstrip("0")[:7] or "0")
    by = -size if shift.startswith("-") else size
    return max(whole + by, 1) + max(part - by, 0)


def _refuse_digits() -> NoReturn:
    raise _Refused(f"a number has more than {MAX_DIGITS} digits")


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_decimal, parse_constant=_refuse_constant)


def _place_of_refused(text: str) -> int:
    """Return where the first refused token stands; the decoder does not tell."""
    tokens = _NUMBERS.finditer(text)
    return next(token.start() for token in tokens if token["bad"] or _is_too_long(token))


def _is_too_long(token: re.Match[str]) -> bool:
    return token["whole"] is not None and _written_digits(token[0]) > MAX_DIGITS


# As `csbot.lib.values.storable` replaces them, which tells no number and knows Django's lazy texts.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# JSON text in which such a character may come out: as itself, or escaped. An escaped backslash only looks
# like it.
_SUSPICIOUS = re.compile(r"[\x00\ud800-\udfff]|\\u(?:0000|[dD][89a-fA-F])")


class Cleaner:
    """Replaces U+0000 and lone surrogates in texts and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, text: str) -> str:
        clean, found = _UNSTORABLE.subn(REPLACEMENT, text)
        self.count += found
        return clean

    def clean(self, value: Any) -> Any:
        """Return the value with every text and key cleaned; its depth is bounded by what was read."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.clean(part) for part in value]
        if isinstance(value, dict):
            return {self(key): self.clean(part) for key, part in value.items()}
        return value


def cleaned(value: Any, text: str) -> tuple[Any, int]:
    """Return what `parse` made of `text`, without U+0000 and lone surrogates, and how many there were."""
    if not _SUSPICIOUS.search(text):
        return value, 0
    cleaner = Cleaner()
    return cleaner.clean(value), cleaner.count
