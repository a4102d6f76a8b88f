"""A sender that keeps many connections busy from one thread: what it costs is little beside what it measures."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length: "
NO_ANSWER = 0
RECONNECT_AFTER_SECONDS = 0.02
# Answers that are still out when the time is up are waited for so long.
GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Outcome:
    """One request: the status of its answer (0: there was none), how long it took, and the answer's body."""

    status: int
    seconds: float
    body: bytes


class _Connection:
    """One connection of the sender and the request that is out on it."""

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened
        self.sent_at = 0.0
        self.received = b""
        self.is_open = True


class Sender:
    """Sends `make(n)`, a whole request, over `connections` at once, the next one as soon as an answer is there."""

    def __init__(self, url: str, make: Callable[[int], bytes], connections: int = 1) -> None:
        address = urlsplit(url)
        self._address = (address.hostname or "", address.port or 80)
        self._make = make
        self._connections = connections
        self._selector = selectors.DefaultSelector()
        self._sent = 0
        self.outcomes: list[Outcome] = []

    def run(self, seconds: float) -> list[Outcome]:
        """Send for so long and return the outcome of every request that was sent."""
        until = time.perf_counter() + seconds
        for _ in range(self._connections):
            self._open(until)
        while self._selector.get_map() and (now := time.perf_counter()) < until + GRACE_SECONDS:
            for key, _ in self._selector.select(timeout=0.1):
                connection: _Connection = key.data
                if not self._has_ended(connection):
                    continue
                if now >= until:
                    self._close(connection)
                elif not (connection.is_open and self._send(connection)):
                    self._open(until)
        for key in list(self._selector.get_map().values()):
            self._lose(key.data)
        self._selector.close()
        return self.outcomes

    def _open(self, until: float) -> None:
        """Open a connection and send on it; after `until` nothing more."""
        while time.perf_counter() < until:
            try:
                opened = socket.create_connection(self._address, timeout=5)
            except OSError:
                time.sleep(RECONNECT_AFTER_SECONDS)
                continue
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(opened)
            self._selector.register(opened, selectors.EVENT_READ, connection)
            if self._send(connection):
                return

    def _send(self, connection: _Connection) -> bool:
        request = self._make(self._sent)
        self._sent += 1
        connection.received = b""
        connection.sent_at = time.perf_counter()
        try:
            connection.socket.sendall(request)
        except OSError:
            self._lose(connection)
            return False
        return True

    def _has_ended(self, connection: _Connection) -> bool:
        """Receive what is there; return whether the request has its outcome."""
        try:
            piece = connection.socket.recv(65_536)
        except OSError:
            piece = b""
        if not piece:
            self._lose(connection)
            return True
        connection.received = connection.received + piece if connection.received else piece
        head, is_whole, body = connection.received.partition(HEAD_END)
        if not is_whole:
            return False
        at = head.find(LENGTH)
        length = int(head[at + len(LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(body) < length:
            return False
        self.outcomes.append(Outcome(int(head[9:12]), time.perf_counter() - connection.sent_at, body))
        return True

    def _lose(self, connection: _Connection) -> None:
        self.outcomes.append(Outcome(NO_ANSWER, time.perf_counter() - connection.sent_at, b""))
        self._close(connection)

    def _close(self, connection: _Connection) -> None:
        if connection.is_open:
            connection.is_open = False
            self._selector.unregister(connection.socket)
            connection.socket.close()


def post(path: str, body: bytes, **headers: str) -> bytes:
    """Return a whole POST of a JSON body; `idempotency_key="1"` is a header."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + HEAD_END + body
