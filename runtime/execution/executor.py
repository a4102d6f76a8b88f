"""Executes one claimed run from where it stood to its end or to the step that cannot go on.

Per action: render and check the inputs; a built-in one commits together with its row; a foreign one commits its
intent, calls without any transaction, and commits the outcome. Every pass asks whether the run is still ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from automations.steps import ActionStep, Step, walk
from automations.tree import Tree
from connectors.catalog import Operation, Repeat, Shape
from csbot.lib import database_clock, metrics
from csbot.lib.errors import RetryableError, RunError, Snooze, TerminalError, UncertainError
from runtime import services
from runtime.execution import calls
from runtime.execution.context import RunCall, Variables
from runtime.execution.journal import Journal, Place, State
from runtime.execution.rendering import Rendering
from runtime.execution.walker import Stopped, Walker
from runtime.models import Run
from runtime.queue import draining, states
from runtime.queue.heartbeat import Heartbeat
from runtime.queue.states import Claimed
from tickets.models import Ticket


class Cancelled(Exception):
    """A person asked to cancel the run."""


class HandedBack(Exception):
    """This worker shuts down or the quantum is over; another claim goes on at this step boundary."""


# Reasons of waiting that may last a day altogether, and no longer (SPEC sections 5.3 and 10).
LIMIT_REASONS = frozenset({"rate", "concurrency", "breaker"})
LONGEST_WAIT = timedelta(hours=24)
# A run that executes for this long gives its slot back at the next step, so that long trees yield to others and a
# claim loop ends long before Celery's time limit.
QUANTUM_SECONDS = 60.0


class Executor(Walker):
    """Executes one claimed run. `is_final(error)` tells whether a failed attempt is the last one."""

    def __init__(
        self,
        run: Run,
        claimed: Claimed,
        tree: Tree,
        heartbeat: Heartbeat,
        is_final: Callable[[RunError], bool],
    ) -> None:
        variables = Variables(run, run.data.input)
        super().__init__(
            run,
            tree,
            Journal(claimed, run.attempts + 1),
            variables,
            Rendering(run, variables, tree.trigger.params),
        )
        self._claimed = claimed
        self._heartbeat = heartbeat
        self._asks_final = is_final
        self._claimed_at = time.monotonic()
        self.has_progressed = False
        self._is_sent = False
        self.journal.is_cancel_requested = run.cancel_requested
        self._sent: dict[str, Any] = run.data.input if run.trigger == Run.Trigger.SEND else {}

    def execute(self) -> None:
        """Walk the tree to its end.

        Raises RunError (a step failed), Snooze (the run has to wait), Fenced (it is not ours any more), Cancelled.
        """
        try:
            self._block(self._sent_step() if self._sent else self.tree.steps, "")
        except Stopped:
            return

    def _sent_step(self) -> list[Step]:
        """Return the one step of a run with trigger `send`; its inputs were rendered by its parent."""
        step = next(step for step in walk(self.tree.steps) if step.id == self._sent["step"])
        assert isinstance(step, ActionStep)
        return [replace(step, wait=True, on_error="fail", connection=self._sent["connection"])]

    def _between_steps(self) -> None:
        self._heartbeat.check()
        self._variables.forget_ticket()
        if self.journal.is_cancel_requested:
            raise Cancelled
        if draining.has_begun() or time.monotonic() - self._claimed_at > QUANTUM_SECONDS:
            raise HandedBack

    def _is_final(self, error: RunError) -> bool:
        return self._asks_final(error)

    def _inputs(self, step: ActionStep, operation: Operation) -> dict[str, Any]:
        sent: dict[str, Any] | None = self._sent.get("inputs")
        return super()._inputs(step, operation) if sent is None else sent

    def _given_key(self, step: ActionStep) -> str | None:
        if self._sent:
            key: str | None = self._sent["inputs"].get("idempotencyKey")
            return key
        return super()._given_key(step)

    def _attempt(self, step: ActionStep, place: Place) -> dict[str, Any]:
        begun = time.monotonic()
        outputs = super()._attempt(step, place)
        metrics.step_seconds.labels(step.op).observe(time.monotonic() - begun)
        return outputs

    def _built_in(
        self, step: ActionStep, place: Place, operation: Operation, inputs: Shape, rendered: dict[str, Any]
    ) -> dict[str, Any]:
        begun = time.monotonic()
        ticket = self.run.ticket
        try:
            with transaction.atomic():
                self.journal.is_cancel_requested |= states.hold(self._claimed)
                call = self._call(step, place, operation, None)
                outputs = operation.function(call, inputs).model_dump(by_alias=True)
                self.journal.write(
                    place, State.DONE, input=rendered, output=outputs, duration_ms=_milliseconds_since(begun)
                )
        except Exception:
            # What the step adopted was rolled back with it.
            self.run.ticket = ticket
            raise
        return outputs

    def _wait(
        self, step: ActionStep, place: Place, operation: Operation, inputs: Shape, rendered: dict[str, Any]
    ) -> dict[str, Any]:
        assert operation.waits is not None
        known = self.journal.find(place.path)
        call = self._call(step, place, operation, None)
        if known is None or known.state != State.WAITING:
            with transaction.atomic():
                states.hold(self._claimed)
                begun = operation.function(call, inputs).model_dump(by_alias=True)
                self.journal.write(place, State.WAITING, input=rendered, output=begun)
        else:
            begun = known.output
        outputs = operation.waits(call, inputs, begun)
        if outputs is None:
            until = begun.get("until")
            raise Snooze("wait", until=datetime.fromisoformat(until) if until else None)
        self.journal.write(place, State.DONE, input=rendered, output=outputs, duration_ms=0)
        return outputs

    def _send(self, step: ActionStep, place: Place, rendered: dict[str, Any]) -> dict[str, Any]:
        """Put a call whose answer nobody needs into the queue as a run of its own."""
        with transaction.atomic():
            self.journal.is_cancel_requested |= states.hold(self._claimed)
            sent = calls.send(self.run, step.id, rendered, self._rendering.connection_of(step))
            outputs = {"runId": str(sent.public_id)}
            self.journal.write(place, State.DONE, input=rendered, output=outputs, duration_ms=0)
        return outputs

    def _foreign(
        self, step: ActionStep, place: Place, operation: Operation, inputs: Shape, rendered: dict[str, Any]
    ) -> dict[str, Any]:
        call = self._call(step, place, operation, self._rendering.account(step, operation))
        self.place = replace(place, connection=call.connection)
        repeat = operation.repeat_of(inputs, call.has_given_key)
        known = self.journal.find(place.path)
        if known and known.state in (State.STARTED, State.UNKNOWN) and repeat is Repeat.ONCE:
            raise self._unknown(
                place,
                rendered,
                call,
                "The worker died while this call was under way; whether it arrived is unknown.",
            )
        self.journal.write(place, State.STARTED, key=call.idempotency_key, input=rendered)
        if self.journal.is_cancel_requested:
            self.journal.write(place, State.WAITING, key=call.idempotency_key, input=rendered)
            raise Cancelled
        self._heartbeat.check()
        self._heartbeat.expect_end_by(call.deadline)
        begun = time.monotonic()
        try:
            outputs = operation.function(call, inputs).model_dump(by_alias=True)
        except UncertainError as error:
            raise self._unknown(place, rendered, call, error.detail, error) from error
        except Snooze as snooze:
            # Nothing was sent, or the service said that it did not process it.
            self._expect_short_wait(snooze)
            self.journal.write(place, State.WAITING, key=call.idempotency_key, input=rendered)
            raise
        except TerminalError as error:
            # The service did it, but its answer is too large to keep: a later retry has to ask a person.
            self._is_sent = repeat is Repeat.ONCE and error.code == "limit.size"
            raise
        except RetryableError:
            raise
        except Exception:
            # A fault in code may come before or after sending.
            self._is_sent = repeat is Repeat.ONCE
            raise
        finally:
            self._heartbeat.expect_end_by(None)
        self._is_sent = repeat is Repeat.ONCE
        self.journal.write(
            place,
            State.DONE,
            key=call.idempotency_key,
            input=rendered,
            output=outputs,
            duration_ms=_milliseconds_since(begun),
        )
        self._is_sent = False
        self.has_progressed = True
        return outputs

    def leave_row(self, message: str) -> None:
        """Let the step that an unexpected fault ended have its row. Raises Fenced when the run is not ours any more."""
        known = self.journal.find(self.place.path) if self.place else None
        if self.place and (known is None or known.state in (State.STARTED, State.WAITING)):
            self.journal.write(self.place, self._failed_state(), message=message)

    def _failed_state(self) -> str:
        """A step that was sent and may not be sent again stays unknown, whatever else made it fail."""
        was_sent, self._is_sent = self._is_sent, False
        return State.UNKNOWN if was_sent else State.FAILED

    def _expect_short_wait(self, snooze: Snooze) -> None:
        """Raise TerminalError `limit.wait` when the run has waited for its limits for a day without getting on."""
        since = self.run.waiting_since
        if snooze.reason not in LIMIT_REASONS or since is None or self.has_progressed:
            return
        if database_clock.now() - since > LONGEST_WAIT:
            raise TerminalError(
                "limit.wait",
                f"The run waited for 24 hours ({snooze.reason}) and was stopped; nothing was sent meanwhile.",
            )

    def _unknown(
        self,
        place: Place,
        rendered: dict[str, Any],
        call: RunCall,
        message: str,
        cause: UncertainError | None = None,
    ) -> UncertainError:
        self.journal.write(place, State.UNKNOWN, key=call.idempotency_key, input=rendered, message=message)
        return UncertainError(
            cause.code if cause else "net.unknown", message, trace=cause.trace if cause else None
        )

    def _log(self, code: str, level: str = "info", **params: Any) -> None:
        services.note(self.run.tenant_id, self.run.pk, code, level=level, **params)

    def _adopt(self, ticket: Ticket) -> None:
        """Make `ticket` the run's own, inside the transaction of the step that found or made it."""
        if self.run.ticket_id != ticket.pk:
            Run.objects.filter(pk=self.run.pk).update(ticket=ticket)
        self.run.ticket = ticket
        self._variables.forget_ticket()


def _milliseconds_since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
