"""Joins a connection's base address with the path and query of a step. Pure.

Invariant: the result has the base's origin, its path begins with the base's path, and no part of it, decoded
as often as one likes, climbs out of there (SPEC section 10).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

# RFC 3986: what a path may hold unescaped; a percent sign only as the start of an escape.
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]")


def check_base(base: str) -> str:
    """Return the base address without a slash at its end. Raises ValueError with what is wrong."""
    parts = _split(base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected an address that begins with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("expected an address without a user name; that belongs into the credentials")
    if "?" in base or "#" in base:
        raise ValueError("expected an address without a query and a fragment")
    path = _checked_path(parts.path)
    return f"{parts.scheme}://{parts.netloc}{path}".rstrip("/")


def join(base: str, path: str, query: Mapping[str, Any] | None = None) -> str:
    """Return `base` + `path` + `query` as one ASCII address.

    `base` has passed `check_base`; in `path` placeholders are percent-encoded already; a `?` begins a query
    that `query` is added to. Values of `query` are scalars or lists of them, None is left out. Raises
    ValueError.
    """
    if _split(path).scheme or _split(path).netloc or path.startswith("//"):
        raise ValueError("the path has to lie under the connection's address; whole addresses are not taken")
    if "#" in path:
        raise ValueError("the path may not hold a fragment (#)")
    path, _, own_query = path.partition("?")
    if path and not path.startswith("/"):
        path = f"/{path}"
    if "//" in path:
        raise ValueError("the path has an empty segment (//); perhaps a value did not arrive")
    added = urlencode(pairs(query or {}), quote_via=quote)
    asked = "&".join(part for part in (quote(own_query, safe=_PATH_SAFE + "?"), added) if part)
    return base + _checked_path(path) + (f"?{asked}" if asked else "")


def pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return `values` as pairs of a query or form; a list gives several, None none. Raises ValueError."""
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, bool):
                found.append((name, "true" if item else "false"))
            elif isinstance(item, Decimal):
                found.append((name, format(item, "f")))
            elif isinstance(item, str | int):
                found.append((name, str(item)))
            elif item is not None:
                raise ValueError(f"the parameter {name} has to be a text, a number or a list of them")
    return found


def _split(text: str) -> Any:
    """Split an address, refusing first what `urlsplit` would drop in silence or a server read otherwise."""
    if _CONTROL.search(text):
        raise ValueError("line breaks and control characters are not allowed in an address")
    if "\\" in text:
        raise ValueError("a backslash is not allowed in an address")
    if text != text.strip():
        raise ValueError("blanks around an address are not allowed")
    parts = urlsplit(text)
    parts.port  # noqa: B018 - raises ValueError for a port out of range
    return parts


def _checked_path(path: str) -> str:
    if _BROKEN_ESCAPE.search(path):
        raise ValueError("a percent sign has to be followed by two hexadecimal digits (%25 for itself)")
    # Some servers decode twice, split at an escaped slash, or drop what follows a semicolon before they look
    # for dots.
    decoded = path
    while True:
        if any(piece.partition(";")[0] in (".", "..") for piece in re.split(r"[/\\]", decoded)):
            raise ValueError("the path may not hold the segments . and .., in no spelling")
        if _CONTROL.search(decoded):
            raise ValueError("line breaks and control characters are not allowed in a path, in no spelling")
        further = unquote(decoded)
        if further == decoded:
            return quote(path, safe=_PATH_SAFE)
        decoded = further
