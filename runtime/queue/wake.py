"""Wake-ups: empty Celery messages that say "look at the queue". Expendable, bounded, never sent inside a request.

Whoever commits a run calls `notify`, which only sets an event; one thread per process publishes. Three pumps make up
for a lost message: beat's tick, every worker's main process, and this publisher.
"""

from __future__ import annotations

import logging
import os
import threading
import time

import redis
from celery import current_app
from django.conf import settings
from kombu import Connection

logger = logging.getLogger(__name__)

QUEUE = "runs"
# After an error of the broker the publisher is silent for a second: the pumps are the retry.
SILENCE_SECONDS = 1.0
# Between two looks at the list, so that a burst of commits makes one message.
PAUSE_SECONDS = 0.003
# After a look that found as many messages as slots: each of them will see what was committed meanwhile.
PAUSE_WHEN_FULL_SECONDS = 0.05
SOCKET_SECONDS = 0.3

_event = threading.Event()
_thread: threading.Thread | None = None
_thread_pid = 0
_lock = threading.Lock()


def notify() -> None:
    """Say that a run was committed. Costs microseconds, never blocks, never raises."""
    global _thread, _thread_pid
    if _thread_pid != os.getpid():
        with _lock:
            # A fork copies the flag but not the thread, hence the pid.
            if _thread_pid != os.getpid():
                _event.clear()
                _thread = threading.Thread(target=_publish_for_ever, name="wake", daemon=True)
                _thread.start()
                _thread_pid = os.getpid()
    _event.set()


class Publisher:
    """Publishes at most one wake-up at a time, and none while as many wait in the list as there are slots.

    A message still in the list has not begun to claim, so it will see every row committed before we looked.
    """

    def __init__(self) -> None:
        self._redis = redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=SOCKET_SECONDS, socket_connect_timeout=SOCKET_SECONDS
        )
        self._connection = Connection(
            settings.REDIS_URL,
            transport_options={
                "socket_timeout": SOCKET_SECONDS,
                "socket_connect_timeout": SOCKET_SECONDS,
                "socket_keepalive": True,
            },
        )

    def publish(self, count: int = 1) -> int:
        """Publish up to `count` wake-ups; return how many left. Raises redis and kombu errors."""
        room = min(count, settings.CSBOT_SLOTS - int(self._redis.llen(QUEUE)))
        for _ in range(room):
            current_app.send_task(
                "runtime.tasks.wake",
                queue=QUEUE,
                connection=self._connection,
                retry=False,
                ignore_result=True,
            )
        return max(room, 0)

    def close(self) -> None:
        """Let go of both connections; the next publish opens new ones."""
        self._redis.close()
        self._connection.release()


def _publish_for_ever() -> None:
    publisher = Publisher()
    while True:
        _event.wait()
        _event.clear()
        try:
            pause = PAUSE_SECONDS if publisher.publish() else PAUSE_WHEN_FULL_SECONDS
        except Exception as error:
            # The one broad net of this thread: whatever the broker does, wake-ups are expendable.
            logger.warning("No wake-up left for the broker: %s", error)
            publisher.close()
            pause = SILENCE_SECONDS
        time.sleep(pause)
