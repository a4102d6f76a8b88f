"""Brings back runs whose worker is gone. By proof where the process is known to be dead, else by two looks.

A lease that has passed is only a hint: after an outage of the database or a jump of its clock every lease has. So the
first look marks the run with its heartbeat counter, and only a second look that finds the same counter takes it.
"""

from __future__ import annotations

from django.conf import settings
from django.db import connection, transaction

from csbot.lib import metrics
from csbot.lib.errors import TerminalError
from runtime import outcomes
from runtime.models import Run
from runtime.queue import identity, states

# A run that lost its worker this often before is given to no further one (SPEC section 5.6).
RESCUES_BEFORE_POISON = 2

POISON_MESSAGE = "The worker executing this run died three times; it is not given to a fourth."
DEAD = "id = %(run)s AND worker = %(worker)s"
SECOND_LOOK = (
    "suspect_seq = hb_seq AND suspect_at < clock_timestamp() - make_interval(secs => %(second_look)s)"
)


def sweep() -> int:
    """Take back what two looks found abandoned; return how many. One sweeper at a time, others return at once."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtextextended('csbot sweep', 0))")
        if not cursor.fetchone()[0]:
            return 0
        taken = _take_back(SECOND_LOOK, {"second_look": 2 * settings.CSBOT_HEARTBEAT})
        states.suspect_expired()
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
    back = states.take_back(f"rescues < {RESCUES_BEFORE_POISON} AND {proof}", parameters)
    poisoned = states.poison(f"rescues >= {RESCUES_BEFORE_POISON} AND {proof}", parameters, POISON_MESSAGE)
    for run in Run.objects.filter(pk__in=poisoned).select_related(*outcomes.TOLD):
        error = TerminalError("poison", POISON_MESSAGE)
        states.point_to_incident(run.pk, outcomes.found_incident(run, error, None))
        outcomes.note_end(run)
        metrics.runs_ended.labels("failed").inc()
    return back + len(poisoned)
