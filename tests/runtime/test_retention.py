"""What goes with time and what stays: bodies, logs, deliveries, surplus polls, kept answers."""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from csbot.lib import database_clock
from runtime import tasks
from runtime.models import Delivery, DeliveryCount, Run, RunData, RunLog, RunStep
from runtime.queue import findings, retention
from runtime.queue.states import DeliveryIdentity
from tests.runtime.explained import plan_of
from tickets import audit
from tickets.events import SYSTEM
from tickets.models import AuditEntry, IdempotentAnswer, Tenant

pytestmark = pytest.mark.django_db(transaction=True)

POLL = {"kind": "poll", "intervalSec": 60}
DAY = timedelta(days=1)
Status = Run.Status
ENDED = (Status.DONE, Status.FAILED, Status.CANCELLED)


@pytest.fixture
def ended(enqueue):
    """`ended(automation, days)` is a run with a step and a log line that ended so many days ago."""

    def make(automation, days: float = 0, status: int = Status.DONE, **values) -> Run:
        run = enqueue(automation, {"orderId": "5001"}, **values)
        at = database_clock.now() - timedelta(days=days)
        finished_at = at if status in ENDED else None
        Run.objects.filter(pk=run.pk).update(
            status=status, created_at=at, finished_at=finished_at, due_at=None, actions=1
        )
        RunStep.objects.create(
            tenant=run.tenant, run=run, path="st_1", seq=1, step_id="st_1", op="flow/log", type="action",
            state="done", claim_no=1, input={"message": "5001"}, output={"items": []}, message="5001",
            rules=[{"actual": "5001"}], idempotency_key="order-5001",
        )  # fmt: skip
        RunLog.objects.create(tenant=run.tenant, run=run, code="flow.log", params={"message": "5001"})
        return run

    return make


def has_bodies(run: Run) -> bool:
    """Whether anything of what came in or went out is left of a run; fails when only a part is."""
    step = RunStep.objects.get(run=run)
    left = {
        RunData.objects.filter(run=run).exists(),
        RunLog.objects.filter(run=run).exists(),
        step.input is not None,
        step.output is not None,
        step.rules is not None,
        bool(step.message),
        bool(step.idempotency_key),
        Run.objects.get(pk=run.pk).stripped_at is None,
    }
    assert len(left) == 1
    return left.pop()


class TestBodies:
    def test_they_go_when_the_tenants_days_have_passed(self, shop, stranger, publish, ended):
        Tenant.objects.filter(pk=stranger.pk).update(retention_days=30)
        ours, theirs = (publish(tenant, []) for tenant in (shop, stranger))
        gone = [
            ended(ours, 91),
            ended(ours, 91, Status.FAILED),
            ended(ours, 91, Status.CANCELLED),
            ended(theirs, 31),
        ]
        kept = [ended(ours, 89), ended(theirs, 29)]
        tasks.retention()
        assert [has_bodies(run) for run in gone] == [False] * 4
        assert [has_bodies(run) for run in kept] == [True] * 2
        assert Run.objects.count() == 6

    @pytest.mark.parametrize("status", [Status.UNCERTAIN, Status.BLOCKED])
    def test_what_has_not_ended_keeps_all(self, shop, publish, ended, status):
        run = ended(publish(shop, []), 200, status)
        tasks.retention()
        assert has_bodies(run)

    def test_the_facts_stay(self, shop, stranger, publish, ended, api):
        run = ended(publish(shop, []), 91)
        tasks.retention()
        answer = api(shop).get(f"/api/runs/{run.public_id}").json()
        assert (answer["status"], answer["actions"], answer["input"], answer["log"]) == ("done", 1, None, [])
        (step,) = answer["steps"]
        assert (step["path"], step["status"]) == ("st_1", "done")
        assert step["input"] is step["output"] is step["message"] is step["rules"] is None
        assert api(stranger).get(f"/api/runs/{run.public_id}").status_code == 404

    def test_batches_are_limited_by_runs_and_by_steps(self, shop, publish, ended, monkeypatch):
        automation = publish(shop, [])
        runs = [ended(automation, 91) for _ in range(5)]
        monkeypatch.setattr(retention, "BATCH", 2)
        assert [retention.strip() for _ in range(4)] == [2, 2, 1, 0]
        Run.objects.update(stripped_at=None, actions=6)
        monkeypatch.setattr(retention, "BATCH", 100)
        monkeypatch.setattr(retention, "MAX_STEPS", 10)
        assert [retention.strip() for _ in range(4)] == [2, 2, 1, 0]
        Run.objects.filter(pk=runs[0].pk).update(stripped_at=None, actions=1000)
        assert retention.strip() == 1, "one run goes however many steps it has"

    def test_a_run_that_somebody_holds_is_left_to_the_next_tick(self, shop, publish, ended, other_connection):
        run = ended(publish(shop, []), 91)
        with other_connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT 1 FROM runtime_run WHERE id = %s FOR UPDATE", [run.pk])
            assert retention.strip() == 0
            cursor.execute("ROLLBACK")
        assert retention.strip() == 1

    def test_no_batch_reads_a_table_whole(self, shop, publish, ended):
        automation = publish(shop, [])
        for _ in range(3):
            ended(automation, 91)
        template = Run.objects.first()
        Run.objects.bulk_create(
            Run(tenant=shop, automation=automation, version=template.version, trigger="manual", status=4,
                finished_at=database_clock.now() - number * DAY, created_at=Now(), stripped_at=Now())
            for number in range(3000)
        )  # fmt: skip
        tables = ("runtime_run", "runtime_rundata", "runtime_runstep", "runtime_runlog")
        newer = [
            RunStep(
                tenant=shop,
                run=run,
                path="st_1",
                seq=1,
                step_id="st_1",
                type="action",
                state="done",
                claim_no=1,
            )
            for run in Run.objects.exclude(stripped_at=None)
        ]
        RunStep.objects.bulk_create(newer)
        RunLog.objects.bulk_create(RunLog(tenant=shop, run=step.run, code="flow.log") for step in newer)
        RunData.objects.bulk_create(RunData(tenant=shop, run=step.run, input={}) for step in newer)
        plan = plan_of(retention.strip, *tables)
        assert plan.scanned_whole == set()
        assert "run_to_strip" in plan.indexes


class TestEmptyPolls:
    def polls(self, automation, ended, count: int, items: object = ()) -> list[Run]:
        """So many done polls, the oldest first, a minute apart."""
        runs = [ended(automation, (count - number) / 1440, trigger="poll") for number in range(count)]
        output = {"status": 200} if items is None else {"items": list(items)}
        RunStep.objects.filter(run__in=runs).update(output=output)
        return runs

    def test_the_last_twenty_stay_as_runs_and_the_others_as_counts(self, shop, stranger, publish, ended):
        automation = publish(shop, [], POLL)
        found = self.polls(automation, ended, 3, [1])
        untold = self.polls(automation, ended, 3, None)
        empty = self.polls(automation, ended, 25)
        others = self.polls(publish(stranger, [], POLL), ended, 20)
        failed = ended(automation, 1, Status.FAILED, trigger="poll")
        tasks.retention()
        kept = set(Run.objects.values_list("pk", flat=True))
        assert kept == {run.pk for run in (*found, *untold, *empty[5:], *others, failed)}
        counts = DeliveryCount.objects.of(shop).filter(automation=automation)
        assert sum(counts.values_list("empty_polls", flat=True)) == 5
        assert RunStep.objects.count() == RunData.objects.count() == RunLog.objects.count() == len(kept)
        tasks.retention()
        assert Run.objects.count() == len(kept)

    def test_what_another_run_names_stays(self, shop, publish, enqueue, ended):
        automation = publish(shop, [], POLL)
        empty = self.polls(automation, ended, 25)
        enqueue(automation, caused_by=empty[0])
        enqueue(automation, rerun_of=empty[1], trigger="poll")
        tasks.retention()
        kept = set(Run.objects.values_list("pk", flat=True))
        assert {empty[0].pk, empty[1].pk} <= kept
        assert not {run.pk for run in empty[2:5]} & kept

    def test_they_are_counted_on_the_tenants_day(self, shop, publish, ended):
        automation = publish(shop, [], POLL)
        (oldest, *_) = self.polls(automation, ended, 21)
        Run.objects.filter(pk=oldest.pk).update(created_at="2026-11-29T23:30:00Z")
        with transaction.atomic():
            assert findings.sort(100) == 21
            assert findings.drop_surplus(100) == 1
        count = DeliveryCount.objects.get()
        assert (str(count.day), count.empty_polls, count.refused, count.duplicate) == ("2026-11-30", 1, 0, 0)

    def test_a_delivery_counts_on_the_same_row(self, shop, publish, ended):
        automation = publish(shop, [], POLL)
        self.polls(automation, ended, 22)
        Run.objects.update(created_at="2026-11-30T12:00:00Z")
        DeliveryCount.objects.create(
            tenant=shop, automation=automation, day="2026-11-30", refused=3, empty_polls=4
        )
        tasks.retention()
        count = DeliveryCount.objects.get()
        assert (count.refused, count.empty_polls) == (3, 6)


class TestTheRest:
    def test_deliveries_go_after_seven_days(self, shop, publish, enqueue):
        automation = publish(shop, [], {"kind": "webhook", "params": []})
        for key in ("old", "new"):
            enqueue(automation, trigger="webhook", delivery=DeliveryIdentity(key, b"x"))
        Delivery.objects.filter(key="old").update(at=Now() - 7 * DAY - timedelta(minutes=1))
        Delivery.objects.filter(key="new").update(at=Now() - 7 * DAY + timedelta(minutes=1))
        tasks.retention()
        assert [row.key for row in Delivery.objects.all()] == ["new"]
        assert Run.objects.count() == 2

    def test_kept_answers_go_all_and_audit_stays(self, shop):
        for number in range(45):
            IdempotentAnswer.objects.create(
                tenant=shop,
                identity=bytes([number]),
                body_digest=b"x",
                status=201,
                created_at=Now() - 2 * DAY,
            )
        IdempotentAnswer.objects.create(
            tenant=shop, identity=b"new", body_digest=b"x", status=201, created_at=Now()
        )
        audit.record(shop, SYSTEM, "test", "groups/x", None, None)
        AuditEntry.objects.update(at=Now() - 4000 * DAY)
        tasks.retention()
        assert bytes(IdempotentAnswer.objects.get().identity) == b"new"
        assert AuditEntry.objects.count() == 1

    def test_one_process_at_a_time(self, shop, publish, ended, other_connection):
        run = ended(publish(shop, []), 91)
        with other_connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('csbot retention', 0))")
            tasks.retention()
            assert has_bodies(run)
            cursor.execute("ROLLBACK")
        tasks.retention()
        assert not has_bodies(run)

    def test_a_tick_ends_when_its_time_is_over(self, shop, publish, ended, monkeypatch):
        run = ended(publish(shop, []), 91)
        monkeypatch.setattr(retention, "BUDGET_SECONDS", 0.0)
        tasks.retention()
        assert has_bodies(run)


@pytest.fixture
def other_connection():
    """A second session of the same database, as another process has it."""
    other = connection.copy()
    yield other
    other.close()
