"""The door's patience with PostgreSQL: every use of it ends within a deadline of our own (DESIGN section 4).

libpq waits for ever for a server that hangs. So a thread of the process watches each use; when the time is up it shuts
the connection's socket down, which ends the wait with an error, and the connection is thrown away. After two such in a
row the gate closes: requests are refused at once until a probe has passed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, Error, connection, connections

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Of all statements of one request together: a 503 has to leave within 2 s (SPEC section 2).
DEADLINE_SECONDS = 1.5
# How late the watcher may notice a deadline.
LOOK_EVERY_SECONDS = 0.05
HANGS_THAT_CLOSE = 2
# Between two probes of a closed gate.
PROBE_EVERY_SECONDS = 0.25
# At least as many as a web process has threads: none of them waits for another one's connection to open.
MAX_OPENING = 64


class Unavailable(Exception):
    """PostgreSQL did not do what was asked; `has_hung` says that it did not answer at all."""

    def __init__(self, *, has_hung: bool = False) -> None:
        super().__init__()
        self.has_hung = has_hung


class Patience:
    """The time that one request may spend on PostgreSQL, all its uses together."""

    def __init__(self, seconds: float = DEADLINE_SECONDS) -> None:
        self._left = seconds

    def read(self, query: Callable[[], T]) -> T:
        """Return what `query` returns. Raises Unavailable.

        A connection that was open before may have died with a restart of the server: then a new one is tried.
        """
        was_open = connection.connection is not None
        try:
            with self.spent():
                return query()
        except Unavailable as error:
            if error.has_hung or not was_open:
                raise
        with self.spent():
            return query()

    @contextlib.contextmanager
    def spent(self) -> Iterator[None]:
        """Use `django.db.connection` inside. What goes wrong with it becomes Unavailable and ends the connection."""
        gate.refuse_if_closed()
        began = time.monotonic()
        deadline = began + self._left
        watch = None
        try:
            watch = _watcher.watch(_opened(deadline), deadline)
            yield
        except (Error, OSError) as error:
            # OSError: the deadline passed while connecting, or the process has no descriptor left.
            _throw_away()
            has_hung = time.monotonic() >= deadline
            if has_hung:
                gate.has_hung()
            else:
                logger.warning("PostgreSQL did not take an event: %s", str(error).partition("\n")[0])
            raise Unavailable(has_hung=has_hung) from error
        else:
            gate.has_answered()
        finally:
            if watch is not None:
                _watcher.forget(watch)
            self._left -= time.monotonic() - began


class Gate:
    """Closed while PostgreSQL hangs, so that not every request waits for the deadline."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hangs = 0
        self.is_closed = False

    def refuse_if_closed(self) -> None:
        """Raise Unavailable while the gate is closed."""
        if self.is_closed:
            raise Unavailable

    def has_answered(self) -> None:
        """Note that PostgreSQL did what it was asked."""
        if self._hangs:
            self._hangs = 0

    def has_hung(self) -> None:
        """Note that a deadline passed; the second one in a row closes the gate until a probe passes."""
        with self._lock:
            self._hangs += 1
            if self.is_closed or self._hangs < HANGS_THAT_CLOSE:
                return
            self.is_closed = True
        logger.error("PostgreSQL hangs: webhooks answer 503 until it responds again")
        threading.Thread(target=self._open_after_probe, name="intake-probe", daemon=True).start()

    def _open_after_probe(self) -> None:
        while not _probe():
            time.sleep(PROBE_EVERY_SECONDS)
        with self._lock:
            self._hangs = 0
            self.is_closed = False
        logger.info("PostgreSQL responds again: webhooks are taken in")


gate = Gate()


class _Watch:
    """One use of a connection that has to end by `deadline` (monotonic time)."""

    __slots__ = ("deadline", "twin")

    def __init__(self, twin: socket.socket, deadline: float) -> None:
        self.twin = twin
        self.deadline = deadline


class _Watcher:
    """The thread that shuts down the sockets of uses whose time is up; it sleeps while there are none."""

    def __init__(self) -> None:
        # Adding to a set, discarding from it and copying it are one step each under the interpreter's lock.
        self._watches: set[_Watch] = set()
        self._has_work = threading.Event()
        self._start = threading.Lock()
        self._pid = 0
        # A twin is a second descriptor of a connection's socket, so that its number cannot come to mean another one.
        self._twins: weakref.WeakKeyDictionary[Any, socket.socket] = weakref.WeakKeyDictionary()

    def watch(self, connected: Any, deadline: float) -> _Watch:
        """Let the psycopg connection `connected` be used until `deadline`, or until `forget`."""
        watch = _Watch(self._twin(connected), deadline)
        self._watches.add(watch)
        if not self._has_work.is_set() or self._pid != os.getpid():
            self._wake()
        return watch

    def forget(self, watch: _Watch) -> None:
        """End a watch."""
        self._watches.discard(watch)

    def _twin(self, connected: Any) -> socket.socket:
        twin = self._twins.get(connected)
        if twin is None:
            twin = self._twins[connected] = socket.socket(fileno=os.dup(connected.fileno()))
            weakref.finalize(connected, twin.close)
        return twin

    def _wake(self) -> None:
        with self._start:
            # A fork copies the flag but not the thread, hence the pid.
            if self._pid != os.getpid():
                self._pid = os.getpid()
                threading.Thread(target=self._watch_for_ever, name="intake-watch", daemon=True).start()
        self._has_work.set()

    def _watch_for_ever(self) -> None:
        while True:
            self._has_work.wait()
            time.sleep(LOOK_EVERY_SECONDS)
            now = time.monotonic()
            watches = list(self._watches)
            for watch in watches:
                if now >= watch.deadline:
                    # The server may have ended the connection meanwhile.
                    with contextlib.suppress(OSError):
                        watch.twin.shutdown(socket.SHUT_RDWR)
            if not watches:
                self._has_work.clear()
                if self._watches:
                    # One that came between the look and the clearing.
                    self._has_work.set()


_watcher = _Watcher()
_openers = ThreadPoolExecutor(MAX_OPENING, thread_name_prefix="intake-open")


def _opened(deadline: float) -> Any:
    """Return the thread's psycopg connection, opened if need be. Raises django.db.Error, TimeoutError at the deadline.

    While libpq connects there is no socket to shut down yet, so another thread connects and is left to itself when it
    takes too long.
    """
    wrapper = connections[DEFAULT_DB_ALIAS]
    if wrapper.connection is not None and not wrapper.connection.closed:
        return wrapper.connection
    wrapper.close()
    wrapper.inc_thread_sharing()
    opening = _openers.submit(wrapper.ensure_connection)
    try:
        opening.result(timeout=max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        del connections[DEFAULT_DB_ALIAS]
        opening.add_done_callback(lambda _: wrapper.close())
        raise
    except Error:
        wrapper.dec_thread_sharing()
        raise
    wrapper.dec_thread_sharing()
    return wrapper.connection


def _throw_away() -> None:
    with contextlib.suppress(Error):
        connection.close()


def _probe() -> bool:
    """Say whether PostgreSQL answers, over a connection of its own."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    watch = None
    try:
        watch = _watcher.watch(_opened(deadline), deadline)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (Error, OSError):
        return False
    finally:
        if watch is not None:
            _watcher.forget(watch)
        _throw_away()
    return True
