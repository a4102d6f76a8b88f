"""F24: three actors draw arrows in any order against real SQL; whoever holds a stale claim changes nothing."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from csbot.lib import database_clock
from runtime.models import Run
from runtime.queue import rescue, states
from runtime.queue.claim import Claimer

pytestmark = pytest.mark.django_db(transaction=True)

ACTORS = st.integers(0, 2)
ERROR = {"code": "http.503", "message": "No.", "stepId": "st_1", "retryable": True}
HOLDERS_ARROWS = {
    "complete": lambda claimed: states.complete(claimed, 1),
    "fail": lambda claimed: states.fail(claimed, ERROR, 1, attempts=1),
    "review": lambda claimed: states.review(claimed, ERROR, 1),
    "retry": lambda claimed: states.retry_at(claimed, database_clock.in_seconds(3600), ERROR, 1, attempts=1),
    "snooze": lambda claimed: states.snooze(claimed, "rate", database_clock.in_seconds(3600), 1),
    "block": lambda claimed: states.block(claimed, 1),
    "release": states.release,
    "cancel": lambda claimed: states.cancel_claimed(claimed, 1),
}
Status = Run.Status


class Machine(RuleBasedStateMachine):
    """`holder` is the actor who holds the run by the model; `claims` is what each actor believes to hold."""

    run_id = 0

    def __init__(self) -> None:
        super().__init__()
        Run.objects.filter(pk=self.run_id).update(
            status=0, due_at=database_clock.now(), finished_at=None, lease_until=None, claim_no=0, rescues=0,
            suspect_seq=None, suspect_at=None, attempts=0, worker="", cancel_requested=False,
        )  # fmt: skip
        self.claims: dict[int, states.Claimed] = {}
        self.holder: int | None = None
        self.claim_no = 0

    @property
    def run(self) -> Run:
        return Run.objects.get(pk=self.run_id)

    @rule(actor=ACTORS)
    def claim(self, actor: int) -> None:
        was_ready = self.run.status == Status.READY
        claimed = Claimer(f"actor {actor}").next_run()
        assert (claimed is not None) == was_ready
        if claimed:
            assert claimed.claim_no > self.claim_no
            self.claims[actor], self.holder, self.claim_no = claimed, actor, claimed.claim_no

    @precondition(lambda self: self.claims)
    @rule(actor=ACTORS, arrow=st.sampled_from(sorted(HOLDERS_ARROWS)))
    def draw(self, actor: int, arrow: str) -> None:
        claimed = self.claims.get(actor)
        if claimed is None:
            return
        is_holder = self.holder == actor and claimed.claim_no == self.claim_no
        before = self.run
        assert HOLDERS_ARROWS[arrow](claimed) is is_holder
        if is_holder:
            self.holder = None
        else:
            assert (self.run.status, self.run.claim_no) == (before.status, before.claim_no)

    @rule()
    def two_looks_find_it_abandoned(self) -> None:
        was_running = self.run.status == Status.RUNNING
        Run.objects.filter(pk=self.run_id, status=Status.RUNNING).update(
            lease_until=database_clock.in_seconds(-1)
        )
        rescue.sweep()
        Run.objects.filter(pk=self.run_id).update(suspect_at=database_clock.in_seconds(-3600))
        assert rescue.sweep() == (1 if was_running else 0)
        if was_running:
            self.holder, self.claim_no = None, self.run.claim_no

    @rule()
    def time_passes(self) -> None:
        Run.objects.filter(pk=self.run_id, status=Status.SCHEDULED).update(
            due_at=database_clock.in_seconds(-1)
        )
        states.stage_due()

    @rule(deed=st.sampled_from(["cancel", "retry", "again", "giveUp", "unblock"]))
    def a_person_acts(self, deed: str) -> None:
        run = self.run
        allowed = {
            "cancel": (Status.READY, Status.SCHEDULED, Status.BLOCKED, Status.UNCERTAIN),
            "retry": (Status.FAILED,),
            "again": (Status.UNCERTAIN,),
            "giveUp": (Status.UNCERTAIN,),
            "unblock": (Status.BLOCKED,),
        }
        deeds = {
            "cancel": states.cancel,
            "retry": states.requeue_failed,
            "again": states.requeue_reviewed,
            "giveUp": states.give_up,
            "unblock": lambda run: states.unblock_caller(run.pk),
        }
        assert deeds[deed](run) is (run.status in allowed[deed])

    @invariant()
    def one_holder_at_most(self) -> None:
        run = self.run
        assert (run.status == Status.RUNNING) == (self.holder is not None)
        assert run.claim_no == self.claim_no
        assert (run.worker != "") == (run.status == Status.RUNNING)
        assert run.rescues <= rescue.RESCUES_BEFORE_POISON + 1


def test_arrows_in_any_order(shop, publish, enqueue):
    run = enqueue(publish(shop, []))
    run_state_machine_as_test(
        type("Machine", (Machine,), {"run_id": run.pk}),
        settings=settings(
            max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
