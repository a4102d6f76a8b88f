"""For operators and their probes: does the process live, can it take events in, and what do the numbers say.

Ready means that this web process can take events in, for which PostgreSQL and applied migrations are enough;
all else is reported and changes nothing (SPEC section 14). Answers come in time also when PostgreSQL or Redis
hangs: each look outside has a thread, a connection and a deadline of its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import redis
from django.apps import apps
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import UniqueConstraint
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from csbot.lib import metrics as counted
from csbot.lib.values import instant_text
from runtime.queue.claim import SLOTS_SEEN_HEARTBEATS

logger = logging.getLogger(__name__)

# Both looks of `/readyz` run side by side, so it answers within 2 s (SPEC section 14).
DEADLINE_SECONDS = 1.5
# Ends a query that only waits for a lock; a server that hangs is met by the deadline above.
STATEMENT_MILLISECONDS = 1000
REDIS_SECONDS = 0.5
# Beat writes its last runs down every three minutes (celery.beat), so silence is twice that and a little.
BEAT_SILENT_AFTER_SECONDS = 400
OWN_APPS = ("tickets", "connectors", "automations", "incidents", "runtime")


class TooLate(Exception):
    """A look outside had no result in time; its thread is left alone and ends with its connection."""


class Look(threading.Thread):
    """One look outside. While an earlier one of the same name still hangs, a new one does not even begin."""

    _hanging: dict[str, Look] = {}

    def __init__(self, name: str, look: Callable[[], Any]) -> None:
        super().__init__(name=f"health-{name}", daemon=True)
        self._look = look
        self._answer: Any = None
        self._error: Exception | None = None
        self._end_at = time.monotonic() + DEADLINE_SECONDS
        earlier = self._hanging.get(self.name)
        self._begins = earlier is None or not earlier.is_alive()
        if self._begins:
            self.start()

    def run(self) -> None:
        """Look, keep what came, and let go of this thread's own database connection."""
        try:
            self._answer = self._look()
        except (DatabaseError, redis.RedisError, OSError) as error:
            self._error = error
        finally:
            connection.close()

    def result(self) -> Any:
        """Return what was seen. Raises TooLate, or the DatabaseError, RedisError or OSError of the look."""
        if self._begins:
            self.join(max(0.0, self._end_at - time.monotonic()))
        if not self._begins or self.is_alive():
            self._hanging.setdefault(self.name, self)
            if self._begins:
                self._hanging[self.name] = self
            raise TooLate(f"no answer within {DEADLINE_SECONDS} s")
        if self._error is not None:
            raise self._error
        return self._answer


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200 as long as the process answers at all; asks nobody else."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when this web process can take events in, else 503; the body says what was found, for people."""
    looks = {"postgres": Look("postgres", _postgres), "redis": Look("redis", _redis)}
    report: dict[str, Any] = {}
    for name, look in looks.items():
        try:
            report |= look.result()
        except (TooLate, DatabaseError, redis.RedisError, OSError) as error:
            # The error's own words may name internal addresses: they go into the log only.
            logger.warning("/readyz: %s: %s", name, error)
            report[name] = {
                "ok": False,
                "problem": str(error) if isinstance(error, TooLate) else "not reached",
            }
    is_ready = bool(report["postgres"]["ok"])
    return JsonResponse({"ready": is_ready, **report}, status=200 if is_ready else 503)


def _postgres() -> dict[str, Any]:
    """Everything that the database tells: about itself, and about workers and beat."""
    _limit_statements()
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    missing = [f"{migration.app_label}.{migration.name}" for migration, _backwards in plan]
    if missing:
        return {"postgres": {"ok": False, "problem": "migrations are missing", "migrations": missing}}
    return {"postgres": {"ok": True, "indexes": _indexes()}, "workers": _workers(), "beat": _beat()}


def _redis() -> dict[str, Any]:
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS
    )
    try:
        client.ping()
    finally:
        client.close()
    return {"redis": {"ok": True}}


def _limit_statements() -> None:
    _rows(f"SELECT set_config('statement_timeout', '{STATEMENT_MILLISECONDS}', false)")


def _rows(sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


@cache
def _expected_indexes() -> frozenset[str]:
    """Return the names of the indexes that the models declare."""
    models = [model for label in OWN_APPS for model in apps.get_app_config(label).get_models()]
    named = {index.name for model in models for index in model._meta.indexes}
    unique = {
        constraint.name
        for model in models
        for constraint in model._meta.constraints
        if isinstance(constraint, UniqueConstraint)
    }
    return frozenset(named | unique)


def _indexes() -> dict[str, Any]:
    """A missing or invalid index makes the system slow long before it makes it wrong."""
    found = dict(
        _rows(
            "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " WHERE c.relnamespace = current_schema()::regnamespace"
        )
    )
    missing = sorted(_expected_indexes() - found.keys())
    invalid = sorted(name for name, is_valid in found.items() if not is_valid)
    return {"ok": not missing and not invalid, "missing": missing, "invalid": invalid}


WORKERS = """
SELECT count(*), coalesce(sum(slots), 0) FROM runtime_workerprocess
WHERE seen_at > clock_timestamp() - make_interval(secs => %s)
"""


def _seen_within() -> float:
    return float(SLOTS_SEEN_HEARTBEATS * settings.CSBOT_HEARTBEAT)


def _workers() -> dict[str, Any]:
    processes, slots = _rows(WORKERS, [_seen_within()])[0]
    return {"ok": processes > 0, "processes": processes, "slots": slots}


def _beat() -> dict[str, Any]:
    last_at, age = _rows(
        "SELECT max(last_run_at), extract(epoch FROM clock_timestamp() - max(last_run_at))"
        " FROM django_celery_beat_periodictask"
    )[0]
    return {
        "ok": age is not None and age < BEAT_SILENT_AFTER_SECONDS,
        "lastSeenAt": instant_text(last_at) if last_at else None,
    }


# Each part is one pass over a partial index or a small table: 0.1-0.2 s for a million runs, 100,000 of them ready.
# Ended runs are counted by the workers as they end. A run that begins late has been due since it was made; one
# that goes on became due when its wait ended, which the pump sees within seconds.
NUMBERS = """
SELECT ready.n AS ready, scheduled.n AS scheduled, scheduled.overdue, held.blocked, held.review,
  (SELECT count(*) FROM runtime_run WHERE status = 1) AS running,
  extract(epoch FROM clock_timestamp() - least(ready.oldest, scheduled.oldest)) AS oldest_due,
  extract(epoch FROM clock_timestamp() - (
    SELECT min(t.next_due_at) FROM automations_trigger t
    JOIN automations_automation a ON a.id = t.automation_id AND a.state = 'active'
    JOIN tickets_tenant o ON o.id = t.tenant_id AND o.suspended_at IS NULL
    WHERE t.next_due_at <= clock_timestamp())) AS trigger_late,
  (SELECT count(*) FROM incidents_incident WHERE status IN ('open', 'acknowledged')) AS incidents,
  (SELECT count(*) FROM connectors_connection WHERE closed_until > clock_timestamp()) AS closed
FROM
  (SELECT count(*) AS n, (
     SELECT r.due_at FROM runtime_run r JOIN tickets_tenant o ON o.id = r.tenant_id AND o.suspended_at IS NULL
     WHERE r.status = 0 ORDER BY r.due_at LIMIT 1) AS oldest
   FROM runtime_run WHERE status = 0) AS ready,
  (SELECT count(*) AS n, count(*) FILTER (WHERE due_at <= clock_timestamp()) AS overdue,
          min(due_at) FILTER (WHERE due_at <= clock_timestamp()) AS oldest
   FROM runtime_run WHERE status = 2) AS scheduled,
  (SELECT count(*) FILTER (WHERE status = 3) AS blocked, count(*) FILTER (WHERE status = 7) AS review
   FROM runtime_run WHERE status IN (3, 7)) AS held
"""
LIVING_STATES = ("ready", "running", "scheduled", "blocked", "review")


def _numbers() -> dict[str, float]:
    _limit_statements()
    with connection.cursor() as cursor:
        cursor.execute(NUMBERS)
        names = [column.name for column in cursor.description]
        found = dict(zip(names, cursor.fetchone(), strict=True))
    workers = _workers()
    return {
        **{name: float(value or 0) for name, value in found.items()},
        "processes": float(workers["processes"]),
        "slots": float(workers["slots"]),
    }


class DatabaseNumbers(Collector):
    """What the database knows now; when it does not answer, only `csbot_database_up` is there."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield one family after another."""
        up = "Whether the database answered in time while these numbers were read."
        try:
            numbers = Look("metrics", _numbers).result()
        except (TooLate, DatabaseError, OSError) as error:
            logger.warning("/metrics: %s", error)
            yield GaugeMetricFamily("csbot_database_up", up, value=0)
            return
        yield GaugeMetricFamily("csbot_database_up", up, value=1)
        runs = GaugeMetricFamily("csbot_runs", "Runs that have not ended, by state.", labels=["status"])
        for state in LIVING_STATES:
            runs.add_metric([state], numbers[state])
        yield runs
        for name, text, value in (
            ("runs_due", "Runs that could begin or go on now.", numbers["ready"] + numbers["overdue"]),
            (
                "oldest_due_run_age_seconds",
                "How long the oldest due run has been due.",
                numbers["oldest_due"],
            ),
            ("trigger_lateness_seconds", "How late the latest poll or schedule is.", numbers["trigger_late"]),
            ("incidents_open", "Incidents that are not resolved.", numbers["incidents"]),
            ("connections_closed", "Connections closed by a 429 of their service.", numbers["closed"]),
            ("worker_processes", "Worker processes that were seen lately.", numbers["processes"]),
            ("worker_slots", "Runs that these can execute at once.", numbers["slots"]),
        ):
            yield GaugeMetricFamily(f"csbot_{name}", text, value=value)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format: what all processes of this machine counted, what the database knows now."""
    registry = CollectorRegistry()
    registry.register(counted.of_all_processes())
    registry.register(DatabaseNumbers())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4)
