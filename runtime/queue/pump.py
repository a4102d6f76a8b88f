"""What keeps the queue moving without any message: due runs become ready, and workers are woken for what is ready.

Idempotent and cheap, so beat's tick and every worker's main process do it; any one of them suffices.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import redis
from django.conf import settings
from django.db import connection
from kombu.exceptions import OperationalError as BrokerError

from runtime.queue import rescue, states
from runtime.queue.wake import Publisher

logger = logging.getLogger(__name__)

# How often a worker's main process looks by itself.
WORKER_PUMP_SECONDS = 1.0

READY = "SELECT count(*) FROM (SELECT 1 FROM runtime_run WHERE status = 0 LIMIT %s) AS ready"


def pump(publisher: Publisher) -> int:
    """Stage what is due and wake as many slots as there are ready runs; return how many messages left.

    Raises DatabaseError; a broker that cannot be reached is only logged: the next pump is the retry.
    """
    states.stage_due()
    with connection.cursor() as cursor:
        cursor.execute(READY, [settings.CSBOT_SLOTS])
        ready = int(cursor.fetchone()[0])
    if not ready:
        return 0
    try:
        return publisher.publish(ready)
    except (redis.RedisError, BrokerError, OSError) as error:
        logger.warning("No wake-up left for the broker: %s", error)
        publisher.close()
        return 0


def tick() -> int:
    """Pump once, with connections of its own; what beat's tick does."""
    publisher = Publisher()
    try:
        return pump(publisher)
    finally:
        publisher.close()


class Duties:
    """The thread of a worker's main process: pump, rescue of dead children, sweep, and being seen."""

    def __init__(self, be_seen: Callable[[], None]) -> None:
        self._be_seen = be_seen
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="duties", daemon=True)

    def start(self) -> None:
        """Begin; the thread is a daemon and ends with its process."""
        self._thread.start()

    def stop(self) -> None:
        """End within a pump's time."""
        self._ended.set()

    def _work(self) -> None:
        publisher = Publisher()
        next_beat = 0.0
        while not self._ended.wait(WORKER_PUMP_SECONDS):
            try:
                rescue.rescue_dead_of_this_machine()
                if time.monotonic() >= next_beat:
                    self._be_seen()
                    rescue.sweep()
                    states.call_waiting()
                    next_beat = time.monotonic() + settings.CSBOT_HEARTBEAT / 2
                pump(publisher)
            except Exception as error:
                # The one broad net of this thread: whatever happens, the next second is another chance.
                logger.warning("The duties of this worker were not done: %s", error)
                connection.close()
