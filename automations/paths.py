"""Dotted paths into JSON data: `document.items.0.sku` (SPEC section 2.2). Pure.

A path reaches the members of objects and arrays and nothing else: no attribute, no method, no part of a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from automations.values import MISSING

# A body has 64 levels at most; a longer path leads nowhere.
MAX_KEYS = 100
_PIECES = re.compile(r"\\([.\\])|(\.)|(\\|[^.\\]+)", re.DOTALL)
# An index as JSON arrays have it: never negative, no leading zero, too short for int() to be slow or refused.
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


@lru_cache(maxsize=4096)
def split(path: str) -> tuple[str, ...]:
    r"""Return the keys of a path; `\.` is a dot and `\\` a backslash inside a key; an empty path has none."""
    if not path:
        return ()
    keys = [""]
    for escaped, dot, plain in _PIECES.findall(path):
        if dot:
            keys.append("")
        else:
            keys[-1] += escaped or plain
    return tuple(keys)


def join(keys: tuple[str, ...]) -> str:
    """Return the path that `split` takes apart into these keys."""
    return ".".join(key.replace("\\", "\\\\").replace(".", "\\.") for key in keys)


def is_index(key: str) -> bool:
    """Say whether a key can be an index of an array."""
    return _INDEX.fullmatch(key) is not None


def find(value: Any, keys: tuple[str, ...]) -> Any:
    """Return what the keys lead to inside `value`, or MISSING.

    A number is an index of an array and a key of an object. Where the split way is not there, a key that
    contains the dots itself is tried, shorter ones first.
    """
    if not keys:
        return value
    if isinstance(value, list):
        if not is_index(keys[0]) or int(keys[0]) >= len(value):
            return MISSING
        return find(value[int(keys[0])], keys[1:])
    if not isinstance(value, Mapping):
        return MISSING
    for length in range(1, len(keys) + 1):
        key = ".".join(keys[:length])
        if key in value:
            found = find(value[key], keys[length:])
            if found is not MISSING:
                return found
    return MISSING
