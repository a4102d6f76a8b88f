"""What each way to fail means, against real sockets: who was called how often, which error, which code."""

import gzip
import socket
import threading
import time

import pytest

from connectors import client, transport
from connectors.client import Request
from csbot.lib.errors import TerminalError, UncertainError
from tests.connectors.calls import SECRET, SHORT, TENANT, R, T, U, failure_of, send
from tests.connectors.certificates import Authority
from tests.stub_service import CLOSED, RESET, SILENT, Reply, StubService, Unreachable, closed_port

STATUSES = [
    # status, not repeatable, repeatable
    (400, T, T),
    (401, T, T),
    (402, T, T),
    (403, T, T),
    (404, T, T),
    (405, T, T),
    (406, T, T),
    (408, R, R),
    (409, T, T),
    (410, T, T),
    (411, T, T),
    (413, T, T),
    (415, T, T),
    (418, T, T),
    (422, T, T),
    (423, T, T),
    (424, T, T),
    (425, R, R),
    (428, T, T),
    (431, T, T),
    (451, T, T),
    (499, T, T),
    (500, U, R),
    (501, U, R),
    (502, U, R),
    (503, R, R),
    (504, U, R),
    (505, U, R),
    (507, U, R),
    (511, U, R),
    (520, U, R),
    (599, U, R),
    (300, T, T),
    (301, T, T),
    (302, T, T),
    (303, T, T),
    (304, T, T),
    (305, T, T),
    (307, T, T),
    (308, T, T),
]


@pytest.mark.parametrize(("status", "once", "repeated"), STATUSES)
def test_a_status_means_what_the_table_says(service, status, once, repeated):
    service.script("/orders", Reply(status, body=b"no", headers={"Location": "/elsewhere"}))
    for repeatable, expected in ((False, once), (True, repeated)):
        error = failure_of(f"{service.url}/orders", repeatable=repeatable)
        assert (type(error), error.code) == (expected, f"http.{status}")
        assert error.trace["status"] == status
        assert str(status) in error.detail
    assert len(service.calls()) == 2


@pytest.mark.parametrize("status", [200, 201, 202, 203, 204, 205, 206, 207, 299])
def test_every_2xx_is_success(service, status):
    service.script("/orders", Reply(status, body=b"" if status in (204, 205) else b"fine"))
    assert send(f"{service.url}/orders").status == status


AFTER_SENDING = [
    # what the service does, code when repeatable
    ("no answer", SILENT, "net.timeout"),
    ("reset after the request", RESET, "net.unknown"),
    ("closed without an answer", CLOSED, "net.unknown"),
    ("status line cut off", Reply(raw=b"HTTP/1.1 20"), "net.unknown"),
    ("header cut off after the status line", Reply(raw=b"HTTP/1.1 200 OK\r\n"), "net.unknown"),
    ("header cut off in a line", Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Ty"), "net.unknown"),
    ("header cut off after a line", Reply(raw=b"HTTP/1.1 201 Created\r\nX-Id: 7\r\n"), "net.unknown"),
    ("header reset", Reply(raw=b"HTTP/1.1 200 OK\r\n", then="reset"), "net.unknown"),
    ("header stalls", Reply(raw=b"HTTP/1.1 200 OK\r\nX-", then="hold"), "net.timeout"),
    ("garbage", Reply(raw=b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "net.unknown"),
    ("another protocol", Reply(raw=b"HTTP/3.0 200 OK\r\n\r\n"), "net.unknown"),
    ("no number as status", Reply(raw=b"HTTP/1.1 abc OK\r\n\r\n"), "net.unknown"),
    ("a status of no class", Reply(raw=b"HTTP/1.1 777 OK\r\nContent-Length: 0\r\n\r\n"), "net.unknown"),
    ("early hints and no more", Reply(raw=b"HTTP/1.1 103 Early Hints\r\n\r\n"), "net.unknown"),
    ("switching protocols", Reply(raw=b"HTTP/1.1 101 Switching\r\n\r\n"), "net.unknown"),
    ("two lengths", Reply(b"", headers={"Content-Length": "5, 6"}), "net.unknown"),
    ("endless header line", Reply(raw=b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000), "net.unknown"),
    ("too many headers", Reply(raw=b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n"), "net.unknown"),
    ("body too short", Reply(body=b"half", headers={"Content-Length": "99"}), "net.unknown"),
    ("body reset", Reply(body=b"half", headers={"Content-Length": "99"}, then="reset"), "net.unknown"),
    ("body stalls", Reply(body=b"half", headers={"Content-Length": "99"}, then="hold"), "net.timeout"),
    (
        "chunks cut off",
        Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal"),
        "net.unknown",
    ),
    (
        "chunks without length",
        Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhalf\r\n"),
        "net.unknown",
    ),
    (
        "broken compression",
        Reply(body=b"no gzip at all", headers={"Content-Encoding": "gzip"}),
        "net.unknown",
    ),
    ("a dripping header", Reply(raw=b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1000, drip=0.05), "net.timeout"),
    ("a dripping body", Reply(body=b"x" * 1000, drip=0.05), "net.timeout"),
]


@pytest.mark.parametrize(
    ("reply", "code"), [row[1:] for row in AFTER_SENDING], ids=[row[0] for row in AFTER_SENDING]
)
def test_after_sending_nobody_knows(service, reply, code):
    service.script("/orders", reply)
    seconds = SHORT if code == "net.timeout" else 10
    for repeatable in (False, True):
        begun = time.monotonic()
        error = failure_of(f"{service.url}/orders", repeatable=repeatable, seconds=seconds)
        assert time.monotonic() - begun < seconds + 1
        if repeatable:
            assert (type(error), error.code) == (R, code)
        else:
            assert (type(error), error.code) == (U, "net.unknown")
        assert error.trace["reason"]
    assert [call.body for call in service.calls()] == [b'{"order":"5001"}'] * 2


def test_an_upload_that_stalls_may_have_arrived(service):
    service.script("/orders", Reply(raw=b"", then="hold", reads=False))
    request = Request("PUT", f"{service.url}/orders", body=b"x" * 20_000_000)
    with pytest.raises(UncertainError) as caught:
        client.send(request, tenant=TENANT, connection=None, deadline=time.monotonic() + SHORT)
    assert caught.value.code == "net.unknown"


def test_an_answer_before_the_body_was_read_counts(service):
    service.script("/orders", Reply(413, reads=False))
    request = Request("POST", f"{service.url}/orders", body=b"x" * 20_000_000)
    with pytest.raises(TerminalError) as caught:
        client.send(request, tenant=TENANT, connection=None, deadline=time.monotonic() + 10)
    assert caught.value.code == "http.413"


# Before sending: retried whatever the method, and the service has seen no request.


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_refused_connection_was_not_sent(outbound_allow, repeatable):
    port = closed_port()
    outbound_allow(port)
    error = failure_of(f"http://127.0.0.1:{port}/", repeatable=repeatable)
    assert (type(error), error.code) == (R, "net.refused")


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_name_that_does_not_resolve_was_not_sent(repeatable):
    error = failure_of("http://nowhere.invalid/", repeatable=repeatable)
    assert (type(error), error.code) == (R, "net.dns")


def test_a_resolver_that_hangs_ends_with_the_deadline(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *_args, **_kwargs: released.wait(10) and [])
    begun = time.monotonic()
    error = failure_of("http://slow.example/", seconds=0.2)
    released.set()
    assert (type(error), error.code) == (R, "net.dns")
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("repeatable", [False, True])
def test_connecting_that_takes_too_long_was_not_sent(outbound_allow, repeatable):
    with Unreachable() as hole:
        outbound_allow(hole.port)
        error = failure_of(f"http://127.0.0.1:{hole.port}/", repeatable=repeatable, seconds=0.3)
    assert (type(error), error.code) == (R, "net.timeout")
    assert "nothing was sent" in error.detail


def test_a_call_whose_time_is_over_is_not_sent(service):
    error = failure_of(f"{service.url}/", seconds=-1)
    assert (type(error), error.code) == (R, "net.timeout")
    assert service.accepted == 0


@pytest.mark.parametrize(
    ("at_accept", "code"), [("stall", "net.timeout"), ("reset", "net.refused"), ("close", "net.refused")]
)
@pytest.mark.parametrize("repeatable", [False, True])
def test_a_handshake_that_fails_was_not_sent(outbound_allow, at_accept, code, repeatable):
    with StubService(at_accept=at_accept) as service:
        outbound_allow(service.port)
        error = failure_of(f"https://127.0.0.1:{service.port}/", repeatable=repeatable, seconds=SHORT)
        assert (type(error), error.code) == (R, code)
        assert service.accepted == 1
        assert service.calls() == []


def test_the_next_address_is_tried_when_the_first_refuses(service, outbound_allow, monkeypatch):
    # The port listens on 127.0.0.1 only.
    answers = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", service.port)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", service.port)),
    ]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_args, **_kwargs: answers)
    outbound_allow(service.port, host="two.example")
    assert send(f"http://two.example:{service.port}/").status == 200
    assert service.calls()[0].headers["host"] == f"two.example:{service.port}"


# TLS


@pytest.fixture
def authority(tmp_path, monkeypatch):
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.path))
    transport.tls_context.cache_clear()
    yield made
    transport.tls_context.cache_clear()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_good_certificate_opens_the_connection(authority, outbound_allow, host):
    with StubService(tls=authority.context_for(host)) as service:
        outbound_allow(service.port, host=host)
        service.script("/orders", Reply(json={"id": 7}))
        answer = send(f"https://{host}:{service.port}/orders")
        assert answer.body() == {"id": 7}
        assert service.calls()[0].headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    "fault",
    [{"host": "other.example"}, {"expired": True}, {"self_signed": True}],
    ids=lambda fault: next(iter(fault)),
)
@pytest.mark.parametrize("repeatable", [False, True])
def test_a_wrong_certificate_is_final_and_nothing_was_sent(authority, outbound_allow, fault, repeatable):
    with StubService(tls=authority.context_for(**{"host": "127.0.0.1", **fault})) as service:
        outbound_allow(service.port)
        error = failure_of(f"https://127.0.0.1:{service.port}/", repeatable=repeatable)
        assert (type(error), error.code) == (T, "net.tls")
        assert service.calls() == []


def test_plain_http_where_tls_was_expected_is_final(service):
    error = failure_of(f"https://127.0.0.1:{service.port}/")
    assert (type(error), error.code) == (T, "net.tls")


def test_deadlines_hold_over_tls(authority, outbound_allow):
    with StubService(tls=authority.context_for("127.0.0.1")) as service:
        outbound_allow(service.port)
        service.script("/drip", Reply(body=b"x" * 1000, drip=0.05))
        begun = time.monotonic()
        error = failure_of(f"{service.url}/drip", "GET", repeatable=True, seconds=SHORT)
        assert (type(error), error.code) == (R, "net.timeout")
        assert time.monotonic() - begun < SHORT + 1


# Time and size


def test_silence_is_borne_for_the_read_timeout_only(service, monkeypatch):
    monkeypatch.setattr(client, "READ_SECONDS", 0.2)
    service.script("/orders", SILENT)
    begun = time.monotonic()
    error = failure_of(f"{service.url}/orders", seconds=client.CONNECT_SECONDS + 0.1)
    assert error.code == "net.unknown"
    assert time.monotonic() - begun < 2


def test_a_longer_deadline_is_a_longer_patience(service, monkeypatch):
    monkeypatch.setattr(client, "READ_SECONDS", 0.1)
    monkeypatch.setattr(client, "CONNECT_SECONDS", 1.0)
    service.script("/orders", Reply(json={}, delay=0.5))
    assert send(f"{service.url}/orders", seconds=3).status == 200


@pytest.mark.parametrize("repeatable", [False, True])
def test_an_answer_above_the_cap_is_cut_off_and_final(service, repeatable, monkeypatch):
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 100_000)
    endless = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    )
    bomb = gzip.compress(b"\0" * 50_000_000)
    replies = {
        "/announced": Reply(body=b"", headers={"Content-Length": "100001"}, then="hold"),
        "/whole": Reply(body=b"x" * 100_001),
        "/endless": Reply(raw=endless + b"10000\r\n" + b"x" * 65_536, then="hold"),
        "/bomb": Reply(body=bomb, headers={"Content-Encoding": "gzip"}),
    }
    for path, reply in replies.items():
        service.script(path, reply)
        error = failure_of(f"{service.url}{path}", repeatable=repeatable)
        assert (type(error), error.code) == (T, "limit.size"), path
        assert "has processed the request" in error.detail


def test_an_answer_at_the_cap_is_taken(service, monkeypatch):
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 100_000)
    service.script("/orders", Reply(body=b"x" * 100_000))
    assert len(send(f"{service.url}/orders").raw) == 100_000


def test_the_cap_is_five_mebibytes():
    assert client.MAX_ANSWER_BYTES == 5_242_880


def test_an_error_body_that_stalls_does_not_hide_the_status(service, monkeypatch):
    monkeypatch.setattr(client, "EXCERPT_SECONDS", 0.2)
    service.script("/orders", Reply(404, body=b"gone", headers={"Content-Length": "999"}, then="hold"))
    error = failure_of(f"{service.url}/orders")
    assert (type(error), error.code, error.trace["body"]) == (T, "http.404", "gone")
