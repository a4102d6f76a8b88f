"""The only writer of a run's state: every arrow is one guarded UPDATE that says whether it hit.

    enqueue -> ready -> running -> done | failed | review | cancelled
                 ^         |
                 |         +-> scheduled (backoff, wait, limit) -> ready
                 +-- rescue, release (deploy, quantum)

The fence: an executor's write names the `claim_no` it was given. A claim and a rescue make it grow, so whoever wakes
up late hits no row and must forget the run. Due times and leases are read from the database's clock alone.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from csbot.lib import json
from csbot.lib.prepared import Statement
from incidents.models import Incident
from runtime.models import Run
from runtime.queue import wake

Status = Run.Status


class Fenced(Exception):
    """The run is not ours any more: it was rescued, cancelled or claimed again."""


@dataclass(frozen=True)
class Claimed:
    """A run in our hands: `claim_no` is the fence that every write has to carry."""

    run_id: int
    claim_no: int
    tenant_id: int


def lease_seconds() -> int:
    """Return how long a claim holds without a heartbeat: the second look comes two heartbeats after it."""
    return settings.CSBOT_STUCK_AFTER - 2 * settings.CSBOT_HEARTBEAT


# One statement for run and data, so that an event costs one round trip and one commit.
# Each webhook executes it, hence prepared; what stands in a SELECT has no column to take its type from.
ENQUEUE = Statement("""
WITH given AS (SELECT nextval(pg_get_serial_sequence('runtime_run', 'id')) AS id),
delivered AS (
  INSERT INTO runtime_delivery (public_id, tenant_id, automation_id, key, sha256, outcome, run_id, at)
  SELECT gen_random_uuid(), %(tenant)s::bigint, %(automation)s::bigint, %(key)s::text, %(sha256)s::bytea, 'taken',
         given.id, clock_timestamp()
  FROM given WHERE %(sha256)s::bytea IS NOT NULL
  ON CONFLICT (automation_id, key) WHERE outcome IN ('taken', 'parked') AND key IS NOT NULL DO NOTHING
  RETURNING run_id
),
inserted AS (
  INSERT INTO runtime_run (id, public_id, tenant_id, automation_id, version_id, trigger, ticket_id, status,
                           wait_reason, priority, claim_no, hb_seq, worker, attempts, rescues, dedup_key,
                           order_key, order_place, order_holds, due_at,
                           cancel_requested, actions, caused_by_id, depth, rerun_of_id, created_at)
  SELECT given.id, %(public_id)s::uuid, %(tenant)s::bigint, %(automation)s::bigint, %(version)s::bigint,
         %(trigger)s::text, %(ticket)s::bigint, %(status)s::smallint,
         %(wait_reason)s::text, %(priority)s::smallint, 0, 0, '', 0, 0, %(dedup_key)s::text,
         %(order_key)s::text, coalesce(%(order_place)s::bigint, given.id), %(order_holds)s::boolean,
         CASE WHEN %(status)s::smallint IN (0, 2) THEN clock_timestamp() + make_interval(secs => %(delay)s::float) END,
         false, 0, %(caused_by)s::bigint, %(depth)s::smallint, %(rerun_of)s::bigint, clock_timestamp()
  FROM given WHERE %(sha256)s::bytea IS NULL OR EXISTS (SELECT 1 FROM delivered)
  ON CONFLICT (dedup_key) WHERE status IN (0, 1, 2, 3) AND dedup_key IS NOT NULL DO NOTHING
  RETURNING id
)
INSERT INTO runtime_rundata (run_id, tenant_id, input, raw, content_type)
SELECT id, %(tenant)s::bigint, %(input)s::jsonb, %(raw)s::bytea, %(content_type)s::text FROM inserted
RETURNING run_id
""")


@dataclass(frozen=True)
class DeliveryIdentity:
    """What identifies a delivery: `key` is None where its sender names nothing."""

    key: str | None
    sha256: bytes


@dataclass(frozen=True)
class Line:
    """The line that a run stands in (SPEC section 5.8): runs of one key go one at a time, in the order of arrival.

    `holds`: behind an earlier run that failed or is in review this one waits. `place` is another run's, for its rerun.
    """

    key: str
    holds: bool = True
    place: int | None = None


@dataclass(frozen=True)
class Enqueued:
    """A new run in the queue: its inner id and its public one."""

    run_id: int
    public_id: uuid.UUID


def enqueue(
    *,
    tenant_id: int,
    automation_id: int,
    version_id: int,
    trigger: str,
    input_json: str,
    ticket_id: int | None = None,
    priority: int = 5,
    dedup_key: str | None = None,
    caused_by: Run | None = None,
    rerun_of: Run | None = None,
    line: Line | None = None,
    delivery: DeliveryIdentity | None = None,
    delay_seconds: float = 0.0,
    raw: bytes | None = None,
    content_type: str = "",
) -> Enqueued | None:
    """Put a run into the queue: the one way in. The wake-up leaves after the commit, from a thread.

    `input_json` is the JSON text of the run's input (SPEC section 13). Returns None when a living run has the same
    `dedup_key` or when the delivery was taken before; then nothing was written.
    """
    public_id = uuid.uuid4()
    row = ENQUEUE.row(
        tenant=tenant_id,
        automation=automation_id,
        version=version_id,
        trigger=trigger,
        ticket=ticket_id,
        priority=priority,
        dedup_key=dedup_key,
        caused_by=caused_by.pk if caused_by else None,
        depth=caused_by.depth + 1 if caused_by else 1,
        rerun_of=rerun_of.pk if rerun_of else None,
        status=Status.BLOCKED if line else Status.SCHEDULED if delay_seconds else Status.READY,
        wait_reason="order" if line else "wait" if delay_seconds else "",
        delay=delay_seconds,
        order_key=line.key if line else None,
        order_place=line.place if line else None,
        order_holds=line.holds if line else True,
        key=delivery.key if delivery else None,
        sha256=delivery.sha256 if delivery else None,
        public_id=public_id,
        input=input_json,
        raw=raw,
        content_type=content_type,
    )
    if row is None:
        return None
    transaction.on_commit(wake.notify)
    if line:
        call_line(line.key)
    return Enqueued(row[0], public_id)


OURS = "status = 1 AND claim_no = %(claim_no)s"
LET_GO = "lease_until = NULL, suspect_seq = NULL, suspect_at = NULL, worker = ''"
READY = "status = 0, wait_reason = '', due_at = clock_timestamp()"
CLAIM = """
WITH c AS MATERIALIZED (
  SELECT id FROM runtime_run WHERE status = 0 AND tenant_id = %(tenant)s
  ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE runtime_run r SET status = 1, claim_no = r.claim_no + 1, hb_seq = r.hb_seq + 1, suspect_seq = NULL,
  suspect_at = NULL, worker = %(worker)s, started_at = coalesce(r.started_at, clock_timestamp()),
  lease_until = clock_timestamp() + make_interval(secs => %(lease)s), wait_reason = '', due_at = NULL
FROM c WHERE r.id = c.id AND r.status = 0
RETURNING r.id, r.claim_no
"""


def claim(tenant_id: int, worker: str) -> Claimed | None:
    """ready -> running: the tenant's first by priority and arrival. None: it has no ready run that is free."""
    with connection.cursor() as cursor:
        cursor.execute(CLAIM, {"tenant": tenant_id, "worker": worker, "lease": lease_seconds()})
        row = cursor.fetchone()
    return Claimed(run_id=row[0], claim_no=row[1], tenant_id=tenant_id) if row else None


def suspect_expired() -> None:
    """Mark running runs whose lease has passed with their heartbeat counter: the first look of `rescue`."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runtime_run SET suspect_seq = hb_seq, suspect_at = clock_timestamp() "
            "WHERE status = 1 AND lease_until < clock_timestamp() AND suspect_seq IS DISTINCT FROM hb_seq"
        )


def take_back(proof: str, parameters: dict[str, Any]) -> int:
    """running -> ready where the `proof` (SQL) holds that the worker is gone; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE runtime_run SET {READY}, claim_no = claim_no + 1, rescues = rescues + 1, {LET_GO} "
            f"WHERE status = 1 AND {proof}",
            parameters,
        )
        if cursor.rowcount:
            transaction.on_commit(wake.notify)
        return cursor.rowcount


def poison(proof: str, parameters: dict[str, Any], message: str) -> list[int]:
    """running -> failed where the `proof` (SQL) holds; return the inner ids of those runs."""
    error = json.dumps({"code": "poison", "message": message, "stepId": None, "retryable": False})
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runtime_run SET status = 5, claim_no = claim_no + 1, rescues = rescues + 1, "
            f"finished_at = clock_timestamp(), wait_reason = '', error = %(error)s::jsonb, {LET_GO} "
            f"WHERE status = 1 AND {proof} RETURNING id",
            {**parameters, "error": error},
        )
        return [row[0] for row in cursor.fetchall()]


def _update(assignments: str, guard: str, parameters: dict[str, Any]) -> bool:
    """Run one guarded UPDATE of one run; return whether it hit."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE runtime_run SET {assignments} WHERE id = %(run)s AND {guard}", parameters)
        return cursor.rowcount == 1


def _ours(claimed: Claimed, assignments: str, **parameters: Any) -> bool:
    """An arrow that only the holder of the claim may draw."""
    return _update(
        f"{assignments}, {LET_GO}", OURS, {"run": claimed.run_id, "claim_no": claimed.claim_no, **parameters}
    )


def complete(claimed: Claimed, actions: int) -> bool:
    """running -> done. False: not ours any more."""
    return _ours(
        claimed,
        "status = 4, finished_at = clock_timestamp(), actions = %(actions)s, error = NULL, wait_reason = ''",
        actions=actions,
    )


def fail(claimed: Claimed, error: dict[str, Any], actions: int, *, attempts: int) -> bool:
    """running -> failed, with the error of SPEC section 13. False: not ours any more."""
    return _ours(
        claimed,
        "status = 5, finished_at = clock_timestamp(), actions = %(actions)s, error = %(error)s::jsonb, "
        "attempts = %(attempts)s, wait_reason = ''",
        actions=actions,
        error=json.dumps(error),
        attempts=attempts,
    )


def review(claimed: Claimed, error: dict[str, Any], actions: int) -> bool:
    """running -> review: nobody knows whether the call happened. False: not ours any more."""
    return _ours(
        claimed,
        "status = 7, actions = %(actions)s, error = %(error)s::jsonb, wait_reason = ''",
        actions=actions,
        error=json.dumps(error),
    )


def retry_at(
    claimed: Claimed, due_at: datetime, error: dict[str, Any], actions: int, *, attempts: int
) -> bool:
    """running -> scheduled: the attempt counted and the next one is at `due_at`. False: not ours any more."""
    return _ours(
        claimed,
        "status = 2, due_at = %(due_at)s, wait_reason = 'backoff', actions = %(actions)s, "
        "error = %(error)s::jsonb, attempts = %(attempts)s, waiting_since = NULL",
        due_at=due_at,
        actions=actions,
        error=json.dumps(error),
        attempts=attempts,
    )


def snooze(
    claimed: Claimed,
    reason: str,
    due_at: datetime,
    actions: int,
    *,
    is_limit: bool = False,
    begins: bool = False,
) -> bool:
    """running -> scheduled without using up an attempt. False: not ours any more.

    `waiting_since` keeps the beginning of an unbroken wait for limits, which may last 24 h (SPEC section 5.3);
    `begins`: the run has got on since the last one.
    """
    return _ours(
        claimed,
        "status = 2, due_at = %(due_at)s, wait_reason = %(reason)s, actions = %(actions)s, "
        "waiting_since = CASE WHEN NOT %(is_limit)s THEN NULL WHEN %(begins)s THEN clock_timestamp() "
        "ELSE coalesce(waiting_since, clock_timestamp()) END",
        is_limit=is_limit,
        begins=begins,
        due_at=due_at,
        reason=reason,
        actions=actions,
    )


def block(claimed: Claimed, actions: int) -> bool:
    """running -> blocked: waits for the end of a run that it called. False: not ours any more."""
    return _ours(claimed, "status = 3, wait_reason = 'wait', actions = %(actions)s", actions=actions)


# The run that a blocked one waits for, by the row of its waiting step, while it has not ended.
AWAITED = """
SELECT 1 FROM runtime_runstep step JOIN runtime_run callee ON callee.public_id = (step.output ->> 'runId')::uuid
WHERE step.run_id = runtime_run.id AND step.op = 'flow/call' AND step.state = 'waiting' AND callee.finished_at IS NULL
"""


def unblock_caller(run_id: int) -> bool:
    """blocked -> ready as soon as every run that it called and waits for has ended. False: it still waits."""
    is_unblocked = _update(
        READY,
        f"status = 3 AND wait_reason = 'wait' AND NOT EXISTS ({AWAITED})",
        {"run": run_id},
    )
    if is_unblocked:
        transaction.on_commit(wake.notify)
    return is_unblocked


def release(claimed: Claimed) -> bool:
    """running -> ready, attempt given back: at a deploy or after the quantum. False: not ours any more."""
    released = _ours(claimed, READY)
    transaction.on_commit(wake.notify)
    return released


def cancel_claimed(claimed: Claimed, actions: int) -> bool:
    """running -> cancelled, by the executor that saw the request. False: not ours any more."""
    return _ours(
        claimed,
        "status = 6, finished_at = clock_timestamp(), actions = %(actions)s, wait_reason = ''",
        actions=actions,
    )


def cancel(run: Run) -> bool:
    """queued | review -> cancelled at once. False: it is running or has ended."""
    return _update(
        "status = 6, finished_at = clock_timestamp(), due_at = NULL, wait_reason = ''",
        "status IN (0, 2, 3, 7)",
        {"run": run.pk},
    )


def request_cancel(run: Run) -> bool:
    """Ask the executor of a running run to stop at the next step. False: it is not running."""
    return _update("cancel_requested = true", "status = 1", {"run": run.pk})


def requeue_failed(run: Run) -> bool:
    """failed -> ready, attempts beginning at 0 again (`retry`). False: it has not failed."""
    return _requeue(
        run,
        "finished_at = NULL, attempts = 0, rescues = 0, waiting_since = NULL, cancel_requested = false",
        "status = 5 AND stripped_at IS NULL",
    )


def requeue_reviewed(run: Run) -> bool:
    """review -> ready after a person decided. False: it is not in review."""
    return _requeue(run, "cancel_requested = false", "status = 7")


def _requeue(run: Run, assignments: str, guard: str) -> bool:
    """Back into the queue: ready, or into its line, where it stands in front of those who came later."""
    transaction.on_commit(wake.notify)
    call_line(run.order_key)
    place = READY if run.order_key is None else "status = 3, wait_reason = 'order'"
    return _update(f"{place}, {assignments}", guard, {"run": run.pk})


def give_up(run: Run) -> bool:
    """review -> failed after a person decided so. False: it is not in review."""
    return _update("status = 5, finished_at = clock_timestamp()", "status = 7", {"run": run.pk})


def point_to_incident(run_id: int, incident: Incident) -> None:
    """Let the run name the incident that it founded or joined."""
    Run.objects.filter(pk=run_id).update(incident=incident)


# The first of those that wait in a line goes when nobody of the line is under way, and when nobody before it failed
# or is in review, unless it does not hold, or that one's rerun is done, or a person resolved its incident.
NEXT_IN_LINE = f"""
UPDATE runtime_run SET {READY} WHERE status = 3 AND wait_reason = 'order' AND id = (
  SELECT r.id FROM runtime_run r
  WHERE r.order_key = %(key)s AND r.status = 3 AND r.wait_reason = 'order'
  ORDER BY r.order_place, r.id LIMIT 1
)
AND NOT EXISTS (
  SELECT 1 FROM runtime_run o WHERE o.order_key = %(key)s
    AND (o.status IN (0, 1, 2) OR (o.status = 3 AND o.wait_reason <> 'order'))
)
AND NOT (order_holds AND EXISTS (
  SELECT 1 FROM runtime_run o LEFT JOIN incidents_incident i ON i.id = o.incident_id
  WHERE o.order_key = %(key)s AND o.order_place < runtime_run.order_place
    AND o.status IN (5, 7) AND i.status IS DISTINCT FROM 'resolved'
    AND NOT EXISTS (SELECT 1 FROM runtime_run again WHERE again.rerun_of_id = o.id AND again.status = 4)
))
"""
# Lines whose next run was not called, because a process died between a commit and the call.
WAITING_LINES = (
    "SELECT DISTINCT order_key FROM runtime_run WHERE status = 3 AND wait_reason = 'order' LIMIT 500"
)


def call_line(key: str | None) -> None:
    """Let the next run of a line go, once this transaction is committed; nothing for a run that stands in none.

    After the commit, so that whoever calls last sees every end before it; one caller of a line at a time.
    """
    if key is not None:
        transaction.on_commit(lambda: _next_in_line(key))


def call_waiting() -> None:
    """Let go on who waits for a line or for a callee's end; the safety net of `call_line` and `unblock_caller`."""
    with connection.cursor() as cursor:
        cursor.execute(WAITING_LINES)
        keys = [row[0] for row in cursor.fetchall()]
    for key in keys:
        _next_in_line(key)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE runtime_run SET {READY} WHERE status = 3 AND wait_reason = 'wait' AND NOT EXISTS ({AWAITED})"
        )
        if cursor.rowcount:
            wake.notify()


def _next_in_line(key: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('csbot line ' || %s, 0))", [key])
        cursor.execute(NEXT_IN_LINE, {"key": key})
        if cursor.rowcount:
            transaction.on_commit(wake.notify)


def stage_due(limit: int = 500) -> int:
    """scheduled -> ready for what is due by the database's clock; return how many. It stays due since its `due_at`.

    In batches: after an outage the runs come back in the order in which they were due.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH due AS MATERIALIZED (
              SELECT id FROM runtime_run WHERE status = 2 AND due_at <= clock_timestamp()
              ORDER BY due_at LIMIT %s FOR UPDATE SKIP LOCKED
            )
            UPDATE runtime_run r SET status = 0, wait_reason = '' FROM due WHERE r.id = due.id
            """,
            [limit],
        )
        return cursor.rowcount


def hold(claimed: Claimed) -> bool:
    """Take the run's row for the rest of this transaction; return whether cancelling was asked for.

    The first statement of every write of an executor. Raises Fenced when the run is not ours any more.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT cancel_requested FROM runtime_run WHERE id = %s AND claim_no = %s AND status = 1 "
            "FOR NO KEY UPDATE",
            [claimed.run_id, claimed.claim_no],
        )
        row = cursor.fetchone()
    if row is None:
        raise Fenced
    return bool(row[0])
