"""What differs between two trees, told so that a person recognises the step. Pure.

Lists of objects that carry an `id` (steps, parameters) are matched by it, so that a step put in between does
not make every later one look changed; other lists are compared as one value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

from automations.faults import below


def changes(before: Any, after: Any) -> list[dict[str, Any]]:
    """Return what differs between two documents `{"trigger", "steps"}`.

    `change` is `added`, `removed`, `changed` or `moved` (same list, other order; `from` and `to` are the
    indices). `pointer` (RFC 6901) leads into `after`, of what was removed into `before`; `id` is that of the
    nearest enclosing step or parameter, or None.
    """
    return list(_compared(before, after, "", None))


def _compared(before: Any, after: Any, pointer: str, owner: str | None) -> Iterator[dict[str, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _of_objects(before, after, pointer, owner)
    elif _has_ids(before) and _has_ids(after) and (before or after):
        yield from _of_lists(before, after, pointer, owner)
    elif not _same(before, after):
        yield _line("changed", pointer, owner, before, after)


def _of_objects(
    before: Mapping[str, Any], after: Mapping[str, Any], pointer: str, owner: str | None
) -> Iterator[dict[str, Any]]:
    for key in [*before, *(key for key in after if key not in before)]:
        place = below(pointer, key)
        if key not in after:
            yield _line("removed", place, owner, before[key], None)
        elif key not in before:
            yield _line("added", place, owner, None, after[key])
        else:
            yield from _compared(before[key], after[key], place, owner)


def _of_lists(
    before: list[Any], after: list[Any], pointer: str, owner: str | None
) -> Iterator[dict[str, Any]]:
    old = {item["id"]: (index, item) for index, item in enumerate(before)}
    new = {item["id"]: (index, item) for index, item in enumerate(after)}
    for key, (index, item) in old.items():
        if key not in new:
            yield _line("removed", f"{pointer}/{index}", key, item, None)
    moved = _moved([key for key in old if key in new], [key for key in new if key in old])
    for key, (index, item) in new.items():
        if key not in old:
            yield _line("added", f"{pointer}/{index}", key, None, item)
            continue
        if key in moved:
            yield _line("moved", f"{pointer}/{index}", key, old[key][0], index)
        yield from _compared(old[key][1], item, f"{pointer}/{index}", key)


def _moved(old: list[str], new: list[str]) -> set[str]:
    """Return the ids that stand elsewhere in the other list; those that kept their order did not move."""
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return set(old).difference(*(old[block.a : block.a + block.size] for block in blocks))


def _has_ids(value: Any) -> bool:
    """Say whether `value` is a list whose members all have an id of their own."""
    if not isinstance(value, list):
        return False
    ids = [item.get("id") if isinstance(item, Mapping) else None for item in value]
    return all(isinstance(key, str) for key in ids) and len(set(ids)) == len(ids)


def _same(before: Any, after: Any) -> bool:
    """Compare as JSON does: true is not 1, and 12.50 equals 12.5."""
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return before.keys() == after.keys() and all(_same(before[key], after[key]) for key in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_same, before, after))
    return bool(before == after)


def _line(change: str, pointer: str, owner: str | None, before: Any, after: Any) -> dict[str, Any]:
    return {"pointer": pointer, "change": change, "id": owner, "from": before, "to": after}
