"""What a service answered becomes data that steps and PostgreSQL can hold."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.answers import Answer
from csbot.lib import json

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
JSON = "application/json"


def answer(raw: bytes = b"", content_type: str | None = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(200, named if content_type is None else {"content-type": content_type, **named}, raw, "")


@pytest.mark.parametrize(
    ("content_type", "raw", "body"),
    [
        (JSON, b'{"a": 1}', {"a": 1}),
        ("application/json; charset=utf-8", '{"a": "č"}'.encode(), {"a": "č"}),
        ("application/json;charset=windows-1250", '{"a": "č"}'.encode("cp1250"), {"a": "č"}),
        ("application/problem+json", b"[1]", [1]),
        ("APPLICATION/JSON", b"null", None),
        ("text/json", b"true", True),
        (None, b'{"a": 1}', {"a": 1}),
        (None, b"fine", "fine"),
        (JSON, b"", None),
        (JSON, b"\xef\xbb\xbf{}", {}),
        (JSON, '{"a": 1}'.encode("utf-16"), {"a": 1}),
        (JSON, b'{"id": 9223372036854775808}', {"id": 2**63}),
        (JSON, b"not json", "not json"),
        (JSON, b'{"a": NaN}', '{"a": NaN}'),
        (JSON, b'{"a": 1e99999}', '{"a": 1e99999}'),
        (JSON, b'{"a": 1e9999999999999999999999}', '{"a": 1e9999999999999999999999}'),
        (JSON, b'{"a": "\\u0000\\ud800"}', {"a": "\ufffd\ufffd"}),
        (JSON, b'{"a\\u0000": 1}', {"a\ufffd": 1}),
        ("text/plain", b'{"a": 1}', '{"a": 1}'),
        ("text/plain; charset=iso-8859-2", "č".encode("iso-8859-2"), "č"),
        ("text/plain", b"a\x00b", "a\ufffdb"),
        ("text/html; charset=unknown-8bit", b"abc", {"binary": True, "contentType": "text/html", "size": 3}),
        ("image/png", b"\x89PNG\xff", {"binary": True, "contentType": "image/png", "size": 5}),
        (None, b"\xff\xfe\xfd", {"binary": True, "contentType": None, "size": 3}),
        ("nonsense", b"abc", "abc"),
    ],
)
def test_a_body_becomes_data(content_type, raw, body):
    assert answer(raw, content_type).body() == body


def test_numbers_keep_their_digits():
    body = answer(b'{"price": 12.50, "tiny": 0.1, "huge": 1e400}', JSON).body()
    assert json.dumps(body["price"]) == "12.50"
    assert body["tiny"] == Decimal("0.1")
    assert body["huge"] == Decimal("1e400")


@pytest.mark.parametrize("levels", [64, 65, 5_000, 200_000])
def test_depth_is_bounded(levels):
    raw = b"[" * levels + b"]" * levels
    body = answer(raw, JSON).body()
    assert isinstance(body, list) if levels <= 64 else body == raw.decode()


@settings(deadline=None)
@given(st.binary(max_size=60), st.sampled_from([JSON, "text/plain", "text/plain; charset=utf-16", None]))
def test_any_body_can_be_stored(raw, content_type):
    written = json.dumps(answer(raw, content_type).body())
    assert "\x00" not in written
    written.encode()


RETRY_AFTER = [
    ("7", 7),
    (" 7 ", 7),
    ("0", 1),
    ("1", 1),
    ("007", 7),
    ("86400", 86_400),
    ("86401", 86_400),
    ("9" * 5000, 86_400),
    ("Mon, 30 Nov 2026 12:01:00 GMT", 60),
    ("Monday, 30-Nov-26 12:01:00 GMT", 60),
    ("Mon Nov 30 12:01:00 2026", 60),
    ("Mon, 30 Nov 2026 11:00:00 GMT", 1),
    ("Thu, 30 Nov 2028 12:00:00 GMT", 86_400),
    ("", None),
    ("1.5", None),
    ("-3", None),
    ("+3", None),
    ("1e3", None),
    ("٧", None),
    ("soon", None),
    ("2026-11-30T12:01:00Z", None),
    ("Mon, 30 Nov 2026 12:01:00 CET", None),
    ("Mon, 32 Nov 2026 12:01:00 GMT", None),
    ("NaN", None),
    ("Infinity", None),
]


@pytest.mark.parametrize(("named", "seconds"), RETRY_AFTER)
def test_retry_after_is_seconds_or_a_date(named, seconds):
    assert answer(retry_after=named).retry_after(NOW) == seconds


def test_without_retry_after_nothing_is_named():
    assert answer().retry_after(NOW) is None


def test_a_date_is_compared_with_the_clock_of_the_service():
    named = {"retry_after": "Mon, 30 Nov 2026 15:01:00 GMT", "date": "Mon, 30 Nov 2026 15:00:00 GMT"}
    assert answer(**named).retry_after(NOW) == 60
    assert answer(**{**named, "date": "nonsense"}).retry_after(NOW) == 3 * 3600 + 60
