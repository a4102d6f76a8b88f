"""One HTTP request under /webhook as it arrives. Nothing of it is read before it is asked for.

Invariant: what comes out of here can be stored; no text holds U+0000 or a lone surrogate.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import parse_qs

from csbot.lib.errors import RequestRefused
from csbot.lib.values import storable

# A slow body is read in pieces of this size; a usual one comes whole in the first.
CHUNK_BYTES = 65_536
# Digits of a Content-Length that is read as a number; a longer one is larger than any limit.
LENGTH_DIGITS = 15
# Fields of a query string that are read: a challenge has three.
MAX_QUERY_FIELDS = 50

# SPEC section 2.2: names that may carry a secret are not kept, nor are the proxies' own.
_HIDDEN = re.compile(r"token|secret|signature|auth|key|hmac|forwarded")
_KEPT = re.compile(r"HTTP_(?:X|WEBHOOK)_.+|HTTP_USER_AGENT|CONTENT_TYPE")


class Stream(Protocol):
    """What a body is read from."""

    def read(self, size: int, /) -> bytes: ...


class Arrival:
    """A request of `method` (upper case) over a WSGI environment; `stream` is its body."""

    def __init__(self, environ: Mapping[str, Any], stream: Stream) -> None:
        self.method: str = environ["REQUEST_METHOD"].upper()
        self._environ = environ
        self._stream = stream

    @property
    def content_type(self) -> str | None:
        """The Content-Type as it came, or None when there was none."""
        return self.header("Content-Type")

    def header(self, name: str) -> str | None:
        """Return the value of a header without blanks around it, or None when it did not come or is empty."""
        value = self._environ.get(_environ_key(name))
        return storable(value.strip()) or None if isinstance(value, str) else None

    def kept_headers(self) -> dict[str, str]:
        """Return the headers that the run shows as `{{_headers…}}` (SPEC section 2.2), by lower-case name."""
        kept = {}
        for key, value in self._environ.items():
            name = _kept_name(key)
            if name is not None and isinstance(value, str) and value:
                kept[name] = storable(value)
        return kept

    def query(self, name: str) -> str | None:
        """Return the first value of a field of the query string, or None."""
        try:
            fields = parse_qs(
                self._environ.get("QUERY_STRING") or "",
                keep_blank_values=True,
                max_num_fields=MAX_QUERY_FIELDS,
            )
        except ValueError:
            # More fields than any challenge has.
            return None
        values = fields.get(name)
        return storable(values[0]) if values else None

    def read_body(self, limit: int) -> bytes:
        """Return the whole body. Raises RequestRefused 413 above `limit` bytes, 400 for one that broke off.

        A declared length is looked at before a byte is read; of a chunked body no more is read than the limit.
        """
        length = self._declared_length()
        if length is not None and length > limit:
            raise _too_large(limit)
        raw = self._read(length if length is not None else limit + 1)
        if len(raw) > limit:
            raise _too_large(limit)
        if length is not None and len(raw) < length:
            raise RequestRefused("body.incomplete", "The body broke off before its declared length.")
        return raw

    def _declared_length(self) -> int | None:
        """Return the Content-Length; 0 without a body, None where only the end of the body tells."""
        if self._environ.get("HTTP_TRANSFER_ENCODING"):
            return None
        declared = self._environ.get("CONTENT_LENGTH") or ""
        if not declared:
            return None if self._environ.get("wsgi.input_terminated") else 0
        if not (declared.isascii() and declared.isdigit()):
            raise RequestRefused("body.incomplete", "The Content-Length is not a number.")
        return int(declared) if len(declared) <= LENGTH_DIGITS else sys.maxsize

    def _read(self, size: int) -> bytes:
        pieces = []
        while size > 0:
            piece = self._stream.read(min(size, CHUNK_BYTES))
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused("body.size", f"A body has at most {limit} bytes.", status=413)


@lru_cache(maxsize=1024)
def _environ_key(name: str) -> str:
    key = name.upper().replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"


@lru_cache(maxsize=1024)
def _kept_name(key: str) -> str | None:
    """Return the name under which the run shows this key of the environment, or None when it shows it not."""
    if not _KEPT.fullmatch(key):
        return None
    name = key.removeprefix("HTTP_").replace("_", "-").lower()
    return None if _HIDDEN.search(name) else name
