"""One exchange over one fresh socket, such that *not sent* and *maybe sent* can be told apart.

Invariant: whatever fails before the request's first byte (TCP, TLS handshake) leaves here as a RunError that
says so; any other exception means that the service may have processed the request. With the stock classes of
requests a stalled TLS handshake looks like an answer that did not come. A socket is never used twice, since a
stale keep-alive connection would turn *not sent* into *maybe*.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import certifi
import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from connectors.guard import Address, Target
from csbot.lib.errors import RetryableError, RunError, TerminalError


@dataclass
class Route:
    """How one exchange may go: over which checked addresses and until when (values of `time.monotonic()`).

    `connect_by` ends connecting with its TLS handshake; `ends_at` ends everything; `patience` is the longest
    silence in seconds that is borne in between.
    """

    target: Target
    addresses: list[Address]
    connect_by: float
    ends_at: float
    patience: float

    def open(self) -> BoundedSocket:
        """Return a socket to the first address that answers. Raises RetryableError: nothing was sent."""
        failure: OSError = TimeoutError("no time was left")
        for index, address in enumerate(self.addresses):
            left = self.connect_by - time.monotonic()
            if left <= 0:
                break
            connected = BoundedSocket(address.family, socket.SOCK_STREAM)
            # The addresses share the time, so that one that swallows everything leaves some to the next.
            connected.settimeout(left / (len(self.addresses) - index))
            try:
                connected.connect(address.sockaddr)
            except OSError as error:
                connected.close()
                failure = error
                continue
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.route = self
            return connected
        raise self.not_sent(failure) from failure

    def not_sent(self, failure: OSError) -> RunError:
        """Return the error for a failure inside connecting; only a wrong TLS partner is final."""
        where = f"{self.target.host}:{self.target.port}"
        if isinstance(failure, TimeoutError):
            return RetryableError("net.timeout", f"Connecting to {where} took too long; nothing was sent.")
        if isinstance(failure, ssl.SSLError) and not isinstance(
            failure, ssl.SSLEOFError | ssl.SSLZeroReturnError
        ):
            reason = getattr(failure, "verify_message", "") or failure.reason or "the handshake failed"
            return TerminalError(
                "net.tls", f"No secure connection to {where} is possible: {reason}. Nothing was sent."
            )
        reason = "the handshake broke off" if isinstance(failure, ssl.SSLError) else failure.strerror
        return RetryableError(
            "net.refused", f"The connection to {where} failed before anything was sent ({reason})."
        )


class BoundedSocket(socket.socket):
    """A socket whose every wait is cut to what is left of its route.

    Timeouts of sockets count for one operation only, so a body that drips a byte at a time would pass them
    for ever.
    """

    route: Route

    def _arm(self) -> None:
        left = self.route.ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for this call is over")
        self.settimeout(min(left, self.route.patience))

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        """Receive, waiting no longer than the route allows."""
        self._arm()
        return super().recv_into(*args, **kwargs)

    def send(self, *args: Any, **kwargs: Any) -> int:
        """Send a part, waiting no longer than the route allows."""
        self._arm()
        return super().send(*args, **kwargs)

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        """Send everything, waiting no longer than the route allows."""
        self._arm()
        super().sendall(*args, **kwargs)


class BoundedTLSSocket(BoundedSocket, ssl.SSLSocket):
    """The same over TLS."""


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the one TLS context: the system's authorities (and SSL_CERT_FILE's) and those of certifi.

    Made once, since reading the authorities costs some 20 ms.
    """
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    context.sslsocket_class = BoundedTLSSocket
    return context


# The standard library takes 100 lines of 64 KiB. Of those it and requests read Content-Type and cookies in
# quadratic time: 1 MiB of Set-Cookie2 took minutes of processor, which no deadline ends; this takes half a second.
MAX_HEADER_BYTES = 64 * 1024


class _WatchedLines:
    """The stream that a response header is read from; remembers the last line and ends with too many bytes."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self.stream = stream
        self.last = b""
        self._left = MAX_HEADER_BYTES

    def readline(self, limit: int = -1) -> bytes:
        self.last = self.stream.readline(limit)
        self._left -= len(self.last)
        if self._left < 0:
            raise http.client.HTTPException(
                f"the header of the answer is larger than {MAX_HEADER_BYTES} bytes"
            )
        return self.last

    def close(self) -> None:
        self.stream.close()


class WholeHeaderResponse(http.client.HTTPResponse):
    """A response whose header has to end in an empty line.

    The standard library takes the end of the stream for the end of the header, so that a cut-off one is a
    success.
    """

    def begin(self) -> None:
        """Read status line and header.

        Raises HTTPException when they are cut off, too large, cannot be read or mean no final answer.
        """
        watched = _WatchedLines(self.fp)
        self.fp = watched  # type: ignore[assignment]
        try:
            super().begin()
        except (TypeError, ValueError) as error:
            # The e-mail parser below fails on parameters of RFC 2231 that contradict each other or name no charset.
            raise http.client.HTTPException("the header of the answer cannot be read") from error
        finally:
            self.fp = watched.stream
        if watched.last not in (b"\r\n", b"\n"):
            raise http.client.HTTPException("the header of the answer is cut off")
        if not 200 <= self.status <= 599:
            raise http.client.HTTPException(f"{self.status} is no final answer")


class _PinnedConnection(HTTPConnection):
    """Plain HTTP over an address that the guard has checked."""

    response_class = WholeHeaderResponse

    def __init__(self, *args: Any, route: Route, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.route = route

    def connect(self) -> None:
        """Open the socket. Raises RunError: nothing was sent."""
        self.sock = self.route.open()


class _PinnedTLSConnection(HTTPSConnection):
    """HTTPS over an address that the guard has checked; the certificate has to be that of the URL's host."""

    response_class = WholeHeaderResponse

    def __init__(self, *args: Any, route: Route, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.route = route

    def connect(self) -> None:
        """Open the socket and shake hands. Raises RunError: nothing was sent."""
        plain = self.route.open()
        try:
            plain.settimeout(max(0.001, self.route.connect_by - time.monotonic()))
            secured = tls_context().wrap_socket(plain, server_hostname=self.route.target.host)
        except OSError as error:
            plain.close()
            raise self.route.not_sent(error) from error
        assert isinstance(secured, BoundedTLSSocket)
        secured.route = self.route
        self.sock = secured
        self.is_verified = True


class _Adapter(HTTPAdapter):
    """The adapter of requests over one route.

    Used without a Session, so proxies of the environment, netrc, cookies and redirects never come into play.
    """

    def __init__(self, route: Route, request_target: str) -> None:
        super().__init__()
        self._request_target = request_target
        host, port = route.target.host, route.target.port
        pool: HTTPConnectionPool = (
            HTTPSConnectionPool(host, port)
            if route.target.scheme == "https"
            else HTTPConnectionPool(host, port)
        )
        pinned = _PinnedTLSConnection if route.target.scheme == "https" else _PinnedConnection
        pool.ConnectionCls = functools.partial(pinned, route=route)  # type: ignore[assignment]
        self._pool = pool

    def get_connection_with_tls_context(self, *_args: Any, **_kwargs: Any) -> HTTPConnectionPool:
        return self._pool

    def cert_verify(self, *_args: Any, **_kwargs: Any) -> None:
        """The connection verifies by itself, always."""

    def request_url(self, *_args: Any, **_kwargs: Any) -> str:
        return self._request_target

    def close(self) -> None:
        self._pool.close()
        super().close()


@contextlib.contextmanager
def exchange(
    method: str, request_target: str, headers: Mapping[str, str | bytes], body: bytes | None, route: Route
) -> Iterator[requests.Response]:
    """Send one request and yield the response with its body unread; the socket is closed at the end.

    `request_target` is path and query, ASCII, without dot segments; it is sent as it is. Raises RunError when
    surely nothing was sent; any other exception (of requests, urllib3, OSError) when it may have been.
    """
    request = requests.PreparedRequest()
    try:
        request.prepare(
            method=method, url=route.target.origin + request_target, headers=dict(headers), data=body
        )
    except (requests.RequestException, ValueError) as error:
        raise TerminalError(
            "input.invalid", f"The request cannot be made: {error}. Nothing was sent."
        ) from error
    adapter = _Adapter(route, request_target)
    with contextlib.closing(adapter):
        response = adapter.send(request, stream=True, timeout=(None, route.patience))
        with contextlib.closing(response):
            yield response
