"""The claim loop of one worker child: claim, execute, again, until nothing is ready or the budget is spent."""

from __future__ import annotations

import os
import time

from django.db import close_old_connections

from csbot.lib import metrics
from runtime.execution import worker
from runtime.queue import draining, identity, wake
from runtime.queue.claim import Claimer

# Celery looks at a child's age and memory only between messages, so a loop does not go on for ever.
BUDGET_SECONDS = 20.0

_claimers: dict[int, Claimer] = {}


def run_ready() -> None:
    """Execute ready runs within the budget; on leaving work behind, see that somebody is woken for it.

    Raises database errors when it is gone; the pumps wake another loop when it is back.
    """
    claimer = _own_claimer()
    end_at = time.monotonic() + BUDGET_SECONDS
    is_first = True
    while time.monotonic() < end_at and not draining.has_begun():
        begun = time.monotonic()
        claimed = claimer.next_run()
        if claimed is None:
            return
        metrics.claim_seconds.observe(time.monotonic() - begun)
        if is_first and claimer.has_more():
            wake.notify()
        is_first = False
        worker.run_one(claimed)
        close_old_connections()
    if claimer.has_more():
        wake.notify()


def _own_claimer() -> Claimer:
    # Keyed by pid: a fork must not claim under its parent's name.
    pid = os.getpid()
    if pid not in _claimers:
        _claimers.clear()
        _claimers[pid] = Claimer(identity.own())
    return _claimers[pid]
