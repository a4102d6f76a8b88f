"""Walks the tree of one claimed run from where it stood to its end or to the step that cannot go on.

Per action: render and check the inputs; a built-in one commits together with its row; a foreign one commits its
intent, calls without any transaction, and commits the outcome. Every pass asks whether the run is still ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction
from pydantic import ValidationError

from automations import conditions, values
from automations.steps import ActionStep, ConditionStep, LoopStep, Step, walk
from automations.tree import Tree
from connectors import catalog
from connectors.catalog import Operation, Repeat, Shape
from connectors.models import Connection
from csbot.lib import json, metrics
from csbot.lib.errors import RetryableError, RunError, Snooze, TerminalError, UncertainError
from runtime import services
from runtime.execution import calls, rendering
from runtime.execution.context import RunCall, Variables
from runtime.execution.journal import Journal, Place, State
from runtime.execution.rendering import Rendering
from runtime.models import Run
from runtime.queue import draining, states
from runtime.queue.heartbeat import Heartbeat
from runtime.queue.states import Claimed
from tickets.events import Actor
from tickets.models import Ticket

# SPEC section 3, fixed: executed steps of one run.
MAX_ACTIONS = 1000
# SPEC section 5.4: one rendered input.
MAX_INPUT_BYTES = 256 * 1024


class Cancelled(Exception):
    """A person asked to cancel the run."""


class Draining(Exception):
    """This worker shuts down; the run is handed back at a step boundary."""


class Stopped(Exception):
    """`flow/stop` ended the run."""


class Executor:
    """Executes one claimed run. `is_final(error)` tells whether a failed attempt is the last one."""

    def __init__(
        self,
        run: Run,
        claimed: Claimed,
        tree: Tree,
        heartbeat: Heartbeat,
        is_final: Callable[[RunError], bool],
    ) -> None:
        self.run = run
        self.tree = tree
        self.journal = Journal(claimed, run.attempts + 1)
        self.place: Place | None = None
        self._claimed = claimed
        self._heartbeat = heartbeat
        self._is_final = is_final
        self._variables = Variables(run, run.data.input)
        self._rendering = Rendering(run, self._variables, tree.trigger.params)
        self._sent: dict[str, Any] = run.data.input if run.trigger == Run.Trigger.SEND else {}
        self._actor = Actor("automation", run.automation.name, run.public_id)

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

    def _block(self, steps: Sequence[Step], prefix: str) -> None:
        for step in steps:
            self._between_steps()
            if isinstance(step, ActionStep):
                self._action(step, prefix)
            elif isinstance(step, ConditionStep):
                self._condition(step, prefix)
            else:
                self._loop(step, prefix)

    def _between_steps(self) -> None:
        self._heartbeat.check()
        self._variables.forget_ticket()
        if draining.has_begun():
            raise Draining
        if self.journal.is_cancel_requested:
            raise Cancelled

    def _begin(self, step_id: str, prefix: str, op: str, type_: str) -> Place:
        place = Place(step_id, prefix + step_id, op, type_)
        self.place = place
        if self.journal.find(place.path) is None and len(self.journal) >= MAX_ACTIONS:
            raise TerminalError(
                "limit.actions", f"The run reached the limit of {MAX_ACTIONS} executed steps and was stopped."
            )
        return place

    # --- conditions and loops -----------------------------------------------------------------------------

    def _condition(self, step: ConditionStep, prefix: str) -> None:
        place = self._begin(step.id, prefix, "", "condition")
        known = self.journal.find(place.path)
        if known and known.state == State.DONE:
            is_met = known.output["met"]
        else:
            verdict = conditions.evaluate(
                self._rendering.rules(step.rules),
                step.match,
                self._rendering.field,
                zone=self._rendering.zone,
                changes=self._variables.get("changes") or {},
            )
            is_met = verdict.met
            # Name and reason are what the line in the reader's language needs beside the rule itself.
            rules = [{**rule.as_dict(), "name": rule.name, "reason": rule.reason} for rule in verdict.rules]
            self.journal.write(place, State.DONE, output={"met": is_met}, rules=rules, duration_ms=0)
        self._block(step.then if is_met else step.otherwise, prefix)

    def _loop(self, step: LoopStep, prefix: str) -> None:
        place = self._begin(step.id, prefix, "", "loop")
        known = self.journal.find(place.path)
        if known and known.state == State.DONE:
            items = known.output["items"]
        else:
            items = self._items(step)
            # Kept, because a ticket may have changed until the run goes on.
            self.journal.write(place, State.DONE, output={"items": items}, duration_ms=0)
        for index, item in enumerate(items):
            self._variables.name(step.as_name, item)
            self._block(step.steps, f"{place.path}/{index}/")

    def _items(self, step: LoopStep) -> list[Any]:
        items = self._rendering.value(step.items)
        if values.is_empty(items):
            return []
        if not isinstance(items, list):
            raise TerminalError(
                "input.invalid", f"`items` of the loop has to be an array; {values.kind(items)} came."
            )
        return items

    # --- actions ------------------------------------------------------------------------------------------

    def _action(self, step: ActionStep, prefix: str) -> None:
        place = self._begin(step.id, prefix, step.op, "action")
        known = self.journal.find(place.path)
        if known and known.state == State.DONE:
            self._publish(step, known.output)
            return
        if known and known.state == State.FAILED and known.output:
            self._after_error(step, place, known.output["error"])
            return
        begun = time.monotonic()
        try:
            outputs = self._attempt(step, place)
            metrics.step_seconds.labels(step.op).observe(time.monotonic() - begun)
        except (RetryableError, TerminalError) as error:
            if step.on_error == "fail" or not self._is_final(error):
                self.journal.write(place, State.FAILED, message=error.detail, input=error.trace.get("input"))
                raise
            failure = {"message": error.detail, "code": error.code}
            self.journal.write(
                place,
                State.FAILED,
                message=error.detail,
                input=error.trace.get("input"),
                output={"error": failure},
            )
            self._after_error(step, place, failure)
        else:
            self._publish(step, outputs)

    def _after_error(self, step: ActionStep, place: Place, failure: dict[str, Any]) -> None:
        if isinstance(step.on_error, str):
            return
        self._variables.name("error", failure)
        self._block(step.on_error, place.path.removesuffix(step.id))

    def _publish(self, step: ActionStep, outputs: dict[str, Any]) -> None:
        self._variables.publish(step.id, step.op, outputs)
        if step.op == "flow/stop":
            raise Stopped

    def _attempt(self, step: ActionStep, place: Place) -> dict[str, Any]:
        operation = catalog.find(step.op)
        if operation is None:
            raise TerminalError("missing.operation", f"There is no operation {step.op} in the catalogue.")
        rendered = self._render(step, operation)
        try:
            inputs = self._validated(operation, rendered)
            if operation.waits is not None:
                return self._wait(step, place, operation, inputs, rendered)
            if not (operation.builtin or step.wait):
                return self._send(step, place, rendered)
            if operation.builtin:
                return self._built_in(step, place, operation, inputs, rendered)
            return self._foreign(step, place, operation, inputs, rendered)
        except RunError as error:
            error.trace.setdefault("input", rendered)
            raise

    def _render(self, step: ActionStep, operation: Operation) -> dict[str, Any]:
        rendered = self._sent["inputs"] if self._sent else self._rendering.inputs(step, operation)
        size = len(json.dumps(rendered).encode())
        if size > MAX_INPUT_BYTES:
            raise TerminalError(
                "limit.size",
                f"The inputs of this step are {size} bytes; at most {MAX_INPUT_BYTES} are allowed.",
            )
        return rendered

    def _validated(self, operation: Operation, rendered: dict[str, Any]) -> Shape:
        try:
            return operation.inputs.model_validate(rendered)
        except ValidationError as error:
            raise TerminalError("input.invalid", rendering.faults_of(error)) from error

    def _built_in(
        self, step: ActionStep, place: Place, operation: Operation, inputs: Shape, rendered: dict[str, Any]
    ) -> dict[str, Any]:
        begun = time.monotonic()
        with transaction.atomic():
            self.journal.is_cancel_requested |= states.hold(self._claimed)
            call = self._call(step, place, operation, None)
            outputs = operation.function(call, inputs).model_dump(by_alias=True)
            self.journal.write(
                place, State.DONE, input=rendered, output=outputs, duration_ms=_milliseconds_since(begun)
            )
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
        self._heartbeat.check()
        self._heartbeat.expect_end_by(call.deadline)
        begun = time.monotonic()
        try:
            outputs = operation.function(call, inputs).model_dump(by_alias=True)
        except UncertainError as error:
            raise self._unknown(place, rendered, call, error.detail, error) from error
        except Snooze:
            # Nothing was sent, or the service said that it did not process it.
            self.journal.write(place, State.WAITING, key=call.idempotency_key, input=rendered)
            raise
        finally:
            self._heartbeat.expect_end_by(None)
        self.journal.write(
            place,
            State.DONE,
            key=call.idempotency_key,
            input=rendered,
            output=outputs,
            duration_ms=_milliseconds_since(begun),
        )
        return outputs

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

    def _call(
        self, step: ActionStep, place: Place, operation: Operation, account: Connection | None
    ) -> RunCall:
        if self._sent:
            given = self._sent["inputs"].get("idempotencyKey")
        else:
            given = self._rendering.given_key(step)
        return RunCall(
            tenant=self.run.tenant,
            connection=account,
            actor=self._actor,
            idempotency_key=given or f"{self.run.public_id}:{place.path}",
            has_given_key=given is not None,
            deadline=time.monotonic() + float(step.timeout_sec or operation.timeout_seconds),
            log=self._log,
            run=self.run,
            ticket=self.run.ticket,
            adopt=self._adopt,
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
