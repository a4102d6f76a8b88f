"""What operators and their probes see, also while PostgreSQL or Redis hangs."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from automations.models import AutomationVersion, Trigger
from csbot import health
from csbot.lib import metrics as counted
from incidents import services as incidents
from runtime.models import Run, WorkerProcess
from tests.conftest import eventually
from tests.factories import AutomationFactory, ConnectionFactory, RunFactory
from tests.incidents.test_services import fail

# Both probes answer within 2 s, whatever hangs; the rest is this machine's own time.
PATIENCE_SECONDS = 2.0

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def hanging(child):
    """The server takes connections and says nothing, as on a machine whose disk is gone."""
    os.kill(child.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(child.pid, signal.SIGCONT)


def timed(client, path):
    begun = time.monotonic()
    answer = client.get(path)
    return answer, time.monotonic() - begun


def samples(answer):
    """The numbers of `/metrics` by name and labels."""
    assert answer.status_code == 200
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def run_of(tenant, status, **values):
    """A run in `status`, with the instants that the table demands of it."""
    automation = AutomationFactory(tenant=tenant)
    version = AutomationVersion.objects.create(
        tenant=tenant, automation=automation, number=1, tree={}, created_by="Jana"
    )
    now = timezone.now()
    needed = {
        Run.Status.RUNNING: {"lease_until": now, "started_at": now},
        Run.Status.SCHEDULED: {"due_at": now + timedelta(hours=1)},
        Run.Status.DONE: {"finished_at": now},
    }
    given = {**needed.get(status, {}), **values}
    return RunFactory(
        tenant=tenant, automation=automation, version=version, trigger="webhook", status=status, **given
    )


def test_healthz_asks_nobody(client, django_assert_num_queries):
    with django_assert_num_queries(0):
        answer = client.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_ready_needs_no_worker_and_no_beat(client):
    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "postgres": {"ok": True, "indexes": {"ok": True, "missing": [], "invalid": []}},
        "redis": {"ok": True},
        "workers": {"ok": False, "processes": 0, "slots": 0},
        "beat": {"ok": False, "lastSeenAt": None},
    }
    assert "no-store" in answer["Cache-Control"]


def test_living_workers_are_reported_and_silent_ones_are_not(client):
    WorkerProcess.objects.create(id="here/1/1", host="here", pid=1, slots=4)
    WorkerProcess.objects.create(
        id="gone/2/2", host="gone", pid=2, slots=4, seen_at=timezone.now() - timedelta(hours=1)
    )

    assert client.get("/readyz").json()["workers"] == {"ok": True, "processes": 1, "slots": 4}


def test_a_missing_migration_is_not_ready(client):
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'runtime' RETURNING name, applied")
        removed = cursor.fetchall()
    try:
        answer = client.get("/readyz")
    finally:
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO django_migrations (app, name, applied) VALUES ('runtime', %s, %s)", removed
            )

    assert answer.status_code == 503
    assert answer.json()["ready"] is False
    assert answer.json()["postgres"]["migrations"] == sorted(f"runtime.{name}" for name, _at in removed)


def test_a_missing_index_is_reported_and_does_not_matter(client):
    with connection.cursor() as cursor:
        cursor.execute("ALTER INDEX run_ready RENAME TO run_ready_elsewhere")
        try:
            answer = client.get("/readyz")
        finally:
            cursor.execute("ALTER INDEX run_ready_elsewhere RENAME TO run_ready")

    assert answer.status_code == 200
    assert answer.json()["postgres"]["indexes"] == {"ok": False, "missing": ["run_ready"], "invalid": []}


def test_ready_while_redis_hangs(client, servers):
    with hanging(servers.redis):
        answer, seconds = timed(client, "/readyz")

    assert answer.status_code == 200
    assert answer.json()["redis"] == {"ok": False, "problem": "not reached"}
    assert seconds < PATIENCE_SECONDS


def test_not_ready_in_time_while_postgresql_hangs_and_ready_again_after_it(client, servers):
    with hanging(servers.postgres):
        answer, seconds = timed(client, "/readyz")
        _, seconds_again = timed(client, "/readyz")

        assert answer.status_code == 503
        assert answer.json()["ready"] is False
        assert answer.json()["postgres"] == {"ok": False, "problem": "no answer within 1.5 s"}
        assert answer.json()["redis"] == {"ok": True}
        assert seconds < PATIENCE_SECONDS
        # While the first look hangs no second one begins: probes do not pile up threads.
        assert seconds_again < 1.0

    eventually(lambda: client.get("/readyz").status_code == 200, timeout=20)


def test_not_ready_at_once_while_postgresql_refuses(client, monkeypatch):
    monkeypatch.setitem(connections.settings["default"], "PORT", "1")

    answer, seconds = timed(client, "/readyz")

    assert answer.status_code == 503
    assert answer.json()["postgres"] == {"ok": False, "problem": "not reached"}
    assert seconds < PATIENCE_SECONDS


def test_the_report_names_no_address(client, servers, caplog):
    with hanging(servers.postgres):
        answer = client.get("/readyz")

    assert "127.0.0.1" not in answer.content.decode()
    eventually(lambda: client.get("/readyz").status_code == 200, timeout=20)


def test_the_numbers_of_the_database(client, shop):
    hour_ago = timezone.now() - timedelta(hours=1)
    run_of(shop, Run.Status.READY, due_at=hour_ago)
    run_of(shop, Run.Status.READY)
    # Made a day before, and ready to go on just now: its wait is over, so it is not late.
    run_of(shop, Run.Status.READY, created_at=hour_ago - timedelta(days=1), started_at=hour_ago)
    run_of(shop, Run.Status.RUNNING)
    run_of(shop, Run.Status.SCHEDULED)
    run_of(shop, Run.Status.SCHEDULED, due_at=timezone.now() - timedelta(minutes=1))
    run_of(shop, Run.Status.BLOCKED)
    run_of(shop, Run.Status.UNCERTAIN)
    run_of(shop, Run.Status.DONE)
    fail(shop, cause="one")
    incidents.acknowledge(fail(shop, cause="two"))
    incidents.resolve(fail(shop, cause="three"))
    ConnectionFactory(tenant=shop, closed_until=timezone.now() + timedelta(minutes=1))
    ConnectionFactory(tenant=shop, closed_until=timezone.now() - timedelta(minutes=1))
    Trigger.objects.create(
        tenant=shop,
        automation=AutomationFactory(tenant=shop, state="active"),
        kind="poll",
        next_due_at=timezone.now() - timedelta(seconds=40),
    )
    WorkerProcess.objects.create(id="here/1/1", host="here", pid=1, slots=4)

    found = samples(client.get("/metrics"))

    by_state = {dict(labels)["status"]: n for (name, *labels), n in found.items() if name == "csbot_runs"}
    assert by_state == {"ready": 3, "running": 1, "scheduled": 2, "blocked": 1, "review": 1}
    assert found[("csbot_runs_due",)] == 4
    assert found[("csbot_oldest_due_run_age_seconds",)] == pytest.approx(3600, abs=30)
    assert found[("csbot_trigger_lateness_seconds",)] == pytest.approx(40, abs=30)
    assert found[("csbot_incidents_open",)] == 2
    assert found[("csbot_connections_closed",)] == 1
    assert (found[("csbot_worker_processes",)], found[("csbot_worker_slots",)]) == (1, 4)
    assert found[("csbot_database_up",)] == 1


def test_nothing_due_is_an_age_of_zero(client):
    found = samples(client.get("/metrics"))

    assert found[("csbot_oldest_due_run_age_seconds",)] == 0
    assert found[("csbot_runs_due",)] == 0


def test_no_number_grows_with_tenants(client, shop, stranger):
    for tenant in (shop, stranger):
        run_of(tenant, Run.Status.READY)
        fail(tenant)

    text = client.get("/metrics").content.decode()

    assert "shop" not in text
    assert "stranger" not in text


def test_what_processes_counted_is_there_while_postgresql_hangs(client, servers):
    counted.ingest_requests.labels(code="202").inc()
    with hanging(servers.postgres):
        answer, seconds = timed(client, "/metrics")

    found = samples(answer)
    assert found[("csbot_database_up",)] == 0
    assert found[("csbot_ingest_requests_total", ("code", "202"))] >= 1
    assert ("csbot_runs_due",) not in found
    assert seconds < PATIENCE_SECONDS
    eventually(lambda: samples(client.get("/metrics"))[("csbot_database_up",)] == 1, timeout=20)


COUNT = """
from csbot.lib import metrics
metrics.outbound_calls.labels(provider="http", method="GET", status="200").inc({times})
print("counted", flush=True)
import sys; sys.stdin.readline()
"""


def counting_process(times):
    """Another process that counts, as a worker does; it lives until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", COUNT.format(times=times)],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "csbot.settings"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "counted\n"
    return process


def test_processes_add_up_and_a_successor_takes_the_place_of_a_dead_one(client):
    name = ("csbot_outbound_calls_total", ("method", "GET"), ("provider", "http"), ("status", "200"))

    def total():
        return samples(client.get("/metrics")).get(name, 0)

    def files():
        return sorted(path.name for path in counted.FOLDER.glob("counter_*.db"))

    before = total()
    side_by_side = [counting_process(1), counting_process(2)]
    assert total() == before + 3
    places = files()
    for process in side_by_side:
        process.kill()
        process.communicate()
    assert total() == before + 3, "a dead process's count is not lost"

    for times in (4, 8):
        counting_process(times).communicate("\n")
    assert total() == before + 15
    assert files() == places, "successors count on in the files of the dead"


def test_a_forked_child_counts_in_a_place_of_its_own(client):
    def done() -> float:
        return samples(client.get("/metrics")).get(("csbot_runs_ended_total", ("status", "done")), 0.0)

    # Other tests of this process have counted before.
    before = done()
    counted.runs_ended.labels(status="done").inc()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            counted.runs_ended.labels(status="done").inc(5)
            os.write(write, b"x")
        finally:
            os._exit(0)
    os.close(write)
    assert os.read(read, 1) == b"x"
    os.close(read)
    assert os.waitpid(child, 0)[1] == 0

    counted.runs_ended.labels(status="done").inc()

    assert done() - before == 7


def test_the_numbers_are_read_from_indexes():
    """No pass over all runs: a table of a million would take longer than a scrape may."""
    with connection.cursor() as cursor:
        # Small tables are read whole whatever indexes they have, so that way is made the last choice.
        cursor.execute("SET enable_seqscan = off")
        try:
            cursor.execute(f"EXPLAIN {health.NUMBERS}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
        finally:
            cursor.execute("RESET enable_seqscan")

    assert "Seq Scan on runtime_run" not in plan, plan
