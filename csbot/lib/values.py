"""What the API's JSON can say: texts that can be stored, instants in UTC, pointers to a place in a body."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from django.utils.functional import Promise

# What a Python text may hold and PostgreSQL takes neither as text nor as jsonb.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def plain(value: Any) -> Any:
    """Return `value` with UUIDs, instants and lazy texts as the texts that the API shows."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, uuid.UUID | Promise | date):
        return str(value)
    return value


def instant_text(value: datetime) -> str:
    """Return an aware datetime as ISO 8601 in UTC: `2026-11-30T18:05:00.123456Z`."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def is_storable(text: str) -> bool:
    """Whether PostgreSQL takes `text`: no U+0000 and no lone surrogate."""
    return _UNSTORABLE.search(text) is None


def storable(value: Any) -> Any:
    """Return `value` as PostgreSQL can hold it: in texts and keys U+0000 and lone surrogates become U+FFFD.

    Mappings come back as dict, lists and tuples as list, anything else as it is. The caller bounds the depth.
    """
    if isinstance(value, str):
        return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value


def escape(key: str) -> str:
    """Return `key` as one part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
