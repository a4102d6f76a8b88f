"""A header that the standard library's readers fail on, or take minutes for, is an answer that did not come."""

import time

import pytest

from connectors import transport
from csbot.lib.errors import UncertainError
from tests.connectors.calls import R, U, failure_of, send
from tests.stub_service import Reply

BOUND_SECONDS = 10.0


def raw(*lines: bytes) -> Reply:
    """A reply with these very header lines."""
    head = [b"HTTP/1.1 200 OK", *lines, b"Content-Length: 1"]
    return Reply(raw=b"\r\n".join(head) + b"\r\n\r\nx")


def folded(line: bytes, part: bytes, size: int) -> bytes:
    """A line that goes on for `size` bytes in pieces that the standard library takes one by one."""
    piece = b" " + part * (60_000 // len(part))
    return b"\r\n".join([line, *[piece] * (size // 60_000)])


MIXED = b"Content-Type: multipart/mixed; "
UNREADABLE = {
    "parameters of several kinds": raw(MIXED + b"boundary*=a; boundary*0=b"),
    "a charset that is none": raw(MIXED + b"boundary*=%00''x"),
    "a number of many digits": raw(MIXED + b"boundary*" + b"9" * 5_000 + b"=x"),
    "cookies": raw(b"Set-Cookie: a=b", folded(b"Set-Cookie2: a", b"a=b,", 1_000_000)),
    "quotes": raw(folded(MIXED, b';a="', 3_000_000)),
    "a charset that is quadratic": raw(folded(MIXED + b"boundary*=punycode''", b"a", 1_000_000)),
    "many lines": raw(*[b"X: " + b"a" * 60_000] * 90),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize(("repeatable", "means"), [(True, R), (False, U)])
def test_an_unreadable_header_leaves_the_outcome_open(service, name, repeatable, means):
    service.script("/", UNREADABLE[name])
    begun = time.monotonic()
    error = failure_of(f"{service.url}/", repeatable=repeatable)
    assert time.monotonic() - begun < BOUND_SECONDS
    assert (type(error), error.code) == (means, "net.unknown")


@pytest.mark.parametrize(
    "line",
    [
        MIXED + b"boundary*=punycode''" + b"a" * 60_000,
        b"Set-Cookie2: " + b"a=b," * 15_000,
        b"X: " + b"a" * 60_000,
    ],
    ids=["charset", "cookies", "plain"],
)
def test_a_header_of_the_largest_size_is_read_in_time(service, line):
    service.script("/", raw(b"Set-Cookie: a=b", line))
    begun = time.monotonic()
    assert send(f"{service.url}/", "GET").body() == "x"
    assert time.monotonic() - begun < BOUND_SECONDS


def test_the_limit_is_that_of_one_header(service):
    room = transport.MAX_HEADER_BYTES - len(b"HTTP/1.1 200 OK\r\nX: \r\nContent-Length: 1\r\n\r\n")
    service.script("/", raw(b"X: " + b"a" * room), raw(b"X: " + b"a" * (room + 1)))
    assert send(f"{service.url}/", "GET").raw == b"x"
    with pytest.raises(UncertainError):
        send(f"{service.url}/", "GET")
