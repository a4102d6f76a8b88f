"""The one reader and writer of JSON: integers keep every digit, decimals are `Decimal` end to end.

simplejson writes a Decimal as the number it is (12.50 stays 12.50); the standard library cannot.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import simplejson
from django.db import models
from psycopg.types.json import Jsonb


def dumps(value: Any, *, sort_keys: bool = False, indent: int | None = None) -> str:
    """Return `value` as JSON text. Raises ValueError for a float NaN or Infinity, TypeError for other things."""
    if sort_keys or indent:
        return str(_encoder(sort_keys=sort_keys, indent=indent).encode(value))
    return str(_COMPACT.encode(value))


def _encoder(*, sort_keys: bool = False, indent: int | None = None) -> simplejson.JSONEncoder:
    return simplejson.JSONEncoder(
        use_decimal=True, ensure_ascii=False, allow_nan=False, sort_keys=sort_keys, indent=indent,
        separators=(",", ": ") if indent else (",", ":"),
    )  # fmt: skip


# Making an encoder takes longer than encoding a small value.
_COMPACT = _encoder()


def loads(text: str | bytes) -> Any:
    """Read JSON text; a number with a point or an exponent becomes a Decimal. Raises ValueError."""
    return simplejson.loads(text, parse_float=Decimal)


class JSONField(models.JSONField):
    """jsonb whose numbers come back as int and Decimal, never as float."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Parse what PostgreSQL sent; a key transform may already hand over a parsed value."""
        return loads(value) if isinstance(value, str | bytes) else value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """Bind as jsonb with exact numbers; None is SQL NULL."""
        if value is None or hasattr(value, "as_sql"):
            return value
        return Jsonb(value, dumps=dumps)

    def deconstruct(self) -> Any:
        name, _path, args, kwargs = super().deconstruct()
        return name, "csbot.lib.json.JSONField", args, kwargs
