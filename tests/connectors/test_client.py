"""What goes out and what comes back: requests as made, redirects, secrets, waiting."""

import gzip
import time
from decimal import Decimal

import pytest
from django.db import transaction

from connectors import client
from connectors.client import Request
from csbot.lib.errors import Snooze
from tests.connectors.calls import SECRET, SHORT, TENANT, T, failure_of, send
from tests.stub_service import SILENT, Reply, StubService

# What is sent, what comes back


def test_a_request_arrives_as_it_was_made(service):
    service.script("/orders", Reply(json={"price": Decimal("12.50"), "id": 2**63}))
    answer = send(
        f"{service.url}/orders?a=1&a=2&b=%20x", "PUT", headers={"X-Shop": "č", "accept": "text/csv"}
    )
    call = service.calls()[0]
    assert (call.method, call.target, call.body) == ("PUT", "/orders?a=1&a=2&b=%20x", b'{"order":"5001"}')
    assert call.headers["x-shop"].encode("latin-1").decode() == "č"
    assert call.headers["accept"] == "text/csv"
    assert call.headers["host"] == f"127.0.0.1:{service.port}"
    assert call.headers["connection"] == "close"
    assert "cookie" not in call.headers
    assert answer.body() == {"price": Decimal("12.50"), "id": 2**63}
    assert str(answer.body()["price"]) == "12.50"


def test_a_compressed_answer_is_read(service):
    body = gzip.compress(b'{"id": 7}')
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    service.script("/orders", Reply(body=body, headers=headers))
    assert send(f"{service.url}/orders").body() == {"id": 7}


def test_head_has_no_body(service):
    service.script("/orders", Reply(body=b"x" * 100, headers={"Content-Length": "99999999"}))
    answer = send(f"{service.url}/orders", "HEAD")
    assert (answer.status, answer.raw) == (200, b"")


def test_the_environment_does_not_matter(service, monkeypatch, tmp_path):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login jana password geheim")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    client.send(
        Request("GET", f"{service.url}/"), tenant=TENANT, connection=None, deadline=time.monotonic() + 10
    )
    assert "authorization" not in service.calls()[0].headers


def test_every_call_has_a_fresh_connection(service):
    for _ in range(3):
        send(f"{service.url}/orders")
    assert service.accepted == 3


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_redirect_of_get_and_head_is_followed(service, status, method):
    service.script("/old", Reply(status, headers={"Location": "/new?a=%20b#part"}))
    service.script("/new", Reply(body=b"here"))
    answer = send(f"{service.url}/old", method, headers={"X-Shop": "7"})
    assert answer.raw == (b"here" if method == "GET" else b"")
    assert [(call.method, call.target) for call in service.calls()] == [
        (method, "/old"),
        (method, "/new?a=%20b"),
    ]
    # The same origin: everything goes along.
    assert service.calls()[1].headers["authorization"] == f"Bearer {SECRET}"
    assert service.calls()[1].headers["x-shop"] == "7"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_a_redirect_of_anything_else_is_final(service, method):
    service.script("/old", Reply(307, headers={"Location": "/new"}))
    error = failure_of(f"{service.url}/old", method, repeatable=True)
    assert (type(error), error.code) == (T, "http.307")
    assert len(service.calls()) == 1


@pytest.mark.parametrize("hops", [5, 6])
def test_five_redirects_are_followed_and_no_more(service, hops):
    for hop in range(hops):
        service.script(f"/{hop}", Reply(302, headers={"Location": f"/{hop + 1}"}))
    service.script(f"/{hops}", Reply(body=b"here"))
    if hops == 5:
        assert send(f"{service.url}/0", "GET").raw == b"here"
    else:
        error = failure_of(f"{service.url}/0", "GET", repeatable=True)
        assert (type(error), error.code) == (T, "http.302")
    assert len(service.calls()) == 6


def test_credentials_and_headers_stay_at_the_origin(service, outbound_allow):
    with StubService() as stranger:
        outbound_allow(stranger.port)
        service.script("/old", Reply(302, headers={"Location": f"{stranger.url}/trap"}))
        stranger.script("/trap", Reply(302, headers={"Location": f"{service.url}/back"}))
        send(f"{service.url}/old", "GET", headers={"X-Shop": "7", "Cookie": "a=b", "Accept": "text/csv"})
        for call in (*stranger.calls(), *service.calls("/back")):
            assert SECRET not in str(call)
            assert not {"authorization", "x-shop", "cookie", "idempotency-key"} & set(call.headers)
            assert call.headers["accept"] == "text/csv"


@pytest.mark.parametrize(
    "location",
    [
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "//localhost/",
        "http://2130706433/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://jana:heslo@127.0.0.1/",
        "http://[::1",
        "http://127.0.0.1:99999/",
    ],
)
def test_a_redirect_is_checked_like_any_address(service, location):
    service.script("/old", Reply(302, headers={"Location": location}))
    error = failure_of(f"{service.url}/old", "GET", repeatable=True)
    assert (type(error), error.code) == (T, "input.invalid")
    assert len(service.calls()) == 1


def test_a_redirect_without_location_is_final(service):
    service.script("/old", Reply(302))
    assert failure_of(f"{service.url}/old", "GET", repeatable=True).code == "http.302"


def test_a_location_in_utf_8_is_followed(service):
    raw = "HTTP/1.1 302 Found\r\nLocation: /objednávky?číslo=1\r\nContent-Length: 0\r\n\r\n".encode()
    service.script("/old", Reply(raw=raw))
    send(f"{service.url}/old", "GET")
    assert service.calls()[1].target == "/objedn%C3%A1vky?%C4%8D%C3%ADslo=1"


# 429 without a connection, Retry-After, secrets, transactions


def test_a_429_waits_and_is_no_failure(service):
    service.script("/orders", Reply(429, headers={"Retry-After": "7"}), Reply(429))
    for seconds in (7, 30):
        with pytest.raises(Snooze) as caught:
            send(f"{service.url}/orders")
        assert (caught.value.reason, caught.value.seconds) == ("rate", seconds)


@pytest.mark.parametrize(("status", "repeatable"), [(503, False), (408, False), (425, False), (500, True)])
def test_what_the_service_asks_for_goes_along(service, status, repeatable):
    service.script("/orders", Reply(status, headers={"Retry-After": "3600"}))
    error = failure_of(f"{service.url}/orders", repeatable=repeatable)
    assert error.retry_after == 3600


def test_no_secret_is_told(service, caplog):
    echo = f"You sent Bearer {SECRET} and api_key=q-secret. ".encode() * 300
    service.script("/hook", Reply(500, body=echo), Reply(404, body=echo), SILENT)
    for method in ("POST", "GET", "POST"):
        error = failure_of(f"{service.url}/hook?api_key=q-secret&page=2", method, seconds=SHORT)
        told = f"{error!r} {error.detail} {error.trace} {caplog.text}"
        assert SECRET not in told
        assert "api_key=•••&page=•••" in error.trace["url"]
        assert error.__cause__ is None or error.__suppress_context__
    assert len(error.trace.get("body", "")) <= 4096


def test_the_trace_tells_staff_what_was_called(service):
    service.script("/orders", Reply(422, json={"fault": "no such item"}))
    error = failure_of(f"{service.url}/orders")
    assert error.trace == {
        "method": "POST",
        "url": f"{service.url}/orders",
        "status": 422,
        "body": '{"fault":"no such item"}',
    }
    assert "no such item" not in error.detail


@pytest.mark.django_db
def test_a_call_inside_a_transaction_is_our_fault(service):
    with transaction.atomic(), pytest.raises(RuntimeError, match="transaction"):
        send(f"{service.url}/orders")
    assert service.accepted == 0


def test_a_header_that_cannot_be_written_is_not_sent(service):
    error = failure_of(f"{service.url}/orders", headers={"X-Shop": f"a\r\nX-Admin: {SECRET}"})
    assert (type(error), error.code) == (T, "input.invalid")
    assert SECRET not in f"{error.detail}{error.trace}"
    assert service.accepted == 0
