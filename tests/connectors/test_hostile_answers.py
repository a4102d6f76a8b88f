"""Nothing that a service writes into its headers picks what runs here: declared errors only, and in time."""

import time

import pytest

from connectors import client
from csbot.lib import json
from csbot.lib.errors import RunError
from csbot.lib.values import storable
from tests.connectors.calls import TENANT, send
from tests.stub_service import Reply

# A quadratic reader takes minutes for an answer of the largest size; whatever is proportional less than a second.
BOUND_SECONDS = 10.0
LARGEST = b"b" * client.MAX_ANSWER_BYTES
NOTE = {"binary": True, "contentType": "text/plain", "size": client.MAX_ANSWER_BYTES}


def raw(*lines: bytes, status: bytes = b"200 OK", body: bytes = b"x") -> Reply:
    """A reply with these very header lines."""
    head = [b"HTTP/1.1 " + status, *lines, b"Content-Length: %d" % len(body)]
    return Reply(raw=b"\r\n".join(head) + b"\r\n\r\n" + body)


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "unicode_escape", "undefined", "hex", "zlib", "klingon", "a\x00", "\xff"]
)
def test_a_charset_that_is_none_leaves_bytes(service, charset):
    service.script("/", raw(b"Content-Type: text/plain; charset=" + charset.encode("latin-1"), body=LARGEST))
    begun = time.monotonic()
    assert send(f"{service.url}/", "GET", seconds=30).body() == NOTE
    assert time.monotonic() - begun < BOUND_SECONDS


@pytest.mark.parametrize(
    "parameter",
    [
        b"charset*=utf-8''%00x",
        b"charset*=punycode''a",
        b"charset*=klingon''%61",
        b"charset*=a; charset*0=b",
        b"charset*",
    ],
)
def test_parameters_that_http_does_not_know_are_passed_over(service, parameter):
    service.script("/", raw(b"Content-Type: application/json; " + parameter, body=b'{"a": "\xc4\x8d"}'))
    assert send(f"{service.url}/", "GET").body() == {"a": "č"}


@pytest.mark.parametrize("kind", [b"a/\x00b", b"\xff/\xff", b"nonsense", b"a/" + b"b" * 60_000])
def test_a_strange_type_is_not_shown(service, kind):
    service.script("/", raw(b"Content-Type: " + kind, body=b"\xff"))
    body = send(f"{service.url}/", "GET").body()
    assert body == {"binary": True, "contentType": None, "size": 1}


@pytest.mark.parametrize(
    "body",
    [
        b"[" * client.MAX_ANSWER_BYTES,
        b"9" * client.MAX_ANSWER_BYTES,
        b"1." + b"9" * (client.MAX_ANSWER_BYTES - 2),
        b"[" + b"1e9999999," * 500_000 + b"1]",
        b'"' + b"\\" * (client.MAX_ANSWER_BYTES - 1),
        b'"' + b"\\ud800" * 800_000 + b'"',
        b"{" + b'"a":1,' * 800_000 + b'"b":1}',
        b"\x00" * client.MAX_ANSWER_BYTES,
    ],
    ids=["levels", "digits", "places", "exponents", "escapes", "surrogates", "equal keys", "zeros"],
)
def test_json_of_the_largest_size_is_read_in_time_and_can_be_stored(service, body):
    service.script("/", raw(b"Content-Type: application/json", body=body))
    begun = time.monotonic()
    found = send(f"{service.url}/", "GET", seconds=30).body()
    assert time.monotonic() - begun < BOUND_SECONDS
    assert storable(found) == found


ODD_HEADERS = {
    "encodings": raw(b"Content-Encoding: " + b"gzip," * 10_000),
    "an encoding of no name": raw(b"Content-Encoding: klingon"),
    "what is no gzip": raw(b"Content-Encoding: gzip, deflate, gzip"),
    "lengths": raw(b"Content-Length: 1, 2"),
    "a long length": raw(b"Content-Length: " + b"9" * 5_000),
    "a long piece": Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 60_000 + b"\r\n"),
    "a version": Reply(raw=b"HTTP/9.9\x00 200 OK\r\n\r\n"),
    "a long status": Reply(raw=b"HTTP/1.1 " + b"9" * 5_000 + b" OK\r\n\r\n"),
    "a date": raw(b"Retry-After: Mon," + b" " * 60_000, status=b"503 Busy"),
    "many seconds": raw(b"Retry-After: " + b"9" * 60_000, status=b"503 Busy"),
    "a date of no time": raw(b"Retry-After: Mon, 30 Nov 0000 00:00:00 GMT", b"Date: \x00", status=b"503 Busy"),
    "the last second": raw(
        b"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", b"Date: Mon, 01 Jan 0001 00:00:00 GMT", status=b"503 Busy"
    ),
    "cookies": raw(b"Set-Cookie: a=b; expires=" + b"1-" * 30_000, b"Set-Cookie: a=b; max-age=" + b"9" * 5_000),
    "a place in another script": raw(b"Location: http://" + "č.".encode() * 20_000, status=b"302 Found"),
    "a place of marks": raw(b"Location: http://" + "\u0338".encode() * 200, status=b"302 Found"),
    "a place in brackets": raw(b"Location: http://[" + b":" * 60_000 + b"]/", status=b"302 Found"),
    "a place at a long port": raw(b"Location: http://a:" + b"9" * 60_000, status=b"302 Found"),
    "a place of bytes": raw(b"Location: //\xff\x00%zz", status=b"302 Found"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_HEADERS)
def test_an_odd_header_ends_in_an_answer_or_a_declared_error(service, name):
    service.script("/", ODD_HEADERS[name])
    begun = time.monotonic()
    request = client.Request("GET", f"{service.url}/", is_repeatable=True)
    try:
        answer = client.send(request, tenant=TENANT, connection=None, deadline=begun + 30)
        told = answer.body()
    except RunError as error:
        told = [error.detail, error.trace]
    assert time.monotonic() - begun < BOUND_SECONDS
    assert json.dumps(storable(told))
