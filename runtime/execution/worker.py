"""One claimed run from claim to outcome: execute, then settle (`runtime.execution.settle`).

The only broad `except` of a run's life is here: an unexpected exception is a fault in code, which does not pass in a
minute, so the run fails with code `bug` and the trace for staff.
"""

from __future__ import annotations

import logging
import random
import time
import traceback

from django.db import InterfaceError, OperationalError, connection

from automations import services as automations
from automations.models import Automation
from csbot.lib.errors import RetryableError, RunError, Snooze, TerminalError
from runtime import outcomes
from runtime.execution import settle
from runtime.execution.context import current_run
from runtime.execution.executor import Cancelled, Executor, HandedBack
from runtime.models import Run
from runtime.queue import states
from runtime.queue.heartbeat import Heartbeat
from runtime.queue.states import Claimed, Fenced

logger = logging.getLogger(__name__)


def run_one(claimed: Claimed) -> None:
    """Execute a claimed run and write its outcome. Never raises for what happens inside the run.

    Raises OperationalError and InterfaceError when the database is gone for longer than the lease.
    """
    try:
        with Heartbeat(claimed) as heartbeat:
            _run(claimed, heartbeat)
    except Fenced:
        logger.warning("Run %s is not ours any more (claim %s); forgotten.", claimed.run_id, claimed.claim_no)
    except (OperationalError, InterfaceError) as error:
        _give_back(claimed, error)


def _run(claimed: Claimed, heartbeat: Heartbeat) -> None:
    run = Run.objects.select_related(*outcomes.TOLD).get(pk=claimed.run_id)
    executor: Executor | None = None
    begun = time.monotonic()
    token = current_run.set(run)
    try:
        try:
            _refuse_paused(run)
            tree = automations.tree_of(run.version)
            executor = Executor(
                run, claimed, tree, heartbeat, lambda error: settle.next_attempt(run, error) is None
            )
            executor.execute()
        except Cancelled:
            settle.cancel(run, claimed, executor)
            came = "cancelled"
        except HandedBack:
            assert executor is not None
            settle.hand_back(run, claimed, executor)
            came = "handed back"
        except Snooze as snooze:
            assert executor is not None
            settle.wait(run, claimed, executor, snooze)
            came = f"waits for {snooze.reason}"
        except RunError as error:
            settle.error(run, claimed, executor, error)
            came = error.code
        else:
            settle.complete(run, claimed, executor)
            came = "done"
    except Fenced:
        raise
    except Exception as error:
        unexpected = _unexpected(run, error)
        if executor is not None:
            executor.leave_row(unexpected.detail)
        settle.error(run, claimed, executor, unexpected)
        came = unexpected.code
    finally:
        current_run.reset(token)
    _tell(run, executor, came, begun)


def _tell(run: Run, executor: Executor | None, came: str, begun: float) -> None:
    """Write one line for operators: which run of whom, how far it came and how long this claim took."""
    logger.info(
        'run=%s tenant=%s automation=%s outcome="%s" steps=%d ms=%d',
        run.public_id,
        run.tenant.slug,
        run.automation.public_id,
        came,
        len(executor.journal) if executor else 0,
        round((time.monotonic() - begun) * 1000),
    )


def _refuse_paused(run: Run) -> None:
    if run.automation.state == Automation.State.PAUSED:
        raise TerminalError(
            "automation.paused", "The automation is paused; the run can be started again after it is resumed."
        )


def _unexpected(run: Run, error: Exception) -> RunError:
    """Return what an unexpected exception means for the run; raise it again when the database is gone."""
    trace = {"traceback": traceback.format_exc()}
    if isinstance(error, OperationalError | InterfaceError):
        if not connection.is_usable():
            raise error
        # A deadlock or a timeout of a statement or a lock: the server is there and may do it the next time.
        logger.warning("Run %s met %s", run.public_id, error)
        return RetryableError("storage", "The database did not finish a statement in time.", trace=trace)
    logger.exception("Run %s met an unexpected fault.", run.public_id)
    return TerminalError("bug", f"{type(error).__name__}: an unexpected fault in csbot.", trace=trace)


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
