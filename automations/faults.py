"""Faults of a posted document, collected while its parts are read, so that all are told at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from automations import values


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong and where: an RFC 6901 pointer into the posted document, a stable code, a sentence."""

    pointer: str
    code: str
    message: str


def below(pointer: str, key: str) -> str:
    """Return the pointer of a member (RFC 6901 section 3)."""
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"


def too_deep(value: Any, levels: int) -> str | None:
    """Return the pointer, of two keys at most, below which a value has more levels; None when it has not.

    Found without recursion, so a hostile document is looked at here before anything else reads it.
    """
    waiting: list[tuple[Any, int, str]] = [(value, 1, "")]
    while waiting:
        part, depth, pointer = waiting.pop()
        if not isinstance(part, dict | list):
            continue
        if depth > levels:
            return pointer
        members = part.items() if isinstance(part, dict) else enumerate(part)
        waiting += [
            (one, depth + 1, below(pointer, str(key)) if depth < 3 else pointer) for key, one in members
        ]
    return None


class Faults:
    """Reads parts of a document by their expected shape; a wrong one adds a fault and reads as None or empty."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, pointer: str, code: str, message: str) -> None:
        """Tell a fault."""
        self.found.append(Fault(pointer, code, message))

    def expected(self, pointer: str, what: str, value: Any) -> None:
        """Tell that something else came than was expected; its kind is told, its value is not."""
        self.add(pointer, "value.invalid", f"Expected {what}, came {_kind_of(value)}.")

    def object(self, raw: Any, pointer: str, known: Sequence[str]) -> dict[str, Any] | None:
        """Return an object whose keys are all known, or None for what is none."""
        if not isinstance(raw, dict):
            self.expected(pointer, "an object", raw)
            return None
        for key in raw:
            if key not in known:
                message = f"Unknown key; expected {', '.join(known)}."
                self.add(below(pointer, str(key)), "key.unknown", message)
        return raw

    def array(self, raw: Any, pointer: str) -> list[Any]:
        """Return an array."""
        if isinstance(raw, list):
            return raw
        self.expected(pointer, "an array", raw)
        return []

    def text(
        self, part: dict[str, Any], key: str, pointer: str, *, required: bool = False, blank: bool = False
    ) -> str | None:
        """Return the text of a key; None where it is left out or wrong."""
        if key not in part:
            if required:
                self.add(below(pointer, key), "key.missing", f"Expected `{key}`, a text.")
            return None
        value = part[key]
        if isinstance(value, str) and (blank or value.strip()):
            return value
        self.expected(below(pointer, key), "a text" if blank else "a text that is not empty", value)
        return None

    def choice(
        self,
        part: dict[str, Any],
        key: str,
        pointer: str,
        choices: Sequence[str],
        *,
        required: bool = False,
    ) -> str | None:
        """Return the text of a key that has to be one of the choices; None where it is left out or wrong."""
        if key not in part:
            if required:
                self.add(below(pointer, key), "key.missing", f"Expected `{key}`: {', '.join(choices)}.")
            return None
        value = part[key]
        if isinstance(value, str) and value in choices:
            return value
        self.expected(below(pointer, key), f"one of {', '.join(choices)}", value)
        return None

    def boolean(self, part: dict[str, Any], key: str, pointer: str) -> bool | None:
        """Return the true or false of a key; None where it is left out or wrong."""
        value = part.get(key)
        if key in part and not isinstance(value, bool):
            self.expected(below(pointer, key), "true or false", value)
            return None
        return value

    def number(
        self,
        part: dict[str, Any],
        key: str,
        pointer: str,
        *,
        low: int,
        high: int,
        whole: bool = True,
    ) -> values.Number | None:
        """Return the number of a key between low and high; None where it is left out or wrong."""
        if key not in part:
            return None
        value = part[key]
        if values.is_number(value) and low <= value <= high and (not whole or value == int(value)):
            number: values.Number = int(value) if whole else value
            return number
        self.expected(below(pointer, key), f"a {'whole ' if whole else ''}number from {low} to {high}", value)
        return None

    def texts(self, raw: Any, pointer: str) -> list[str]:
        """Return the texts of an array of texts that are not empty."""
        kept = []
        for index, item in enumerate(self.array(raw, pointer)):
            if isinstance(item, str) and item.strip():
                kept.append(item)
            else:
                self.expected(f"{pointer}/{index}", "a text that is not empty", item)
        return kept


def _kind_of(value: Any) -> str:
    return "an empty text" if isinstance(value, str) and not value.strip() else values.kind(value)
