"""F2: a worker child dies at each exact point of a step, for each class of operation; another one goes on."""

import os
import signal

import pytest
from django.db import connection

from runtime.execution import journal, worker
from runtime.models import Run, RunStep
from runtime.queue import identity, rescue, states
from runtime.queue.claim import Claimer
from tests.factories import ConnectionFactory
from tests.stub_service import Reply
from tickets.models import TicketEvent

pytestmark = pytest.mark.django_db(transaction=True)

# Where the child dies: what it had done by then.
POINTS = ("after_intent", "after_call", "after_done", "before_finish")


def http(method: str, **inputs) -> dict:
    return {
        "id": "st_1", "type": "action", "op": "http/request", "connection": "shop",
        "inputs": {"method": method, "path": "/orders", **inputs},
    }  # fmt: skip


STEPS = {
    "safe": http("GET"),
    "keyed": http("POST", idempotencyKey="order-1"),
    "once": http("POST"),
    "builtin": {
        "id": "st_1", "type": "action", "op": "ticket/upsert", "inputs": {"externalId": "1", "title": "Order"},
    },
}  # fmt: skip
# (class, point) -> (outcome, calls that the service saw)
EXPECTED = {
    ("safe", "after_intent"): ("done", 1),
    ("safe", "after_call"): ("done", 2),
    ("safe", "after_done"): ("done", 1),
    ("safe", "before_finish"): ("done", 1),
    ("keyed", "after_intent"): ("done", 1),
    ("keyed", "after_call"): ("done", 2),
    ("keyed", "after_done"): ("done", 1),
    ("keyed", "before_finish"): ("done", 1),
    ("once", "after_intent"): ("review", 0),
    ("once", "after_call"): ("review", 1),
    ("once", "after_done"): ("done", 1),
    ("once", "before_finish"): ("done", 1),
    ("builtin", "after_call"): ("done", 0),
    ("builtin", "after_done"): ("done", 0),
    ("builtin", "before_finish"): ("done", 0),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    """Let this process die at the point: a row of state `started` or `done` is about to be, or was, committed."""
    write, complete = journal.Journal.write, states.complete

    def deadly_write(self, place, state, **values):
        if point == "after_call" and state == RunStep.State.DONE:
            die()
        write(self, place, state, **values)
        if point == "after_intent" and state == RunStep.State.STARTED:
            die()
        if point == "after_done" and state == RunStep.State.DONE and not connection.in_atomic_block:
            die()

    def deadly_complete(*args):
        # The step's own transaction is committed by now, also of a built-in one.
        if point in ("before_finish", "after_done"):
            die()
        return complete(*args)

    journal.Journal.write = deadly_write
    states.complete = deadly_complete


def execute_in_a_child_that_dies(point: str) -> None:
    # The child must not speak on its parent's connection.
    connection.close()
    pid = os.fork()
    if pid == 0:
        try:
            arm(point)
            claimed = Claimer(identity.own()).next_run()
            worker.run_one(claimed)
        finally:
            os._exit(1)
    _pid, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), f"the child ended by itself: {status}"


@pytest.mark.parametrize(("repeat", "point"), EXPECTED)
def test_what_happens_after_a_crash(shop, publish, enqueue, execute, service, repeat, point):
    ConnectionFactory(tenant=shop, name="shop", config={"baseUrl": service.url})
    service.script("/orders", Reply(json={"ok": True}))
    run = enqueue(publish(shop, [STEPS[repeat]]), {})
    execute_in_a_child_that_dies(point)

    assert rescue.rescue_dead_of_this_machine() == 1
    run = execute(run)

    outcome, calls = EXPECTED[repeat, point]
    assert run.status == {"done": Run.Status.DONE, "review": Run.Status.UNCERTAIN}[outcome]
    received = service.calls("/orders")
    assert len(received) == calls
    assert len({call.headers["idempotency-key"] for call in received}) <= 1
    assert (run.attempts, run.rescues) == (0, 1)
    if repeat == "builtin":
        assert list(TicketEvent.objects.of(shop).order_by("id").values_list("kind", flat=True)) == [
            "created",
            "event",
        ]


def test_a_run_that_kills_its_workers_is_poison(shop, publish, enqueue, execute, service):
    """F20: the third loss is the last; others are not affected."""
    ConnectionFactory(tenant=shop, name="shop", config={"baseUrl": service.url})
    automation = publish(shop, [STEPS["safe"]])
    run = enqueue(automation, {})
    for _ in range(3):
        execute_in_a_child_that_dies("after_intent")
        assert rescue.rescue_dead_of_this_machine() == 1
    other = execute(enqueue(automation, {}))
    run.refresh_from_db()
    assert (run.status, run.error["code"], run.incident.count) == (Run.Status.FAILED, "poison", 1)
    assert other.status == Run.Status.DONE
