"""One claimed run from claim to outcome: execute, then settle with one guarded UPDATE.

Settling and founding the incident commit together. The only broad `except` of csbot is here: an unexpected exception
is a fault in code, which does not pass in a minute, so the run fails with code `bug` and the trace for staff.
"""

from __future__ import annotations

import logging
import random
import time
import traceback
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction

from automations import services as automations
from automations.models import Automation
from csbot.lib import metrics
from csbot.lib.errors import RetryableError, RunError, Snooze, TerminalError, UncertainError
from runtime import outcomes
from runtime.execution import calls, retry
from runtime.execution.context import current_run
from runtime.execution.executor import Cancelled, Draining, Executor
from runtime.models import Run
from runtime.queue import states
from runtime.queue.heartbeat import Heartbeat
from runtime.queue.states import Claimed, Fenced

logger = logging.getLogger(__name__)

# SPEC section 5.3 and 10: how long a run may wait for a limit or a closed connection altogether.
LONGEST_WAIT = timedelta(hours=24)
LIMIT_REASONS = {"rate", "concurrency", "breaker"}
# A snooze is spread a little, so that what waits for one thing does not come back all at once.
SNOOZE_JITTER_SECONDS = 1.0


def run_one(claimed: Claimed) -> None:
    """Execute a claimed run and write its outcome. Never raises for what happens inside the run.

    Raises OperationalError and InterfaceError when the database is gone for longer than the lease.
    """
    try:
        with Heartbeat(claimed) as heartbeat:
            _execute(claimed, heartbeat)
    except Fenced:
        logger.warning("Run %s is not ours any more (claim %s); forgotten.", claimed.run_id, claimed.claim_no)
    except (OperationalError, InterfaceError) as error:
        _give_back(claimed, error)


def _execute(claimed: Claimed, heartbeat: Heartbeat) -> None:
    run = Run.objects.select_related(*outcomes.TOLD).get(pk=claimed.run_id)
    executor: Executor | None = None
    token = current_run.set(run)
    try:
        _refuse_paused(run)
        tree = automations.tree_of(run.version)
        executor = Executor(run, claimed, tree, heartbeat, lambda error: _next_attempt(run, error) is None)
        executor.execute()
    except (Fenced, OperationalError, InterfaceError):
        raise
    except Draining:
        _hit(states.release(claimed))
    except Cancelled:
        _cancel(run, claimed, executor)
    except Snooze as snooze:
        _snooze(run, claimed, executor, snooze)
    except RunError as error:
        _settle_error(run, claimed, executor, error)
    except Exception as error:
        trace = {"traceback": traceback.format_exc()}
        bug = TerminalError("bug", f"{type(error).__name__}: an unexpected fault in csbot.", trace=trace)
        logger.exception("Run %s met an unexpected fault.", run.public_id)
        _settle_error(run, claimed, executor, bug)
    else:
        _complete(run, claimed, executor)
    finally:
        current_run.reset(token)


def _refuse_paused(run: Run) -> None:
    if run.automation.state == Automation.State.PAUSED:
        raise TerminalError(
            "automation.paused", "The automation is paused; the run can be started again after it is resumed."
        )


def _cancel(run: Run, claimed: Claimed, executor: Executor | None) -> None:
    with transaction.atomic():
        _hit(states.cancel_claimed(claimed, _actions(executor)))
        calls.cancel_callees(run)
        outcomes.note_end(run)
    metrics.runs_ended.labels("cancelled").inc()


def _complete(run: Run, claimed: Claimed, executor: Executor) -> None:
    with transaction.atomic():
        _hit(states.complete(claimed, _actions(executor)))
        outcomes.note_passed(run)
        outcomes.note_end(run)
    metrics.runs_ended.labels("done").inc()


def _settle_error(run: Run, claimed: Claimed, executor: Executor | None, error: RunError) -> None:
    place = executor.place if executor else None
    if isinstance(error, UncertainError):
        record = outcomes.record_of(error, place, is_retried=False)
        with transaction.atomic():
            _hit(states.review(claimed, record, _actions(executor)))
            states.point_to_incident(run.pk, outcomes.found_incident(run, error, place))
            states.call_line(run.order_key)
        metrics.runs_ended.labels("review").inc()
        return
    due_at = _next_attempt(run, error)
    record = outcomes.record_of(error, place, is_retried=due_at is not None)
    attempts = run.attempts + (1 if isinstance(error, RetryableError) else 0)
    if due_at is not None:
        _hit(states.retry_at(claimed, due_at, record, _actions(executor), attempts=attempts))
        return
    with transaction.atomic():
        _hit(states.fail(claimed, record, _actions(executor), attempts=attempts))
        states.point_to_incident(run.pk, outcomes.found_incident(run, error, place))
        outcomes.note_end(run)
    metrics.runs_ended.labels("failed").inc()


def _next_attempt(run: Run, error: RunError) -> Any:
    if not isinstance(error, RetryableError):
        return None
    return retry.decide(error, run.attempts + 1, states.database_now(), settings.CSBOT_BACKOFF)


def _snooze(run: Run, claimed: Claimed, executor: Executor | None, snooze: Snooze) -> None:
    now = states.database_now()
    is_limit = snooze.reason in LIMIT_REASONS
    if is_limit and run.waiting_since and now - run.waiting_since > LONGEST_WAIT:
        waited = TerminalError(
            "limit.wait",
            f"The run waited for 24 hours ({snooze.reason}) and was stopped; nothing was sent meanwhile.",
        )
        _settle_error(run, claimed, executor, waited)
        return
    if snooze.until is None and snooze.seconds is None:
        _hit(states.block(claimed, _actions(executor)))
        states.unblock_caller(run.pk)
        return
    until = snooze.until or now + timedelta(seconds=snooze.seconds or 1.0)
    if is_limit:
        until += timedelta(seconds=random.random() * SNOOZE_JITTER_SECONDS)
    _hit(states.snooze(claimed, snooze.reason, until, _actions(executor)))


def _give_back(claimed: Claimed, error: Exception) -> None:
    """The database went away in the middle: let the run go as soon as it is back, with the attempt given back."""
    logger.warning("The database went away during run %s: %s", claimed.run_id, error)
    give_up_at = time.monotonic() + states.lease_seconds()
    pause = 0.1
    while True:
        connection.close()
        try:
            states.release(claimed)
            return
        except (OperationalError, InterfaceError):
            if time.monotonic() > give_up_at:
                raise
            time.sleep(pause * (1 + random.random() / 4))
            pause = min(pause * 2, 5.0)


def _actions(executor: Executor | None) -> int:
    return len(executor.journal) if executor else 0


def _hit(was_ours: bool) -> None:
    if not was_ours:
        raise Fenced
