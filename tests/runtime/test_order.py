"""Order keys: one at a time, in the order of arrival, behind what failed or past it (SPEC section 5.8)."""

import pytest

from incidents import services as incidents
from runtime import services
from runtime.models import Run
from runtime.queue import states
from runtime.queue.claim import Claimer
from runtime.triggers import ordering
from tickets.events import SYSTEM

pytestmark = pytest.mark.django_db(transaction=True)

FAIL_IF_BAD = [
    {
        "id": "st_1", "type": "condition", "match": "all",
        "rules": [{"fieldId": "_body.bad", "operator": "isTrue"}],
        "then": [{"id": "st_2", "type": "action", "op": "flow/fail", "inputs": {"message": "Bad."}}], "else": [],
    }
]  # fmt: skip


@pytest.fixture
def start(shop, publish):
    """`start(order, bad=…)` starts the run of an event in the line of its order; returns its row."""
    automations = {}

    def go(order: str, policy: str = "hold", **body) -> Run:
        trigger = {"kind": "manual", "params": [], "orderKey": "order", "onEarlierFailed": policy}
        if policy not in automations:
            automations[policy] = publish(shop, FAIL_IF_BAD, trigger, name=policy)
        run = services.start(automations[policy], SYSTEM, {"order": order, **body})
        return Run.objects.get(pk=run.run_id)

    return go


def status(run: Run) -> str:
    run.refresh_from_db()
    return f"{services.status_of(run)} {run.wait_reason}".strip()


def test_one_at_a_time_in_the_order_of_arrival(start):
    first, second, other = start("a"), start("a"), start("b")
    assert [status(run) for run in (first, second, other)] == ["queued", "queued order", "queued"]
    claimed = Claimer("test").next_run()
    assert claimed.run_id == first.pk
    assert status(second) == "queued order"
    states.complete(claimed, 0)
    states.call_line(first.order_key)
    assert status(second) == "queued"


@pytest.mark.parametrize(("policy", "expected"), [("hold", "queued order"), ("proceed", "done")])
def test_behind_a_failed_one(start, execute, policy, expected):
    failed, later = start("a", policy, bad=True), start("a", policy)
    execute(failed)
    assert status(failed) == "failed"
    assert status(later) == expected


def test_a_hold_ends_when_the_earlier_is_cancelled(start, execute):
    first, later = start("a"), start("a")
    services.cancel(first, SYSTEM)
    assert status(later) == "queued"
    execute(later)
    assert status(later) == "done"


def test_a_hold_ends_when_a_rerun_is_done_and_it_takes_the_place(start, execute):
    failed, later = start("a", bad=True), start("a")
    execute(failed)
    data = failed.data
    data.input = {**data.input, "body": {"order": "a", "bad": False}}
    data.save()
    again = Run.objects.get(pk=services.rerun(failed, SYSTEM).run_id)
    assert (again.order_key, again.order_place) == (failed.order_key, failed.order_place)
    assert status(later) == "queued order"
    execute(again)
    assert (status(again), status(later)) == ("done", "done")


def test_a_hold_ends_when_a_person_resolves_the_incident(start, execute):
    failed, later = start("a", bad=True), start("a")
    failed = execute(failed)
    incidents.resolve(failed.incident)
    assert status(later) == "queued"


def test_a_retry_goes_before_those_who_came_later(start, execute):
    failed, later = start("a", bad=True), start("a")
    execute(failed)
    services.retry(failed, SYSTEM)
    assert (status(failed), status(later)) == ("queued", "queued order")


def test_a_line_whose_caller_died_is_called_by_the_pump(start):
    first, later = start("a"), start("a")
    claimed = Claimer("test").next_run()
    assert claimed.run_id == first.pk
    states.complete(claimed, 0)
    assert status(later) == "queued order"
    states.call_waiting()
    assert status(later) == "queued"


@pytest.mark.parametrize(
    ("order_key", "given", "expected"),
    [
        (None, {"body": {"a": 1}}, None),
        ("a.b", {"body": {"a": {"b": 7}}}, "9:7"),
        ("{{a.b}}-{{_body.c}}", {"body": {"a": {"b": 7}, "c": "x"}, "params": {"a": {"b": 8}}}, "9:8-x"),
        ("number", {"body": {}, "params": {"number": "12.50"}}, "9:12.50"),
        ("ticket.number", {"ticket": {"number": "TK-1"}, "event": "created", "changes": {}}, "9:TK-1"),
        ("missing", {"body": {"a": 1}}, None),
        ("a", {"body": ["x"]}, None),
    ],
)
def test_the_key_of_a_line(order_key, given, expected):
    trigger = {"kind": "manual"} | ({"orderKey": order_key} if order_key else {})
    line = ordering.line_of(trigger, 9, given)
    assert (line.key if line else None) == expected


def test_a_long_key_is_hashed():
    line = ordering.line_of({"orderKey": "a"}, 9, {"body": {"a": "x" * 5000}})
    assert len(line.key) < 100
