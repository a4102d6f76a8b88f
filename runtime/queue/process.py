"""The main process of a worker: seen in the database with its slots, pumping, and draining on SIGTERM."""

from __future__ import annotations

import logging
import socket
from typing import Any

from celery import signals
from django.conf import settings
from django.db import DatabaseError, connection

from runtime.models import WorkerProcess
from runtime.queue import draining, identity, wake
from runtime.queue.pump import Duties

logger = logging.getLogger(__name__)

SEEN = """
INSERT INTO runtime_workerprocess (id, host, pid, slots, seen_at)
VALUES (%(id)s, %(host)s, %(pid)s, %(slots)s, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
"""
FORGET_OLD = "DELETE FROM runtime_workerprocess WHERE seen_at < clock_timestamp() - interval '1 day'"

_duties: list[Duties] = []


def _be_seen() -> None:
    own = identity.own()
    with connection.cursor() as cursor:
        cursor.execute(
            SEEN,
            {
                "id": own,
                "host": socket.gethostname(),
                "pid": int(own.split("/")[1]),
                "slots": settings.CSBOT_SLOTS,
            },
        )
        cursor.execute(FORGET_OLD)


def _consumes_runs(sender: Any) -> bool:
    return wake.QUEUE in sender.app.amqp.queues.consume_from


@signals.worker_ready.connect
def _begin(sender: Any, **_kwargs: Any) -> None:
    if _consumes_runs(sender):
        duties = Duties(_be_seen)
        _duties.append(duties)
        duties.start()


@signals.worker_shutting_down.connect
def _drain(**_kwargs: Any) -> None:
    draining.begin()
    for duties in _duties:
        duties.stop()


@signals.worker_shutdown.connect
def _forget(**_kwargs: Any) -> None:
    try:
        WorkerProcess.objects.filter(pk=identity.own()).delete()
    except DatabaseError as error:
        logger.warning("This worker could not take its row back: %s", error)
