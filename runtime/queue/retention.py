"""What goes with time: bodies and logs of runs, deliveries, surplus polls, kept answers. Facts and audit stay.

Each batch is a short transaction of its own under one advisory lock, and touches only rows that nobody works with: runs
that have ended. A run in review has not ended (SPEC section 5.9, QUEUE section 3.12).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import connection, transaction

from runtime.intake import delivery
from runtime.queue import alone, findings
from tickets import idempotency

BATCH = 1_000
# Steps of one batch together: a thousand runs may have a million.
MAX_STEPS = 10_000
# Of one tick: it shares its worker with those that start polls and schedules.
BUDGET_SECONDS = 2.0

# The index `run_to_strip` holds only runs whose bodies are still there, so a batch costs the same after years.
STRIP = """
WITH old AS MATERIALIZED (
  SELECT r.id, r.actions FROM tickets_tenant t CROSS JOIN LATERAL (
    SELECT id, actions FROM runtime_run
    WHERE tenant_id = t.id AND status IN (4, 5, 6) AND stripped_at IS NULL
      AND finished_at < clock_timestamp() - make_interval(days => t.retention_days)
    ORDER BY finished_at LIMIT %(limit)s
  ) r LIMIT %(limit)s
), fitting AS (
  SELECT id FROM (SELECT id, sum(actions) OVER (ORDER BY id) - actions AS before FROM old) AS summed
  WHERE before < %(steps)s
), taken AS MATERIALIZED (
  SELECT id FROM runtime_run WHERE id IN (SELECT id FROM fitting) AND status IN (4, 5, 6)
  FOR NO KEY UPDATE SKIP LOCKED
), steps AS (
  UPDATE runtime_runstep SET input = NULL, output = NULL, rules = NULL, message = '', idempotency_key = ''
  FROM taken WHERE runtime_runstep.run_id = taken.id
), lines AS (
  DELETE FROM runtime_runlog USING taken WHERE runtime_runlog.run_id = taken.id
), given AS (
  DELETE FROM runtime_rundata USING taken WHERE runtime_rundata.run_id = taken.id
)
UPDATE runtime_run SET stripped_at = clock_timestamp() FROM taken WHERE runtime_run.id = taken.id
"""


def strip() -> int:
    """Take the bodies and the log from one batch of runs whose tenant's days have passed; return how many runs."""
    with connection.cursor() as cursor:
        cursor.execute(STRIP, {"limit": BATCH, "steps": MAX_STEPS})
        return int(cursor.rowcount)


DUTIES: tuple[Callable[[], int], ...] = (
    lambda: delivery.forget_old(BATCH),
    idempotency.forget_old,
    lambda: findings.sort(BATCH),
    lambda: findings.drop_surplus(BATCH),
    strip,
)
"""Each does one batch and says how much that was; 0 when nothing is left."""


def tidy() -> None:
    """Do the duties in turn, batch by batch, until nothing is left or the tick's time is over; the next one goes on."""
    end_at = time.monotonic() + BUDGET_SECONDS
    duties = list(DUTIES)
    while duties and time.monotonic() < end_at:
        duties = [duty for duty in duties if _batch(duty)]


def _batch(duty: Callable[[], int]) -> int:
    with transaction.atomic():
        return duty() if alone.take("retention") else 0
