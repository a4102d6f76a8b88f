"""Brings back runs whose worker is gone. By proof where the process is known to be dead, else by two looks.

A lease that has passed is only a hint: after an outage of the database or a jump of its clock every lease has. So the
first look marks the run with its heartbeat counter, and only a second look that finds the same counter takes it.
"""

from __future__ import annotations

from django.conf import settings
from django.db import connection, transaction

from csbot.lib.errors import TerminalError
from runtime import failures
from runtime.models import Run
from runtime.queue import identity, states, wake

# A run that lost its worker this often before is given to no further one (SPEC section 5.6).
RESCUES_BEFORE_POISON = 2

POISON_MESSAGE = "The worker executing this run died three times; it is not given to a fourth."

BACK = """
UPDATE runtime_run SET status = 0, claim_no = claim_no + 1, rescues = rescues + 1, worker = '', lease_until = NULL,
  suspect_seq = NULL, suspect_at = NULL
WHERE status = 1 AND rescues < %(poison)s AND {proof} RETURNING id
"""
POISON = """
UPDATE runtime_run SET status = 5, claim_no = claim_no + 1, rescues = rescues + 1, worker = '', lease_until = NULL,
  suspect_seq = NULL, suspect_at = NULL, finished_at = clock_timestamp(), wait_reason = '',
  error = jsonb_build_object('code', 'poison', 'stepId', NULL, 'retryable', false, 'message', %(message)s::text)
WHERE status = 1 AND rescues >= %(poison)s AND {proof} RETURNING id
"""
DEAD = "id = %(run)s AND worker = %(worker)s"
SECOND_LOOK = (
    "suspect_seq = hb_seq AND suspect_at < clock_timestamp() - make_interval(secs => %(second_look)s)"
)
FIRST_LOOK = """
UPDATE runtime_run SET suspect_seq = hb_seq, suspect_at = clock_timestamp()
WHERE status = 1 AND lease_until < clock_timestamp() AND suspect_seq IS DISTINCT FROM hb_seq
"""


def sweep() -> int:
    """Take back what two looks found abandoned; return how many. One sweeper at a time, others return at once."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtextextended('csbot sweep', 0))")
        if not cursor.fetchone()[0]:
            return 0
        taken = _take_back(SECOND_LOOK, {"second_look": 2 * settings.CSBOT_HEARTBEAT})
        cursor.execute(FIRST_LOOK)
        return taken


def rescue_dead_of_this_machine() -> int:
    """Take back runs of worker children that are provably dead (pid and start time); return how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, worker FROM runtime_run WHERE status = 1 AND worker LIKE %s",
            [f"{identity.machine()}/%"],
        )
        dead = [(run_id, worker) for run_id, worker in cursor.fetchall() if identity.is_dead(worker)]
    taken = 0
    for run_id, worker in dead:
        with transaction.atomic():
            taken += _take_back(DEAD, {"run": run_id, "worker": worker})
    return taken


def _take_back(proof: str, parameters: dict[str, object]) -> int:
    parameters = {"poison": RESCUES_BEFORE_POISON, "message": POISON_MESSAGE, **parameters}
    with connection.cursor() as cursor:
        cursor.execute(BACK.format(proof=proof), parameters)
        back = cursor.rowcount
        cursor.execute(POISON.format(proof=proof), parameters)
        poisoned = [row[0] for row in cursor.fetchall()]
    for run in Run.objects.filter(pk__in=poisoned).select_related(*failures.TOLD):
        error = TerminalError("poison", POISON_MESSAGE)
        states.point_to_incident(run.pk, failures.found_incident(run, error, None))
    if back:
        transaction.on_commit(wake.notify)
    return back + len(poisoned)
