"""What processes count, for `/metrics`: each process of a machine writes a file, a web process adds them up.

A process takes the lowest free slot of a folder by a file lock, so there are as few files as processes ever
ran side by side, and a successor goes on counting where a dead one stopped. No label grows with tenants.
"""

from __future__ import annotations

import fcntl
import os
from itertools import count
from pathlib import Path
from typing import TextIO

from django.conf import settings
from prometheus_client import CollectorRegistry, Counter, Histogram, values
from prometheus_client.multiprocess import MultiProcessCollector

# One folder for each boot: a power cut may tear files, and counters may begin at 0 again after it.
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
FOLDER = Path(settings.CSBOT_HOME) / "metrics" / BOOT


class _Slot:
    """This process's number among those that count; a forked child gets one of its own."""

    def __init__(self) -> None:
        self._pid = 0
        self._lock: TextIO | None = None
        self._number = 0

    def __call__(self) -> int:
        """Return the number, the same for as long as the process lives."""
        if self._pid != os.getpid():
            self._take()
        return self._number

    def _take(self) -> None:
        if self._lock:
            # The parent's, inherited by the fork: the parent keeps holding it.
            self._lock.close()
        for number in count():
            lock = (FOLDER / f"{number}.lock").open("a")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            self._pid, self._lock, self._number = os.getpid(), lock, number
            return


FOLDER.mkdir(parents=True, exist_ok=True)
# The library reads where its files are from here, and makes each value of the class that stands here.
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(FOLDER)
values.ValueClass = values.MultiProcessValue(_Slot())

# The values live in the files; this registry only keeps names unique.
_names = CollectorRegistry()

# From a webhook's promise of 10 ms to the 2 s after which a hanging database is given up (SPEC section 2).
FAST_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
# From a built-in step to the ten minutes of a long tool (SPEC section 10).
STEP_SECONDS = (0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 600)

ingest_requests = Counter(
    "csbot_ingest_requests", "Webhook requests by the status of their answer.", ["code"], registry=_names
)
ingest_seconds = Histogram(
    "csbot_ingest_seconds", "Seconds to answer a webhook request.", buckets=FAST_SECONDS, registry=_names
)
outbound_calls = Counter(
    "csbot_outbound_calls",
    "Calls of foreign services; `status` is the answer's or the code of the error that took its place.",
    ["provider", "method", "status"],
    registry=_names,
)
runs_ended = Counter(
    "csbot_runs_ended", "Runs that came to an end or into review, by how.", ["status"], registry=_names
)
claim_seconds = Histogram(
    "csbot_claim_seconds", "Seconds to claim one run.", buckets=FAST_SECONDS, registry=_names
)
step_seconds = Histogram(
    "csbot_step_seconds", "Seconds of one executed step, by operation.", ["op"], buckets=STEP_SECONDS,
    registry=_names,
)  # fmt: skip


def of_all_processes() -> MultiProcessCollector:
    """Return the collector that adds up what every process of this machine has counted."""
    return MultiProcessCollector(None, str(FOLDER))
