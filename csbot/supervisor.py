"""Keeps children alive: starts again what dies, stops all in order.

Invariant: one thread, which sleeps until a signal (a death, a request to stop) or the next due restart.
"""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from types import FrameType

from csbot.processes import Child, Say, descriptor

# A first restart is quick, a crash loop costs little: 0.2, 0.4, 0.8 … 5 seconds.
FIRST_BACKOFF_SECONDS = 0.2
LAST_BACKOFF_SECONDS = 5.0
# A child that has lived this long was healthy: its next death is a new one, not part of a crash loop.
SETTLED_SECONDS = 10.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# One wish to stop may arrive twice, from the terminal and from make; a later one means "at once".
SAME_WISH_SECONDS = 1.0


class Supervisor:
    """Watches children from the main thread. `say` receives one line for each thing worth knowing.

    Taking the signals over is its first act: from then on Ctrl-C, SIGTERM and SIGHUP only set `is_stopping`.
    """

    def __init__(self, say: Say) -> None:
        self._say = say
        self._stops = 0
        self._stop_asked_at = 0.0
        self._children: list[Child] = []
        self._backoff: dict[Child, float] = {}
        self._due: dict[Child, float] = {}
        self._inbox, self._outbox = socket.socketpair()
        self._inbox.setblocking(False)
        self._outbox.setblocking(False)
        signal.set_wakeup_fd(self._outbox.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in STOP_SIGNALS:
            # Under nohup a hang-up is ignored on purpose.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._request_stop)

    @property
    def is_stopping(self) -> bool:
        """True once somebody asked to stop."""
        return self._stops > 0

    def watch(self, child: Child) -> None:
        """Keep `child` alive from now on; it is started when it does not run yet."""
        self._children.append(child)
        if not child.is_running:
            self._start(child)

    def run_once(self, child: Child) -> int | None:
        """Run `child` to its end while the others are watched; its exit code, None when asked to stop."""
        child.start()
        self.wait_until(lambda: not child.is_running)
        if child.is_running:
            child.kill()
            return None
        return child.return_code

    def wait_until(self, condition: Callable[[], bool], *, every_seconds: float = 5.0) -> bool:
        """Watch until `condition` holds, asked after each event and `every_seconds`. False: asked to stop."""
        while not self.is_stopping:
            if condition():
                return True
            self._turn(every_seconds)
        return False

    def run(self) -> None:
        """Watch until somebody asks to stop."""
        self.wait_until(lambda: False)

    def stop(self, children: Sequence[Child], *, within_seconds: float) -> None:
        """Ask `children` in this order to stop, wait, kill what remains; once more asked, kill at once."""
        self._children = [child for child in self._children if child not in children]
        before = self._stops
        for child in children:
            self._due.pop(child, None)
            child.send(child.stop_signal)
        deadline = time.monotonic() + within_seconds
        while any(child.is_running for child in children) and self._stops <= max(before, 1):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            self._sleep(left)
        for child in children:
            if child.is_running:
                self._say(f"{child.name} did not stop in time and was killed")
            child.kill()
            child.forget()

    def close(self) -> None:
        """Give the sockets back; the signals are whoever's takes them over."""
        self._inbox.close()
        self._outbox.close()

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        if not self._stops or time.monotonic() - self._stop_asked_at > SAME_WISH_SECONDS:
            self._stops += 1
            self._stop_asked_at = time.monotonic()

    def _turn(self, timeout: float) -> None:
        due_in = [at - time.monotonic() for at in self._due.values()]
        self._sleep(max(0.0, min([timeout, *due_in])))
        for child in self._children:
            if child in self._due:
                if self._due[child] <= time.monotonic() and not self.is_stopping:
                    self._start(child)
            elif not child.is_running:
                self._plan_restart(child)

    def _sleep(self, timeout: float) -> None:
        if select.select([self._inbox], [], [], timeout)[0]:
            with contextlib.suppress(BlockingIOError):
                self._inbox.recv(4096)

    def _start(self, child: Child) -> None:
        self._due.pop(child, None)
        try:
            child.start()
        except OSError as error:
            self._plan_restart(child, str(error))

    def _plan_restart(self, child: Child, reason: str = "") -> None:
        # What the dead one started may still hold its port or its work.
        child.kill()
        settled = time.monotonic() - child.started_at >= SETTLED_SECONDS
        last = 0.0 if settled else self._backoff.get(child, 0.0)
        self._backoff[child] = min(LAST_BACKOFF_SECONDS, max(FIRST_BACKOFF_SECONDS, last * 2))
        self._due[child] = time.monotonic() + self._backoff[child]
        code = child.return_code or 0
        reason = reason or descriptor(code)
        # A signal came from outside; the log's last line says nothing about it.
        words = child.last_words() if code > 0 else ""
        self._say(
            f"{child.name} ended ({reason}), again in {self._backoff[child]:.1f} s"
            + (f": {words}" if words else "")
        )
