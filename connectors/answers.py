"""What a service answered: status, headers, body as data. Pure.

Bodies become what a step's output may hold: JSON with exact numbers, text, or a note about bytes; never
anything that PostgreSQL cannot store in jsonb (U+0000, lone surrogates, numbers beyond its range).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from csbot.lib import charsets, json
from csbot.lib.values import storable

# As for bodies that come in (SPEC section 2.1): more digits than this are no number that anybody means.
MOST_DIGITS = 4_000
DEEPEST_LEVEL = 64
# SPEC section 5.3: a run waits a day at most; less than a second would be no wait.
SHORTEST_RETRY_AFTER_SECONDS = 1.0
LONGEST_RETRY_AFTER_SECONDS = 86_400.0

# The three forms of RFC 9110 section 5.6.7.
_HTTP_DATES = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")
# Such a date has 33 characters at most; a header may have a hundred thousand times as many.
_LONGEST_DATE = 64
# RFC 6838 section 4.2: what a media type looks like, so what may be shown of one.
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}", re.ASCII)


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

        The note is `{"binary": true, "contentType": …, "size": …}`, also for a charset that is not known; an
        empty body is None.
        """
        if not self.raw:
            return None
        said = charsets.content_type(self.headers.get("content-type"))
        text = _decoded(self.raw, said.charset)
        if text is None:
            shown = said.name if _MEDIA_TYPE.fullmatch(said.name) else None
            return {"binary": True, "contentType": shown, "size": len(self.raw)}
        if said.name in ("", "application/json", "text/json") or said.name.endswith("+json"):
            try:
                return storable(_bounded(json.loads(text)))
            except (ValueError, ArithmeticError, RecursionError):
                pass
        return storable(text)


def _bounded(value: Any, level: int = 0) -> Any:
    """Return `value` as it is. Raises ValueError for what jsonb or a reader of a run could not hold.

    That is a number longer than `MOST_DIGITS` when written out, and more than `DEEPEST_LEVEL` levels.
    """
    if isinstance(value, dict | list):
        if level == DEEPEST_LEVEL:
            raise ValueError(f"Deeper than {DEEPEST_LEVEL} levels.")
        for item in value.values() if isinstance(value, dict) else value:
            _bounded(item, level + 1)
    elif isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int) or max(value.adjusted(), 0) + 1 + max(-exponent, 0) > MOST_DIGITS:
            raise ValueError(f"A number has more than {MOST_DIGITS} digits.")
    return value


def _decoded(raw: bytes, charset: str | None) -> str | None:
    """Return `raw` as text, or None when it is none or its charset is not known; by default it is UTF-8."""
    try:
        content, codec = charsets.opened(raw, charset)
        return content.decode(codec)
    except (charsets.UnknownCharset, UnicodeError):
        return None


def _http_date(text: str) -> datetime | None:
    if len(text) > _LONGEST_DATE:
        return None
    for form in _HTTP_DATES:
        try:
            return datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
