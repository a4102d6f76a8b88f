"""The web process: granian serving `csbot.wsgi` from one worker process with threads.

Invariant: no worker outlives its main process: an orphan would keep answering beside the next start.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings

from csbot.processes import die_with_parent

# Threads are made as they are needed; a live stream holds one for as long as it is open. Measured with webhooks
# over 16 connections on two busy cores: 170-240/s with 4 threads, 340-400/s with 16 or 48, and no more from a
# second process.
BLOCKING_THREADS = 48
# A thread takes its database connection with it when it ends, so threads that were needed once stay a while.
THREAD_IDLE_SECONDS = 300
# Open connections, idle ones included: one more than this is not answered until another is closed (measured).
CONNECTIONS = 1024
KILL_AFTER_SECONDS = 3
# Time for all headers of a request; who takes longer is no client of ours.
HEADERS_WITHIN_MILLISECONDS = 10_000


def main() -> None:
    """Serve on the host and port given as arguments until SIGTERM or SIGINT."""
    host, port = sys.argv[1], int(sys.argv[2])
    parent = os.getpid()

    def load() -> Any:
        die_with_parent(parent, signal.SIGKILL)
        from csbot.wsgi import application

        return application

    Granian(
        "csbot.wsgi:application",
        address=host,
        port=port,
        interface=Interfaces.WSGI,
        workers=1,
        blocking_threads=BLOCKING_THREADS,
        blocking_threads_idle_timeout=THREAD_IDLE_SECONDS,
        backpressure=CONNECTIONS,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEADERS_WITHIN_MILLISECONDS),
        websockets=False,
        workers_kill_timeout=KILL_AFTER_SECONDS,
        # An access log would hold the webhooks' tokens.
        log_access=False,
    ).serve(target_loader=load, wrap_loader=False)


if __name__ == "__main__":
    main()
