"""Builds a body that fulfils a contract, for the help page and for trying an automation out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from automations import paths

# An index beyond this is written as a key of an object, which fulfils the contract as well.
MAX_ITEMS = 20

_LITERALS: dict[str, Any] = {
    "integer": 1,
    "number": Decimal("12.50"),
    "boolean": True,
    "date": "2026-11-02",
}


# Of several types at one path the first decides: 1 is an integer, a number, a boolean and a text as well.
_ORDER = ("object", "array", "integer", "number", "boolean", "date", "string")


class _Node:
    """A container under construction. `type` is `object` or `array` where a parameter wants it, else empty."""

    def __init__(self, type_: str = "") -> None:
        self.type = type_
        self.members: dict[str, Any] = {}

    def takes(self, key: str) -> bool:
        return self.type != "array" or (paths.is_index(key) and int(key) < MAX_ITEMS)

    def finished(self) -> Any:
        members = {
            key: part.finished() if isinstance(part, _Node) else part for key, part in self.members.items()
        }
        is_list = all(paths.is_index(key) and int(key) < MAX_ITEMS for key in members)
        if self.type == "array" or (self.type == "" and members and is_list):
            return [members.get(str(index)) for index in range(max(map(int, members), default=-1) + 1)]
        return members


def build(wanted: Sequence[tuple[str, str, str]]) -> Any:
    """Return a body with a value for each `(path, type, name)`; a text is the name.

    Where a path leads through a value that cannot hold it, the rest of the path becomes one key with dots,
    which lookups find too. Two types at one path that exclude each other cannot both be had.
    """
    root = _Node()
    for path, type_, name in sorted(wanted, key=lambda one: (len(paths.split(one[0])), _ORDER.index(one[1]))):
        keys = paths.split(path)
        value = _Node(type_) if type_ in ("object", "array") else _LITERALS.get(type_, name)
        if keys:
            _place(root, keys, value)
        elif isinstance(value, _Node):
            root = value
        elif len(wanted) == 1:
            return value
    return root.finished()


def _place(root: _Node, keys: tuple[str, ...], value: Any) -> None:
    node, ways = root, []
    for position, key in enumerate(keys):
        ways.append((node, ".".join(keys[position:])))
        below = node.members.get(key)
        if below is None and node.takes(key):
            below = node.members[key] = value if position == len(keys) - 1 else _Node()
        if not isinstance(below, _Node):
            break
        node = below
    else:
        return
    for outer, rest in reversed(ways):
        if outer.takes(rest):
            outer.members.setdefault(rest, value)
            return
