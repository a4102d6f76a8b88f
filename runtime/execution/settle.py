"""What the outcome of an execution makes of the run: each is one short transaction, incident and all.

Asking to cancel and settling meet in the row's lock: a run that would go on later is cancelled instead when somebody
asked for it meanwhile.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from csbot.lib import database_clock, metrics
from csbot.lib.errors import RetryableError, RunError, Snooze, UncertainError
from runtime import outcomes
from runtime.execution import calls, retry
from runtime.execution.executor import LIMIT_REASONS, Executor
from runtime.models import Run
from runtime.queue import states
from runtime.queue.states import Claimed, Fenced

# A wait for a limit is spread a little, so that what waits for one thing does not come back all at once.
JITTER_SECONDS = 1.0


def complete(run: Run, claimed: Claimed, executor: Executor) -> None:
    """The tree came to its end: done. Raises Fenced, as all of these do, when the run is not ours any more."""
    with transaction.atomic():
        _expect(states.complete(claimed, _actions(run, executor)))
        outcomes.note_passed(run)
        outcomes.note_end(run)
    metrics.runs_ended.labels("done").inc()


def cancel(run: Run, claimed: Claimed, executor: Executor | None) -> None:
    """Somebody asked to cancel: cancelled, with what it called and waits for."""
    with transaction.atomic():
        _cancel(run, claimed, executor)
    metrics.runs_ended.labels("cancelled").inc()


def error(run: Run, claimed: Claimed, executor: Executor | None, failure: RunError) -> None:
    """A step failed: review, the next attempt, or failed, as `retry.decide` says."""
    if isinstance(failure, UncertainError):
        _review(run, claimed, executor, failure)
        return
    due_at = next_attempt(run, failure)
    place = executor.place if executor else None
    record = outcomes.record_of(failure, place, is_retried=due_at is not None)
    attempts = run.attempts + 1
    actions = _actions(run, executor)
    with transaction.atomic():
        if due_at is not None:
            if states.hold(claimed):
                _cancel(run, claimed, executor)
            else:
                states.retry_at(claimed, due_at, record, actions, attempts=attempts)
            return
        _expect(states.fail(claimed, record, actions, attempts=attempts))
        states.point_to_incident(run.pk, outcomes.found_incident(run, failure, place))
        outcomes.note_end(run)
    metrics.runs_ended.labels("failed").inc()


def wait(run: Run, claimed: Claimed, executor: Executor, snooze: Snooze) -> None:
    """The run has to wait: until an instant, or for the end of a run that it called."""
    is_call = snooze.until is None and snooze.seconds is None
    is_limit = snooze.reason in LIMIT_REASONS
    actions = _actions(run, executor)
    with transaction.atomic():
        if states.hold(claimed):
            _cancel(run, claimed, executor)
        elif is_call:
            states.block(claimed, actions)
            transaction.on_commit(lambda: states.unblock_caller(run.pk))
        else:
            until = snooze.until or database_clock.in_seconds(snooze.seconds or 1.0)
            if is_limit:
                until += timedelta(seconds=random.random() * JITTER_SECONDS)
            states.snooze(
                claimed, snooze.reason, until, actions, is_limit=is_limit, begins=executor.has_progressed
            )


def hand_back(run: Run, claimed: Claimed, executor: Executor) -> None:
    """This worker shuts down or the quantum is over: ready again, with the attempt given back."""
    with transaction.atomic():
        if states.hold(claimed):
            _cancel(run, claimed, executor)
        else:
            states.release(claimed)


def next_attempt(run: Run, failure: RunError) -> datetime | None:
    """Return when the run is tried again after this failure, None when it is not."""
    if not isinstance(failure, RetryableError):
        return None
    return retry.decide(failure, run.attempts + 1, database_clock.now(), settings.CSBOT_BACKOFF)


def _review(run: Run, claimed: Claimed, executor: Executor | None, failure: UncertainError) -> None:
    place = executor.place if executor else None
    record = outcomes.record_of(failure, place, is_retried=False)
    with transaction.atomic():
        _expect(states.review(claimed, record, _actions(run, executor)))
        states.point_to_incident(run.pk, outcomes.found_incident(run, failure, place))
        states.call_line(run.order_key)
    metrics.runs_ended.labels("review").inc()


def _cancel(run: Run, claimed: Claimed, executor: Executor | None) -> None:
    _expect(states.cancel_claimed(claimed, _actions(run, executor)))
    calls.cancel_callees(run)
    outcomes.note_end(run)


def _actions(run: Run, executor: Executor | None) -> int:
    return len(executor.journal) if executor else run.actions


def _expect(was_ours: bool) -> None:
    if not was_ours:
        raise Fenced
