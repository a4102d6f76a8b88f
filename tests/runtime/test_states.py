"""Every arrow of a run's state hits once, and only for the one who holds the claim."""

import pytest

from csbot.lib import database_clock
from incidents.models import Incident
from runtime.models import Run, RunData
from runtime.queue import rescue, states
from runtime.queue.claim import Claimer
from runtime.queue.states import Claimed, Fenced

pytestmark = pytest.mark.django_db(transaction=True)

ERROR = {"code": "http.503", "message": "It did not work.", "stepId": "st_1", "retryable": True}
ARROWS = {
    "complete": lambda claimed: states.complete(claimed, 1),
    "fail": lambda claimed: states.fail(claimed, ERROR, 1, attempts=1),
    "review": lambda claimed: states.review(claimed, ERROR, 1),
    "retry_at": lambda claimed: states.retry_at(claimed, database_clock.in_seconds(30), ERROR, 1, attempts=1),
    "snooze": lambda claimed: states.snooze(claimed, "rate", database_clock.in_seconds(30), 1),
    "release": states.release,
    "cancel_claimed": lambda claimed: states.cancel_claimed(claimed, 1),
}


@pytest.fixture
def claimed(shop, publish, enqueue) -> Claimed:
    enqueue(publish(shop, []))
    found = Claimer("test").next_run()
    assert found is not None
    return found


@pytest.mark.parametrize("arrow", ARROWS)
def test_an_arrow_hits_once(claimed, arrow):
    assert ARROWS[arrow](claimed) is True
    assert ARROWS[arrow](claimed) is False


@pytest.mark.parametrize("arrow", ARROWS)
def test_a_late_worker_hits_nothing(claimed, arrow):
    assert states.release(claimed)
    again = Claimer("other").next_run()
    assert again is not None
    assert again.claim_no > claimed.claim_no
    assert ARROWS[arrow](claimed) is False
    with pytest.raises(Fenced):
        states.hold(claimed)
    assert ARROWS[arrow](again) is True


@pytest.mark.parametrize(
    ("arrow", "status", "attempts", "error"),
    [
        ("complete", Run.Status.DONE, 0, None),
        ("fail", Run.Status.FAILED, 1, ERROR),
        ("review", Run.Status.UNCERTAIN, 0, ERROR),
        ("retry_at", Run.Status.SCHEDULED, 1, ERROR),
        ("snooze", Run.Status.SCHEDULED, 0, None),
        ("release", Run.Status.READY, 0, None),
    ],
)
def test_an_arrow_leads_where_it_says(claimed, arrow, status, attempts, error):
    ARROWS[arrow](claimed)
    run = Run.objects.get(pk=claimed.run_id)
    assert (run.status, run.attempts, run.error) == (status, attempts, error)
    assert run.worker == ""
    assert run.lease_until is None


def test_scheduled_runs_become_ready_when_due(claimed):
    states.snooze(claimed, "wait", database_clock.in_seconds(3600), 1)
    assert states.stage_due() == 0
    Run.objects.filter(pk=claimed.run_id).update(due_at=database_clock.in_seconds(-1))
    assert states.stage_due() == 1
    assert Run.objects.get(pk=claimed.run_id).status == Run.Status.READY


def test_a_living_dedup_key_admits_no_second_run(shop, publish, enqueue):
    automation = publish(shop, [])
    first = enqueue(automation, dedup_key="poll:1")
    values = {
        "tenant_id": shop.pk,
        "automation_id": automation.pk,
        "version_id": automation.published_id,
        "trigger": "poll",
        "input_json": "{}",
        "dedup_key": "poll:1",
    }
    assert states.enqueue(**values) is None
    assert RunData.objects.count() == 1
    states.cancel(first)
    assert states.enqueue(**values) is not None


def _expire(run_id: int) -> None:
    Run.objects.filter(pk=run_id).update(lease_until=database_clock.in_seconds(-1))


def _first_look_was_long_ago(run_id: int) -> None:
    Run.objects.filter(pk=run_id).update(suspect_at=database_clock.in_seconds(-3600))


def test_two_looks_take_back_what_nobody_touches(claimed):
    _expire(claimed.run_id)
    assert rescue.sweep() == 0
    _first_look_was_long_ago(claimed.run_id)
    assert rescue.sweep() == 1
    run = Run.objects.get(pk=claimed.run_id)
    assert (run.status, run.rescues, run.attempts) == (Run.Status.READY, 1, 0)
    assert states.complete(claimed, 1) is False


def test_a_heartbeat_between_the_looks_saves_the_run(claimed):
    _expire(claimed.run_id)
    rescue.sweep()
    _first_look_was_long_ago(claimed.run_id)
    Run.objects.filter(pk=claimed.run_id).update(hb_seq=99)
    assert rescue.sweep() == 0
    assert Run.objects.get(pk=claimed.run_id).status == Run.Status.RUNNING


def test_a_run_that_lost_three_workers_is_poison(shop, publish, enqueue):
    run = enqueue(publish(shop, []))
    for _ in range(3):
        claimed = Claimer("test").next_run()
        assert claimed is not None
        _expire(run.pk)
        rescue.sweep()
        _first_look_was_long_ago(run.pk)
        assert rescue.sweep() == 1
    run.refresh_from_db()
    assert run.status == Run.Status.FAILED
    assert run.error["code"] == "poison"
    assert Incident.objects.of(shop).get().runs.get() == run
    assert Claimer("test").next_run() is None
