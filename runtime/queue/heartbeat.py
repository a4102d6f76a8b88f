"""Touches the running run from a thread of its own, whatever its step does, and ends a child that is stuck.

The time of the last touch is kept in monotonic time: a worker cut off from the database stops making foreign calls
before anybody else may take its run (self-fence).
"""

from __future__ import annotations

import logging
import os
import threading
import time

from django.conf import settings
from django.db import DatabaseError, connection

from runtime.queue import states
from runtime.queue.states import Claimed, Fenced

logger = logging.getLogger(__name__)

# How long before the lease ends a cut-off worker stops making calls.
SELF_FENCE_SECONDS = 15.0
# A step that ignores its deadline for this long is ended together with its child process.
GRACE_SECONDS = 30.0
EXIT_STUCK = 70

BEAT = """
UPDATE runtime_run SET lease_until = clock_timestamp() + make_interval(secs => %s), hb_seq = hb_seq + 1,
  suspect_seq = NULL, suspect_at = NULL
WHERE id = %s AND claim_no = %s AND status = 1
"""


class Heartbeat:
    """Keeps one claimed run alive; used as a context manager around its execution."""

    def __init__(self, claimed: Claimed) -> None:
        self._claimed = claimed
        self._ended = threading.Event()
        self._last_touch = time.monotonic()
        self._deadline: float | None = None
        self._is_lost = False
        self._thread = threading.Thread(target=self._beat_until_ended, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()

    def check(self) -> None:
        """Raise Fenced when the run is another's, or may be by the time a call would be under way."""
        lease = states.lease_seconds()
        margin = min(SELF_FENCE_SECONDS, lease / 4)
        if self._is_lost or time.monotonic() - self._last_touch > lease - margin:
            raise Fenced

    def expect_end_by(self, deadline: float | None) -> None:
        """Set the deadline (`time.monotonic()`) of the step under way; None when none is."""
        self._deadline = deadline

    def _beat_until_ended(self) -> None:
        next_beat = time.monotonic() + settings.CSBOT_HEARTBEAT
        try:
            while not self._ended.wait(timeout=max(0.05, min(1.0, next_beat - time.monotonic()))):
                self._end_child_if_stuck()
                if time.monotonic() >= next_beat:
                    self._touch()
                    next_beat = time.monotonic() + settings.CSBOT_HEARTBEAT
        finally:
            connection.close()

    def _touch(self) -> None:
        begun = time.monotonic()
        try:
            with connection.cursor() as cursor:
                # Losing the last beats in a crash of the server is harmless; waiting for its disk is not needed.
                cursor.execute("SET synchronous_commit = off")
                cursor.execute(BEAT, [states.lease_seconds(), self._claimed.run_id, self._claimed.claim_no])
                if cursor.rowcount == 1:
                    self._last_touch = begun
                else:
                    self._is_lost = True
        except DatabaseError as error:
            logger.warning("Heartbeat of run %s did not arrive: %s", self._claimed.run_id, error)
            connection.close()

    def _end_child_if_stuck(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline + GRACE_SECONDS:
            logger.error("A step of run %s ignores its deadline; this child ends.", self._claimed.run_id)
            os._exit(EXIT_STUCK)
