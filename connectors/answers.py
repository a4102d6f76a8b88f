"""What a service answered: status, headers, body as data. Pure.

Bodies become what a step's output may hold: JSON with exact numbers, text, or a note about bytes; never
anything that PostgreSQL cannot store in jsonb (U+0000, lone surrogates, numbers beyond its range).
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from email.message import Message
from typing import Any

from csbot.lib import json

# As for bodies that come in (SPEC section 2.1): more digits than this are no number that anybody means.
MOST_DIGITS = 4_000
DEEPEST_LEVEL = 64
# SPEC section 5.3: a run waits a day at most; less than a second would be no wait.
SHORTEST_RETRY_AFTER_SECONDS = 1.0
LONGEST_RETRY_AFTER_SECONDS = 86_400.0

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# The three forms of RFC 9110 section 5.6.7.
_HTTP_DATES = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")


@dataclass(frozen=True)
class Answer:
    """One answer: `headers` by lower-case name, `raw` the body after content decoding, `url` what was asked."""

    status: int
    headers: dict[str, str]
    raw: bytes
    url: str

    @property
    def is_success(self) -> bool:
        """True for 2xx, the only success (SPEC section 10)."""
        return 200 <= self.status <= 299

    def retry_after(self, now: datetime) -> float | None:
        """Return the seconds to wait that the service named, between 1 s and 24 h, or None.

        RFC 9110 section 10.2.3: whole seconds or a date, which is compared with the answer's own Date (`now`
        where it has none), so that clocks that differ do not matter. Any other value is ignored.
        """
        named = self.headers.get("retry-after", "").strip()
        if re.fullmatch(r"[0-9]+", named):
            seconds = float(named[:18]) if len(named) <= 18 else LONGEST_RETRY_AFTER_SECONDS
        else:
            until = _http_date(named)
            if until is None:
                return None
            seconds = (until - (_http_date(self.headers.get("date", "")) or now)).total_seconds()
        return min(max(seconds, SHORTEST_RETRY_AFTER_SECONDS), LONGEST_RETRY_AFTER_SECONDS)

    def body(self) -> Any:
        """Return the body as data: JSON where the type says so and it is, else text, else a note about bytes.

        The note is `{"binary": true, "contentType": …, "size": …}`; an empty body is None.
        """
        content_type = Message()
        content_type["content-type"] = self.headers.get("content-type", "")
        kind = content_type.get_content_type() if self.headers.get("content-type") else ""
        if not self.raw:
            return None
        text = _decoded(self.raw, content_type.get_content_charset())
        if text is None:
            return {"binary": True, "contentType": kind or None, "size": len(self.raw)}
        if kind in ("", "application/json", "text/json") or kind.endswith("+json"):
            try:
                return storable(json.loads(text))
            except (ValueError, ArithmeticError, RecursionError):
                pass
        return storable(text)


def storable(value: Any, level: int = 0) -> Any:
    """Return `value` as jsonb can hold it: U+0000 and lone surrogates become U+FFFD.

    Raises ValueError for a number longer than `MOST_DIGITS` when written out and for more than
    `DEEPEST_LEVEL` levels.
    """
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict | list) and level == DEEPEST_LEVEL:
        raise ValueError(f"Deeper than {DEEPEST_LEVEL} levels.")
    if isinstance(value, dict):
        return {storable(key): storable(item, level + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [storable(item, level + 1) for item in value]
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int) or max(value.adjusted(), 0) + 1 + max(-exponent, 0) > MOST_DIGITS:
            raise ValueError(f"A number has more than {MOST_DIGITS} digits.")
    return value


def _decoded(raw: bytes, charset: str | None) -> str | None:
    """Return `raw` as text, or None when it is none. A BOM wins over the header; without both it is UTF-8."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if raw.startswith(mark):
            charset = encoding
    try:
        return raw.decode(charset or "utf-8")
    except (LookupError, UnicodeError):
        return None


def _http_date(text: str) -> datetime | None:
    for form in _HTTP_DATES:
        try:
            return datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
