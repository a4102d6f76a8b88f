"""HTTP at large: any service with an address, called by the step `http/request` (SPEC sections 10 and 13)."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any, Literal
from urllib.parse import urlencode

from django.utils.translation import gettext_lazy as _
from pydantic import ConfigDict, Field, field_validator, model_validator

from connectors import address, client, credentials
from connectors.answers import storable
from connectors.catalog import Call, Repeat, Shape, operation
from connectors.models import Connection
from connectors.providers import Check, Provider, register
from csbot.lib import json
from csbot.lib.errors import RetryableError, RunError, Snooze, TerminalError

# RFC 9110 section 5.6.2.
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# Control characters would end the header or change what follows (RFC 9110 section 5.5); a tab may be inside.
_BAD_IN_VALUE = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
# Framing and the connection itself are the client's business; the key has its own input.
_OWN_HEADERS = frozenset(
    {
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer",
        "expect", "proxy-authorization", "proxy-connection", "idempotency-key",
    }
)  # fmt: skip
# These say that the address is right and the credentials are not.
_REFUSING = frozenset({401, 403, 407})

Method = Literal["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"]


class HttpConfig(Shape):
    """Where the service is."""

    baseUrl: str = Field(max_length=2000, description=_("The address that every path is added to."))

    @field_validator("baseUrl")
    @classmethod
    def _is_base(cls, base: str) -> str:
        return address.check_base(base)


class Basic(Shape):
    """A user name and a password (RFC 7617)."""

    model_config = ConfigDict(hide_input_in_errors=True)

    username: str = Field(max_length=4000, pattern=r"^[^:\x00-\x1f\x7f]*$")
    password: str = Field(max_length=4000, pattern=r"^[^\x00-\x1f\x7f]*$")

    @property
    def pair(self) -> str:
        """Both in base64, as the header has them."""
        return b64encode(f"{self.username}:{self.password}".encode()).decode()


class Header(Shape):
    """A header that the service knows the caller by, such as X-Api-Key."""

    model_config = ConfigDict(hide_input_in_errors=True)

    name: str = Field(max_length=200)
    value: str = Field(min_length=1, max_length=4000, pattern=r"^[^\x00-\x1f\x7f]+$")

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        return _checked_name(name)


class HttpCredentials(Shape):
    """How the service knows the caller: one of three ways, or none."""

    model_config = ConfigDict(hide_input_in_errors=True)

    bearer: str | None = Field(default=None, min_length=1, max_length=4000, pattern=r"^[\x21-\x7e]+$")
    basic: Basic | None = None
    header: Header | None = None

    @model_validator(mode="after")
    def _is_one(self) -> HttpCredentials:
        if len([way for way in (self.bearer, self.basic, self.header) if way is not None]) > 1:
            raise ValueError("expected one of bearer, basic and header")
        return self

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the credentials."""
        if self.bearer is not None:
            return {"Authorization": f"Bearer {self.bearer}"}
        if self.basic is not None:
            return {"Authorization": f"Basic {self.basic.pair}"}
        return {self.header.name: self.header.value} if self.header else {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that nobody may see again. A user name without a password is a key."""
        if self.bearer is not None:
            return (self.bearer,)
        if self.basic is not None:
            return (self.basic.password or self.basic.username, self.basic.pair)
        return (self.header.value,) if self.header else ()


class HttpRequest(Shape):
    """Inputs of `http/request`. At most one of `json`, `form` and `body` is sent."""

    # A lone placeholder keeps its type, and an order number is often a number.
    model_config = ConfigDict(coerce_numbers_to_str=True)

    method: Method = Field(
        default="GET", description=_("POST and PATCH are repeated only with an idempotencyKey.")
    )
    path: str = Field(
        default="", description=_("Added to the connection's address; each placeholder becomes one segment.")
    )
    query: dict[str, Any] = Field(
        default_factory=dict, description=_("Query parameters; a list is sent repeatedly.")
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description=_("Headers besides those of the connection.")
    )
    payload: Any = Field(default=None, alias="json", description=_("The body as JSON."))
    form: dict[str, Any] | None = Field(default=None, description=_("The body as a form."))
    body: str | None = Field(default=None, description=_("The body as text."))
    idempotencyKey: str | None = Field(
        default=None,
        description=_("The same for the same thing: the service does it once, so it may be asked again."),
    )

    @field_validator("method", mode="before")
    @classmethod
    def _is_upper(cls, method: Any) -> Any:
        return method.upper() if isinstance(method, str) else method


class HttpAnswer(Shape):
    """Outputs of `http/request`: header names in lower case, the body as JSON, text or a note about bytes."""

    status: int
    headers: dict[str, str]
    body: Any = None


def repeat_of(inputs: HttpRequest, has_given_key: bool) -> Repeat:
    """Return how often a request may be sent: RFC 9110 section 9.2.2 and SPEC section 5.4."""
    if inputs.method in ("GET", "HEAD", "OPTIONS"):
        return Repeat.SAFE
    if inputs.method in ("PUT", "DELETE") or has_given_key:
        return Repeat.KEYED
    return Repeat.ONCE


@operation(
    "http/request",
    title=_("Call a service over HTTP"),
    inputs=HttpRequest,
    outputs=HttpAnswer,
    repeat=repeat_of,
    provider="http",
    timeout_seconds=client.CONNECT_SECONDS + client.READ_SECONDS,
    raw_inputs=frozenset({"path"}),
)
def request(call: Call, inputs: HttpRequest) -> HttpAnswer:
    """Send one request to the connection's service. Raises what `client.send` raises, and `input.invalid`."""
    account = _account(call)
    known_by = HttpCredentials.model_validate(credentials.unsealed(account))
    headers = _checked_headers(inputs.headers, known_by)
    body, content_type = _body(inputs)
    if content_type and "content-type" not in {name.lower() for name in headers}:
        headers["Content-Type"] = content_type
    headers["Idempotency-Key"] = _checked_value("idempotencyKey", call.idempotency_key)
    made = client.Request(
        method=inputs.method,
        url=_url(account, inputs.path, inputs.query),
        headers=headers,
        credentials=known_by.headers,
        body=body,
        is_repeatable=repeat_of(inputs, call.has_given_key) is not Repeat.ONCE,
        secrets=known_by.secrets,
    )
    answer = client.send(made, tenant=call.tenant, connection=account, deadline=call.deadline)
    shown = made.mask.data({"headers": storable(answer.headers), "body": answer.body()})
    return HttpAnswer(status=answer.status, **shown)


def check(call: Call) -> Check:
    """Ask the base address and say what happened; any answer that does not refuse the caller will do."""
    try:
        answer = request(call, HttpRequest(method="GET"))
    except Snooze as wait:
        return Check(False, f"The service asked for a pause ({wait.reason}).", code="http.429", status=429)
    except RunError as error:
        status = error.trace.get("status")
        is_ok = isinstance(status, int) and status < 500 and status not in _REFUSING
        return Check(
            is_ok and not isinstance(error, RetryableError), error.detail, code=error.code, status=status
        )
    return Check(True, f"The service answered {answer.status}.", status=answer.status)


def _account(call: Call) -> Connection:
    if call.connection is None or call.connection.provider != "http":
        raise TerminalError("missing.connection", "The step needs a connection of provider http.")
    return call.connection


def _url(account: Connection, path: str, query: dict[str, Any]) -> str:
    try:
        return address.join(account.config["baseUrl"], path, query)
    except ValueError as error:
        raise TerminalError("input.invalid", f"The request has no usable address: {error}.") from error


def _body(inputs: HttpRequest) -> tuple[bytes | None, str | None]:
    """Return the body and its content type. Raises TerminalError when there are several, or for a GET."""
    given = [name for name in ("payload", "form", "body") if getattr(inputs, name) is not None]
    if len(given) > 1:
        raise TerminalError("input.invalid", "At most one of json, form and body can be sent.")
    if given and inputs.method in ("GET", "HEAD"):
        raise TerminalError("input.invalid", f"{inputs.method} is sent without a body.")
    try:
        if inputs.payload is not None:
            return json.dumps(inputs.payload).encode(), "application/json"
        if inputs.form is not None:
            return urlencode(address.pairs(inputs.form)).encode(), "application/x-www-form-urlencoded"
        if inputs.body is not None:
            return inputs.body.encode(), "text/plain; charset=utf-8"
    except (ValueError, TypeError) as error:
        raise TerminalError("input.invalid", f"The body cannot be written: {error}.") from error
    return None, None


def _checked_headers(headers: dict[str, str], known_by: HttpCredentials) -> dict[str, str]:
    """Return the step's headers. Raises TerminalError for those that are not the step's to set."""
    taken = {name.lower() for name in known_by.headers}
    checked: dict[str, str] = {}
    for name, value in headers.items():
        try:
            _checked_name(name)
        except ValueError as error:
            raise TerminalError("input.invalid", str(error)) from error
        if name.lower() in taken:
            raise TerminalError(
                "input.invalid", f"The header {name} belongs to the connection's credentials."
            )
        checked[name] = _checked_value(f"headers.{name}", value)
    return checked


def _checked_name(name: str) -> str:
    """Return the name of a header that others than the client may set. Raises ValueError."""
    if not _TOKEN.fullmatch(name):
        raise ValueError("A header has a name with characters that are not allowed there.")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"The header {name} is set by csbot and cannot be given.")
    return name


def _checked_value(where: str, value: str) -> str:
    if _BAD_IN_VALUE.search(value):
        raise TerminalError("input.invalid", f"{where} may not hold line breaks or control characters.")
    return value.strip(" \t")


register(Provider("http", _("HTTP"), HttpConfig, HttpCredentials, check))
