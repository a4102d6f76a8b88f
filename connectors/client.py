"""The one HTTP client: guard, deadline, size cap, redirects, and each outcome said as one of the five errors.

Invariants: no database transaction is open during a call; what is not sure to have been left unprocessed is
repeated only when the caller says that it may be; no secret is in an error, a trace or a log (SPEC sections
5.3 to 5.5, 10).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urljoin, urlsplit

import requests
from django.db import connection as database
from urllib3.exceptions import HTTPError

from connectors import guard, refusals, transport
from connectors.answers import Answer, storable
from connectors.credentials import MASK, Mask
from connectors.guard import Target
from connectors.models import Connection
from csbot.lib import metrics
from csbot.lib.errors import RetryableError, RunError, Snooze, TerminalError, UncertainError
from tickets.models import Tenant

# SPEC section 10. Connecting includes DNS and the TLS handshake.
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
MAX_ANSWER_BYTES = 5 * 1024 * 1024
MAX_REDIRECTS = 5
# For the eyes of staff only, so a beginning and a short wait are enough.
EXCERPT_CHARACTERS = 4 * 1024
# Longer, so that a secret is masked before it can be cut in two.
EXCERPT_BYTES = 16 * 1024
EXCERPT_SECONDS = 2.0
PIECE_BYTES = 64 * 1024

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# The service says of itself that it did not process the request (RFC 9110, RFC 8470), or that it cannot now.
_NOT_PROCESSED = frozenset({408, 425, 503})
_OWN_HEADERS = {
    "User-Agent": "csbot",
    "Accept": "*/*",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}
# What still goes along when a redirect leaves the connection's origin.
_NEUTRAL_HEADERS = frozenset({"accept", "accept-encoding", "accept-language", "connection", "user-agent"})
# After the request was sent, any of these means that nobody knows whether it was processed.
_MAYBE = (requests.RequestException, HTTPError, OSError, ValueError)

# urllib3 warns about odd answers with the whole address, which may hold secrets in its query.
logging.getLogger("urllib3").setLevel(logging.ERROR)


@dataclass(frozen=True)
class Request:
    """One call to make.

    `url` has passed `address.join` or is as strict. `credentials` are headers that never leave the origin of
    `url`. `is_repeatable`: sending it twice does no harm, or it carries a key that the service knows it by.
    `secrets` are masked in everything that people read.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    is_repeatable: bool = False
    secrets: tuple[str, ...] = ()

    @property
    def mask(self) -> Mask:
        """What hides the secrets of this call."""
        return Mask((*self.secrets, *self.credentials.values()))


@dataclass(frozen=True)
class _Trip:
    """What all exchanges of one call share: whose it is, which provider counts it, when it has to end."""

    slug: str
    provider: str
    deadline: float


def send(request: Request, *, tenant: Tenant, connection: Connection | None, deadline: float) -> Answer:
    """Send `request` for `tenant` and return the answer, which is a 2xx one.

    `deadline` is a value of `time.monotonic()` that ends the call with all its redirects. `connection` is
    None for a call that belongs to no connection; then a 429 closes nothing.

    Raises Snooze `rate` on a closed connection (before sending) and on a 429; RetryableError, TerminalError
    or UncertainError with `trace` (method, url, status, body) for staff; RuntimeError inside a transaction.
    """
    if database.in_atomic_block:
        raise RuntimeError("A foreign service may not be called while a database transaction is open.")
    refused_before = refusals.expect_open(connection) if connection else 0
    answer = _follow(request, _Trip(tenant.slug, connection.provider if connection else "none", deadline))
    if answer.status == 429:
        named = answer.retry_after(datetime.now(UTC))
        if connection is None:
            raise Snooze("rate", seconds=named or refusals.FIRST_PAUSE_SECONDS)
        until = refusals.close(connection, named)
        raise Snooze("rate", until=until, seconds=None if until else refusals.FIRST_PAUSE_SECONDS)
    failure = classify(answer, request)
    if failure is not None:
        raise _told(failure, request, answer)
    if connection and refused_before:
        refusals.forget(connection)
    return answer


def classify(answer: Answer, request: Request) -> RunError | None:
    """Return the error that `answer` means for its run (SPEC section 5.3), None for a success.

    A 429 is dealt with before, since it needs the database.
    """
    status = answer.status
    if answer.is_success:
        return None
    said = f"The service answered {status} to {request.method} {shown_url(answer.url)}."
    if status in _NOT_PROCESSED or (status >= 500 and request.is_repeatable):
        retry_after = answer.retry_after(datetime.now(UTC))
        return RetryableError(f"http.{status}", said, retry_after=retry_after)
    if status >= 500:
        return UncertainError(
            f"http.{status}", f"{said} Whether it processed the request is unknown, and it is not repeatable."
        )
    if status in _REDIRECTS and "location" in answer.headers:
        return TerminalError(f"http.{status}", f"{said} Redirects are followed for GET and HEAD only.")
    return TerminalError(f"http.{status}", said)


def shown_url(url: str) -> str:
    """Return `url` for people: without user name, and with the values of its query masked."""
    parts = urlsplit(url)
    query = "&".join(f"{quote(name)}={MASK}" for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" + (f"?{query}" if query else "")


def _follow(request: Request, trip: _Trip) -> Answer:
    """Send and follow the redirects of a GET or HEAD, each one checked by the guard."""
    home: Target | None = None
    try:
        for _ in range(MAX_REDIRECTS + 1):
            target = guard.target_of(request.url)
            home = home or target
            if target != home:
                request = _without_credentials(request)
            answer = _counted(request, target, trip)
            location = answer.headers.get("location")
            if request.method not in ("GET", "HEAD") or answer.status not in _REDIRECTS or not location:
                return answer
            request = replace(request, url=_next_url(request.url, location))
        raise TerminalError(
            f"http.{answer.status}", f"The service redirected more than {MAX_REDIRECTS} times."
        )
    except RunError as error:
        # Without the chain: exceptions of requests and urllib3 carry whole addresses and header values.
        raise _told(error, request) from None


def _without_credentials(request: Request) -> Request:
    """Return the request as a stranger may see it; it stays so, even if a later redirect leads back."""
    kept = {name: value for name, value in request.headers.items() if name.lower() in _NEUTRAL_HEADERS}
    # What was a header is still a secret.
    secrets = (*request.secrets, *request.credentials.values())
    return replace(request, headers=kept, credentials={}, secrets=secrets)


def _next_url(url: str, location: str) -> str:
    """Return the absolute ASCII address that a Location header means. Raises TerminalError."""
    # Header bytes are read as Latin-1; an unescaped Location is UTF-8 in practice.
    with contextlib.suppress(UnicodeError):
        location = location.encode("latin-1").decode()
    try:
        return requests.utils.requote_uri(urljoin(url, location)).partition("#")[0]
    except ValueError as error:
        raise TerminalError(
            "input.invalid", "The service redirects to an address that cannot be read."
        ) from error


def _counted(request: Request, target: Target, trip: _Trip) -> Answer:
    """Make one exchange and count it by its status, or by the code of the error that took its place."""
    outcome = "bug"
    try:
        answer = _exchange(request, target, trip)
        outcome = str(answer.status)
        return answer
    except RunError as error:
        outcome = error.code
        raise
    finally:
        metrics.outbound_calls.labels(trip.provider, request.method, outcome).inc()


def _exchange(request: Request, target: Target, trip: _Trip) -> Answer:
    """Send one request over one socket and read its answer."""
    begun = time.monotonic()
    if begun >= trip.deadline:
        raise RetryableError("net.timeout", "The time for this call was over before it was sent.")
    connect_by = min(trip.deadline, begun + CONNECT_SECONDS)
    addresses = guard.resolve(target, trip.slug, until=connect_by)
    # A step's longer timeout is a longer patience too.
    patience = max(READ_SECONDS, trip.deadline - begun - CONNECT_SECONDS)
    route = transport.Route(target, addresses, connect_by, trip.deadline, patience)
    parts = urlsplit(request.url)
    request_target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = _headers(request)
    try:
        with transport.exchange(request.method, request_target, headers, request.body, route) as response:
            return _read(response, request, route)
    except _MAYBE as error:
        raise _nobody_knows(error, request) from error


def _headers(request: Request) -> dict[str, bytes]:
    """Return all headers as bytes in UTF-8; credentials go before the caller's, those before our own.

    Raises TerminalError `input.invalid` for what is no Unicode text.
    """
    found: dict[str, tuple[str, str]] = {}
    for headers in (_OWN_HEADERS, request.headers, request.credentials):
        found.update({name.lower(): (name, value) for name, value in headers.items()})
    try:
        return {name: value.encode() for name, value in found.values()}
    except UnicodeError as error:
        raise TerminalError(
            "input.invalid", "A header cannot be written in UTF-8. Nothing was sent."
        ) from error


def _read(response: requests.Response, request: Request, route: transport.Route) -> Answer:
    """Read the body of a success, at most `MAX_ANSWER_BYTES` of it, or the beginning of any other one."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    answer = Answer(response.status_code, headers, b"", request.url)
    if not answer.is_success:
        return replace(answer, raw=_excerpt(response, route))
    try:
        return replace(answer, raw=_whole_body(response))
    except _MAYBE as error:
        failure = _nobody_knows(
            error, request, f"The service answered {answer.status}, but its answer broke off"
        )
        failure.trace["status"] = answer.status
        raise failure from error


def _whole_body(response: requests.Response) -> bytes:
    """Return the body. Raises TerminalError `limit.size` as soon as it is, or says that it will be, too large."""
    # urllib3 knows the announced length; 0 where there is no body, None where nothing is announced.
    is_too_large = (response.raw.length_remaining or 0) > MAX_ANSWER_BYTES
    found = bytearray()
    while not is_too_large and (piece := response.raw.read1(PIECE_BYTES, decode_content=True)):
        found += piece
        is_too_large = len(found) > MAX_ANSWER_BYTES
    if is_too_large:
        raise TerminalError(
            "limit.size",
            f"The service answered {response.status_code} and has processed the request, but its answer is "
            f"larger than {MAX_ANSWER_BYTES} bytes and was cut off.",
            trace={"status": response.status_code},
        )
    return bytes(found)


def _excerpt(response: requests.Response, route: transport.Route) -> bytes:
    """Return the beginning of a body that only explains a status; it may be cut off, late or broken."""
    route.ends_at = min(route.ends_at, time.monotonic() + EXCERPT_SECONDS)
    found = bytearray()
    # `read1` does not wait until a piece is full.
    with contextlib.suppress(*_MAYBE):
        while len(found) < EXCERPT_BYTES and (
            piece := response.raw.read1(EXCERPT_BYTES, decode_content=True)
        ):
            found += piece
    return bytes(found)


def _nobody_knows(
    error: Exception, request: Request, what: str = "The request was sent, but no answer came"
) -> RunError:
    """Return the error for a failure after sending: repeatable calls are repeated, others go to a person."""
    reasons = list(_chain(error))
    is_timeout = any(isinstance(reason, TimeoutError | requests.Timeout) for reason in reasons)
    said = f"{what} ({'the time was over' if is_timeout else 'the connection broke'})."
    trace = {"reason": f"{type(reasons[-1]).__name__}: {reasons[-1]}"}
    if request.is_repeatable:
        return RetryableError("net.timeout" if is_timeout else "net.unknown", said, trace=trace)
    return UncertainError(
        "net.unknown", f"{said} Whether it was processed is unknown, and it is not repeatable.", trace=trace
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield `error` and what it wraps; requests and urllib3 wrap the reason several times."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _told(error: RunError, request: Request, answer: Answer | None = None) -> RunError:
    """Return `error` with what staff needs to know, and with every secret masked."""
    trace: dict[str, Any] = {"method": request.method, "url": shown_url(request.url), **error.trace}
    if answer is not None:
        trace.update(
            url=shown_url(answer.url),
            status=answer.status,
            body=storable(answer.raw.decode("utf-8", "replace")),
        )
    mask = request.mask
    masked = {name: mask.text(value) if isinstance(value, str) else value for name, value in trace.items()}
    if "body" in masked:
        masked["body"] = masked["body"][:EXCERPT_CHARACTERS]
    detail = mask.text(error.detail)
    if isinstance(error, RetryableError):
        return RetryableError(error.code, detail, retry_after=error.retry_after, trace=masked)
    return type(error)(error.code, detail, trace=masked)
