"""A foreign service for tests: it records what reaches it and answers by script, also badly.

    service.script("/orders", Reply(status=503), Reply(json={"id": 7}))   # the last reply stays
    service.calls("/orders")                                              # what came, oldest first
    service.await_calls(2, "/orders")                                     # … with a deadline

Fixtures: `service` (plain HTTP, allowed for every tenant), `outbound_allow` (lets csbot reach a port of ours).
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import pytest

from csbot.lib import json

HOST = "127.0.0.1"
AWAIT_SECONDS = 15.0


@dataclass(frozen=True)
class Received:
    """One request as it came: `path` without its query, header names in lower case, `at` of `time.monotonic()`."""

    method: str
    path: str
    query: dict[str, list[str]]
    target: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        """The body read as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """One answer. `raw` replaces status, headers and body by these very bytes.

    `delay` waits before answering; `drip` sends the body, or `raw`, a byte at a time with that pause between;
    `then` is what comes after: the connection is closed, reset, or held open in silence; without `reads` the
    request's body is left unread.
    """

    status: int = 200
    json: Any = None
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drip: float = 0.0
    raw: bytes | None = None
    then: Literal["close", "reset", "hold"] = "close"
    reads: bool = True

    def head_and_body(self) -> tuple[bytes, bytes]:
        """Return the bytes up to the body, and the body."""
        if self.raw is not None:
            return b"", self.raw
        body = self.body if self.json is None else json.dumps(self.json).encode()
        headers = {"Content-Length": str(len(body)), "Connection": "close"}
        if self.json is not None:
            headers["Content-Type"] = "application/json"
        headers.update(self.headers)
        lines = [f"HTTP/1.1 {self.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), body


SILENT = Reply(raw=b"", then="hold")
RESET = Reply(raw=b"", then="reset")
CLOSED = Reply(raw=b"")


class StubService:
    """A server of threads on loopback. `tls` makes it speak HTTPS.

    `at_accept` is what happens to a connection before anything is read: `stall` (nothing, held open), `reset`, `close`.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        at_accept: Literal["serve", "stall", "reset", "close"] = "serve",
    ) -> None:
        self.tls = tls
        self.at_accept = at_accept
        self.default = Reply(json={})
        self.accepted = 0
        self.stopping = threading.Event()
        self._received: list[Received] = []
        self._scripts: dict[str, list[Reply]] = {}
        self._changed = threading.Condition()
        self._server = _Server((HOST, port), _Handler)
        self._server.service = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.005})
        self._thread.start()

    def __enter__(self) -> StubService:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The origin, such as `http://127.0.0.1:40123`."""
        return f"{'https' if self.tls else 'http'}://{HOST}:{self.port}"

    def script(self, path: str, *replies: Reply) -> None:
        """Answer `path` with `replies` one after another; the last one stays. Other paths get `default`."""
        with self._changed:
            self._scripts[path] = list(replies)

    def calls(self, path: str | None = None) -> list[Received]:
        """Return what has reached `path`, or any path, oldest first."""
        with self._changed:
            return [received for received in self._received if path in (None, received.path)]

    def await_calls(
        self, count: int, path: str | None = None, timeout: float = AWAIT_SECONDS
    ) -> list[Received]:
        """Return the calls once there are `count` of them. Raises AssertionError after `timeout` seconds."""
        with self._changed:
            arrived = self._changed.wait_for(
                lambda: len([one for one in self._received if path in (None, one.path)]) >= count, timeout
            )
        assert arrived, f"{len(self.calls(path))} calls of {path or 'any path'} instead of {count}"
        return self.calls(path)

    def forget(self) -> None:
        """Forget what has come; the scripts stay."""
        with self._changed:
            self._received.clear()

    def stop(self) -> None:
        """Let go of every held connection and stop."""
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, received: Received) -> None:
        """Record a request."""
        with self._changed:
            self._received.append(received)
            self._changed.notify_all()

    def next_reply(self, path: str) -> Reply:
        """Return the reply that is due for `path`."""
        with self._changed:
            replies = self._scripts.get(path)
            if not replies:
                return self.default
            return replies.pop(0) if len(replies) > 1 else replies[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128
    service: StubService

    def shutdown_request(self, request: Any) -> None:
        """Close without a FIN what is to be reset."""
        if request.fileno() != -1 and request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER):
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves in the middle is what many tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    # A client that stops in the middle of a request holds up the end of a test for so long.
    timeout = 30

    def setup(self) -> None:
        service = self.server.service
        service.accepted += 1
        if service.at_accept == "stall":
            service.stopping.wait()
        if service.at_accept == "reset":
            _reset_on_close(self.request)
        if service.at_accept != "serve":
            raise ConnectionAbortedError
        if service.tls:
            self.request = service.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        super().finish()
        if isinstance(self.request, ssl.SSLSocket):
            # The server closes the plain socket only, which TLS has taken over.
            self.request.close()

    def handle_one_request(self) -> None:
        self.close_connection = True
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            return
        parts = urlsplit(self.path)
        reply = self.server.service.next_reply(parts.path)
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if reply.reads else b""
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = parse_qs(parts.query, keep_blank_values=True)
        self.server.service.take(
            Received(self.command, parts.path, query, self.path, headers, body, time.monotonic())
        )
        self._answer(reply)

    def _answer(self, reply: Reply) -> None:
        stopping = self.server.service.stopping
        if reply.delay:
            stopping.wait(reply.delay)
        head, body = reply.head_and_body()
        self.wfile.write(head)
        if self.command != "HEAD":
            for piece in [body[at : at + 1] for at in range(len(body))] if reply.drip else [body]:
                self.wfile.write(piece)
                if reply.drip and stopping.wait(reply.drip):
                    break
        self.wfile.flush()
        if reply.then == "hold":
            stopping.wait()
        if reply.then == "reset":
            _reset_on_close(self.connection)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


def _reset_on_close(connection: socket.socket) -> None:
    # A lingering time of zero makes closing send RST instead of FIN.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def closed_port() -> int:
    """Return a port of loopback where nobody listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Unreachable:
    """A port where connecting neither succeeds nor fails: its line is full and nobody accepts."""

    def __enter__(self) -> Unreachable:
        self._listening = socket.socket()
        self._listening.bind((HOST, 0))
        self._listening.listen(0)
        self.port = int(self._listening.getsockname()[1])
        self._waiting = [socket.socket() for _ in range(4)]
        for waiting in self._waiting:
            waiting.setblocking(False)
            waiting.connect_ex((HOST, self.port))
        return self

    def __exit__(self, *_: object) -> None:
        for each in [*self._waiting, self._listening]:
            each.close()


@pytest.fixture
def outbound_allow(settings: Any) -> Callable[..., None]:
    """`outbound_allow(port, host=…, slug=…)` lets csbot reach a port of ours although it is private."""

    def allow(port: int, host: str = HOST, slug: str | None = None) -> None:
        settings.CSBOT_OUTBOUND_ALLOW = [*settings.CSBOT_OUTBOUND_ALLOW, (slug, host, port)]

    return allow


@pytest.fixture
def service(outbound_allow: Callable[..., None]) -> Iterator[StubService]:
    """A foreign service that csbot may reach."""
    with StubService() as running:
        outbound_allow(running.port)
        yield running
