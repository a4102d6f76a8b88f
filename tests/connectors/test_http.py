"""The step `http/request`: what goes out, what is refused before it does, what may be sent twice."""

import time
from decimal import Decimal

import pytest
from pydantic import ValidationError

from connectors import catalog, credentials, providers
from connectors.catalog import Call, Repeat
from connectors.models import Connection
from connectors.providers import http
from connectors.providers.http import HttpCredentials, HttpRequest
from csbot.lib.errors import RetryableError, Snooze, TerminalError, UncertainError
from tests.factories import ConnectionFactory
from tests.stub_service import CLOSED, Reply, StubService, closed_port
from tickets.events import SYSTEM
from tickets.models import Tenant

TENANT = Tenant(pk=1, slug="shop")


def account(url: str = "https://shop.example/api", known_by: dict | None = None) -> Connection:
    """A connection that is not in the database; good for what is refused before sending."""
    made = Connection(tenant=TENANT, provider="http", name="shop", config={"baseUrl": url})
    credentials.seal(made, known_by or {})
    return made


def call_of(connection: Connection | None, key: str | None = None, seconds: float = 10.0) -> Call:
    return Call(
        tenant=connection.tenant if connection else TENANT,
        connection=connection,
        actor=SYSTEM,
        idempotency_key=key or "run:st_1",
        has_given_key=key is not None,
        deadline=time.monotonic() + seconds,
        log=lambda code, **params: None,
    )


def request(connection: Connection | None, key: str | None = None, **inputs: object) -> http.HttpAnswer:
    operation = catalog.find("http/request")
    return operation.function(call_of(connection, key), HttpRequest.model_validate(inputs))


@pytest.fixture
def reachable(service, committed):
    """`reachable(known_by)` is a stored connection to the stub's /api."""

    def make(known_by: dict | None = None) -> Connection:
        made = ConnectionFactory(tenant=committed, config={"baseUrl": f"{service.url}/api"})
        credentials.seal(made, known_by or {})
        made.save()
        return made

    return make


# The declaration


def test_it_is_in_the_catalogue():
    operation = catalog.find("http/request")
    assert (operation.provider, operation.idempotent, operation.builtin) == ("http", "depends", False)
    assert operation.timeout_seconds == 35
    assert operation.raw_inputs == {"path"}
    assert providers.find("http").limits == {"rate": None, "concurrency": 4}


@pytest.mark.parametrize(
    ("method", "without_key", "with_key"),
    [
        ("GET", Repeat.SAFE, Repeat.SAFE),
        ("HEAD", Repeat.SAFE, Repeat.SAFE),
        ("OPTIONS", Repeat.SAFE, Repeat.SAFE),
        ("PUT", Repeat.KEYED, Repeat.KEYED),
        ("DELETE", Repeat.KEYED, Repeat.KEYED),
        ("POST", Repeat.ONCE, Repeat.KEYED),
        ("PATCH", Repeat.ONCE, Repeat.KEYED),
    ],
)
def test_what_may_be_repeated(method, without_key, with_key):
    operation = catalog.find("http/request")
    inputs = HttpRequest(method=method)
    assert operation.repeat_of(inputs, False) is without_key
    assert operation.repeat_of(inputs, True) is with_key


def test_inputs_take_what_templates_give():
    inputs = HttpRequest.model_validate(
        {"method": "post", "path": 5001, "headers": {"X-Order": 5001}, "idempotencyKey": Decimal("5001")}
    )
    assert (inputs.method, inputs.path, inputs.headers) == ("POST", "5001", {"X-Order": "5001"})
    assert inputs.idempotencyKey == "5001"


@pytest.mark.parametrize(
    "inputs",
    [
        {"method": "TRACE"},
        {"method": "CONNECT"},
        {"method": "GET\r\n"},
        {"url": "http://evil.example"},
        {"query": []},
    ],
)
def test_other_inputs_are_refused(inputs):
    with pytest.raises(ValidationError):
        HttpRequest.model_validate(inputs)


# What goes out


def test_a_request_goes_out_as_the_step_says(service, reachable):
    service.script(
        "/api/orders/5001", Reply(201, json={"id": 7, "price": Decimal("12.50")}, headers={"X-Id": "7"})
    )
    answer = request(
        reachable({"bearer": "t0ken-of-the-shop"}),
        "order-5001",
        method="POST",
        path="/orders/5001",
        query={"dry": False},
        headers={"X-Shop": "7"},
        json={"price": Decimal("12.50"), "name": "č"},
    )
    call = service.calls()[0]
    assert (call.method, call.target) == ("POST", "/api/orders/5001?dry=false")
    assert call.body == '{"price":12.50,"name":"č"}'.encode()
    assert call.headers["content-type"] == "application/json"
    assert call.headers["authorization"] == "Bearer t0ken-of-the-shop"
    assert call.headers["idempotency-key"] == "order-5001"
    assert call.headers["x-shop"] == "7"
    assert answer.status == 201
    assert answer.headers["x-id"] == "7"
    assert answer.model_dump()["body"] == {"id": 7, "price": Decimal("12.50")}


@pytest.mark.parametrize(
    ("known_by", "header", "value"),
    [
        ({"bearer": "abc.def"}, "authorization", "Bearer abc.def"),
        (
            {"basic": {"username": "jana", "password": "heslo:č"}},
            "authorization",
            "Basic amFuYTpoZXNsbzrEjQ==",
        ),
        ({"basic": {"username": "sk_live_key", "password": ""}}, "authorization", "Basic c2tfbGl2ZV9rZXk6"),
        ({"header": {"name": "X-Api-Key", "value": "k-123"}}, "x-api-key", "k-123"),
    ],
)
def test_each_way_to_be_known(service, reachable, known_by, header, value):
    request(reachable(known_by))
    assert service.calls()[0].headers[header] == value


def test_without_credentials_there_is_no_authorization(service, reachable):
    request(reachable(), headers={"Authorization": "Digest own"})
    assert service.calls()[0].headers["authorization"] == "Digest own"
    assert service.calls()[0].headers["idempotency-key"] == "run:st_1"


@pytest.mark.parametrize(
    ("inputs", "content_type", "body"),
    [
        ({"json": []}, "application/json", b"[]"),
        ({"json": 0}, "application/json", b"0"),
        (
            {"form": {"a": "č", "b": [1, 2], "c": None}},
            "application/x-www-form-urlencoded",
            b"a=%C4%8D&b=1&b=2",
        ),
        ({"body": "č"}, "text/plain; charset=utf-8", "č".encode()),
        ({"body": "<a/>", "headers": {"content-type": "text/xml"}}, "text/xml", b"<a/>"),
        (
            {"json": {}, "headers": {"Content-Type": "application/vnd.api+json"}},
            "application/vnd.api+json",
            b"{}",
        ),
        ({}, None, b""),
    ],
)
def test_each_kind_of_body(service, reachable, inputs, content_type, body):
    request(reachable(), method="POST", **inputs)
    call = service.calls()[0]
    assert (call.headers.get("content-type"), call.body) == (content_type, body)
    assert call.headers["content-length"] == str(len(body))


def test_an_echoed_secret_does_not_come_back(service, reachable):
    echo = {"you": {"sent": "Bearer t0ken-of-the-shop"}}
    service.script("/api", Reply(json=echo, headers={"X-Echo": "t0ken-of-the-shop"}))
    answer = request(reachable({"bearer": "t0ken-of-the-shop"}))
    assert "t0ken-of-the-shop" not in str(answer)
    assert answer.body == {"you": {"sent": "•••"}}


def test_a_redirect_elsewhere_takes_no_key_along(service, reachable, outbound_allow):
    with StubService() as stranger:
        outbound_allow(stranger.port)
        service.script("/api", Reply(302, headers={"Location": f"{stranger.url}/"}))
        request(reachable({"header": {"name": "X-Api-Key", "value": "k-123456"}}), headers={"X-Shop": "7"})
        assert not {"x-api-key", "idempotency-key", "x-shop"} & set(stranger.calls()[0].headers)


def test_the_outcome_depends_on_the_key(service, reachable):
    service.script("/api/orders", CLOSED)
    connection = reachable()
    with pytest.raises(UncertainError):
        request(connection, method="POST", path="/orders", json={})
    with pytest.raises(RetryableError):
        request(connection, "order-1", method="POST", path="/orders", json={})
    with pytest.raises(RetryableError):
        request(connection, method="PUT", path="/orders", json={})
    assert [call.headers["idempotency-key"] for call in service.calls()] == [
        "run:st_1",
        "order-1",
        "run:st_1",
    ]


# What is refused before anything is sent


@pytest.mark.parametrize(
    "inputs",
    [
        {"path": "https://evil.example/"},
        {"path": "//evil.example/"},
        {"path": "/../admin"},
        {"path": "/%2e%2e/admin"},
        {"path": "\\evil"},
        {"path": "/orders\r\nX: y"},
        {"query": {"a": {"b": 1}}},
        {"headers": {"Host": "evil.example"}},
        {"headers": {"hOST": "evil.example"}},
        {"headers": {"Content-Length": "0"}},
        {"headers": {"Transfer-Encoding": "chunked"}},
        {"headers": {"Connection": "keep-alive"}},
        {"headers": {"Upgrade": "h2c"}},
        {"headers": {"Expect": "100-continue"}},
        {"headers": {"Idempotency-Key": "mine"}},
        {"headers": {"Authorization": "Bearer mine"}},
        {"headers": {"AUTHORIZATION": "Bearer mine"}},
        {"headers": {"Host ": "evil.example"}},
        {"headers": {" Host": "evil.example"}},
        {"headers": {"X:Y": "z"}},
        {"headers": {"": "z"}},
        {"headers": {"X\r\nHost": "evil.example"}},
        {"headers": {"X-Čau": "z"}},
        {"headers": {"X": "a\r\nHost: evil.example"}},
        {"headers": {"X": "a\nb"}},
        {"headers": {"X": "a\x00b"}},
        {"headers": {"X": "\ud800"}},
        {"method": "POST", "json": {}, "body": "x"},
        {"method": "POST", "json": {}, "form": {}},
        {"method": "GET", "json": {}},
        {"method": "HEAD", "body": "x"},
        {"method": "POST", "form": {"a": {}}},
        {"method": "POST", "body": "\ud800"},
        {"method": "POST", "json": {"a": object()}},
    ],
)
def test_what_is_not_the_steps_to_set_is_refused(inputs):
    with pytest.raises(TerminalError) as caught:
        request(account(known_by={"bearer": "t0ken-of-the-shop"}), **inputs)
    assert caught.value.code == "input.invalid"


@pytest.mark.parametrize("key", ["a\r\nX-Admin: 1", "a\nb", "a\x00b"])
def test_a_key_that_breaks_the_header_is_refused(key):
    with pytest.raises(TerminalError) as caught:
        request(account(), key)
    assert caught.value.code == "input.invalid"


def test_the_header_of_the_credentials_is_theirs():
    with pytest.raises(TerminalError, match="credentials"):
        request(
            account(known_by={"header": {"name": "X-Api-Key", "value": "k"}}), headers={"x-api-key": "mine"}
        )


def test_a_step_without_its_connection_fails():
    for connection in (None, Connection(tenant=TENANT, provider="email", name="post")):
        with pytest.raises(TerminalError) as caught:
            request(connection)
        assert caught.value.code == "missing.connection"


# Credentials


@pytest.mark.parametrize(
    "given",
    [
        {"bearer": ""},
        {"bearer": "a b"},
        {"bearer": "a\r\nb"},
        {"bearer": "č"},
        {"bearer": 7},
        {"bearer": "a", "basic": {"username": "a", "password": "b"}},
        {"basic": {"username": "a:b", "password": "c"}},
        {"basic": {"username": "a"}},
        {"basic": {"username": "a", "password": "b\nc"}},
        {"header": {"name": "Host", "value": "a"}},
        {"header": {"name": "Content-Length", "value": "1"}},
        {"header": {"name": "X Y", "value": "a"}},
        {"header": {"name": "X", "value": "a\nb"}},
        {"token": "a"},
    ],
)
def test_credentials_that_cannot_be_sent_are_refused_without_being_told(given):
    with pytest.raises(ValidationError) as caught:
        HttpCredentials.model_validate(given)
    assert "input_value" not in str(caught.value)


# Trying a connection


@pytest.mark.parametrize(
    ("reply", "is_ok", "code"),
    [
        (Reply(json={}), True, None),
        (Reply(404), True, "http.404"),
        (Reply(405), True, "http.405"),
        (Reply(401), False, "http.401"),
        (Reply(403), False, "http.403"),
        (Reply(500), False, "http.500"),
        (Reply(503), False, "http.503"),
        (Reply(408), False, "http.408"),
        (Reply(429), False, "http.429"),
        (CLOSED, False, "net.unknown"),
    ],
)
def test_a_check_says_what_happened(service, reachable, reply, is_ok, code):
    service.script("/api", reply)
    checked = http.check(call_of(reachable()))
    assert (checked.is_ok, checked.code) == (is_ok, code)
    assert checked.message


def test_a_check_of_a_dead_address_says_so(reachable, outbound_allow):
    connection = reachable()
    port = closed_port()
    outbound_allow(port)
    connection.config = {"baseUrl": f"http://127.0.0.1:{port}"}
    assert http.check(call_of(connection)).code == "net.refused"


def test_a_429_is_waited_for(service, reachable):
    service.script("/api", Reply(429))
    with pytest.raises(Snooze):
        request(reachable())
