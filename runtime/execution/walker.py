"""Walks a tree: which step comes next, what it is given, what its outcome means for the steps after it.

It knows the language and its journal, and neither the queue nor the outside world: what executing an action means is
said by `executor` (a claimed run) and by `dryrun` (a test that changes nothing), so both go the same way.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from automations import conditions, values
from automations.conditions import Verdict
from automations.steps import ActionStep, ConditionStep, LoopStep, Step
from automations.tree import Tree
from connectors import catalog
from connectors.catalog import Operation, Shape
from connectors.models import Connection
from csbot.lib import json
from csbot.lib.errors import RetryableError, RunError, TerminalError
from runtime.execution import rendering
from runtime.execution.context import RunCall, Variables
from runtime.execution.journal import Journal, Place, State
from runtime.execution.rendering import Rendering
from runtime.models import Run
from tickets.events import Actor
from tickets.models import Ticket

# SPEC section 3, fixed: executed steps of one run.
MAX_ACTIONS = 1000
# Services take keys of up to 255 characters; a longer path of nested loops is hashed.
MAX_PATH_IN_KEY = 200
# SPEC section 5.4: one rendered input.
MAX_INPUT_BYTES = 256 * 1024

T = TypeVar("T")


class Stopped(Exception):
    """`flow/stop` ended the run."""


class Walker(ABC):
    """Walks one tree for one run. `place` is the step that it stands at."""

    def __init__(
        self, run: Run, tree: Tree, journal: Journal, variables: Variables, rendering: Rendering
    ) -> None:
        self.run = run
        self.tree = tree
        self.journal = journal
        self.place: Place | None = None
        self._variables = variables
        self._rendering = rendering
        self._actor = Actor("automation", run.automation.name, run.public_id)

    # --- what executing means -----------------------------------------------------------------------------

    @abstractmethod
    def _between_steps(self) -> None:
        """Look up before each step; may raise to leave the tree."""

    @abstractmethod
    def _is_final(self, error: RunError) -> bool:
        """Whether a failed attempt is the last one."""

    def _failed_state(self) -> str:
        """Return the state of the row of a step that failed just now."""
        return State.FAILED

    @abstractmethod
    def _built_in(
        self, step: ActionStep, place: Place, operation: Operation, inputs: Shape, rendered: dict[str, Any]
    ) -> dict[str, Any]:
        """Execute a built-in operation and return its outputs."""

    @abstractmethod
    def _wait(
        self, step: ActionStep, place: Place, operation: Operation, inputs: Shape, rendered: dict[str, Any]
    ) -> dict[str, Any]:
        """Begin or end an operation that waits and return its outputs."""

    @abstractmethod
    def _send(self, step: ActionStep, place: Place, rendered: dict[str, Any]) -> dict[str, Any]:
        """Begin a call whose answer nobody needs and return its outputs."""

    @abstractmethod
    def _foreign(
        self, step: ActionStep, place: Place, operation: Operation, inputs: Shape, rendered: dict[str, Any]
    ) -> dict[str, Any]:
        """Call a foreign operation and return its outputs."""

    @abstractmethod
    def _log(self, code: str, level: str = "info", **params: Any) -> None:
        """Write a line into the run's log."""

    @abstractmethod
    def _adopt(self, ticket: Ticket) -> None:
        """Make `ticket` the run's own, inside the transaction of the step that found or made it."""

    # --- the way through the tree -------------------------------------------------------------------------

    def _block(self, steps: Sequence[Step], prefix: str) -> None:
        for step in steps:
            self._between_steps()
            if isinstance(step, ActionStep):
                self._action(step, prefix)
            elif isinstance(step, ConditionStep):
                self._condition(step, prefix)
            else:
                self._loop(step, prefix)

    def _begin(self, step_id: str, prefix: str, op: str, type_: str) -> Place:
        place = Place(step_id, prefix + step_id, op, type_)
        self.place = place
        if self.journal.find(place.path) is None and len(self.journal) >= MAX_ACTIONS:
            raise TerminalError(
                "limit.actions", f"The run reached the limit of {MAX_ACTIONS} executed steps and was stopped."
            )
        return place

    def _condition(self, step: ConditionStep, prefix: str) -> None:
        place = self._begin(step.id, prefix, "", "condition")
        known = self.journal.find(place.path)
        if known and known.state == State.DONE:
            is_met = known.output["met"]
        else:
            verdict = self._told(place, lambda: self._verdict(step))
            is_met = verdict.met
            # Name and reason are what the line in the reader's language needs beside the rule itself.
            rules = [{**rule.as_dict(), "name": rule.name, "reason": rule.reason} for rule in verdict.rules]
            self.journal.write(place, State.DONE, output={"met": is_met}, rules=rules, duration_ms=0)
        self._block(step.then if is_met else step.otherwise, prefix)

    def _told(self, place: Place, work: Callable[[], T]) -> T:
        """Return what `work` returns; when it fails, the step's row says why."""
        try:
            return work()
        except RunError as error:
            self.journal.write(place, State.FAILED, message=error.detail)
            raise

    def _verdict(self, step: ConditionStep) -> Verdict:
        return conditions.evaluate(
            self._rendering.rules(step.rules),
            step.match,
            self._rendering.field,
            zone=self._rendering.zone,
            changes=self._variables.get("changes") or {},
        )

    def _loop(self, step: LoopStep, prefix: str) -> None:
        place = self._begin(step.id, prefix, "", "loop")
        known = self.journal.find(place.path)
        if known and known.state == State.DONE:
            items = known.output["items"]
        else:
            items = self._told(place, lambda: self._items(step))
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
        try:
            outputs = self._attempt(step, place)
        except (RetryableError, TerminalError) as error:
            if step.on_error == "fail" or not self._is_final(error):
                self.journal.write(
                    place, self._failed_state(), message=error.detail, input=error.trace.get("input")
                )
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
        rendered = self._inputs(step, operation)
        size = len(json.dumps(rendered).encode())
        if size > MAX_INPUT_BYTES:
            raise TerminalError(
                "limit.size",
                f"The inputs of this step are {size} bytes; at most {MAX_INPUT_BYTES} are allowed.",
            )
        return rendered

    def _inputs(self, step: ActionStep, operation: Operation) -> dict[str, Any]:
        return self._rendering.inputs(step, operation)

    def _given_key(self, step: ActionStep) -> str | None:
        return self._rendering.given_key(step)

    def _validated(self, operation: Operation, rendered: dict[str, Any]) -> Shape:
        try:
            return operation.inputs.model_validate(rendered)
        except ValidationError as error:
            raise TerminalError("input.invalid", rendering.faults_of(error)) from error

    def _call(
        self, step: ActionStep, place: Place, operation: Operation, account: Connection | None
    ) -> RunCall:
        given = self._given_key(step)
        return RunCall(
            tenant=self.run.tenant,
            connection=account,
            actor=self._actor,
            idempotency_key=given or _made_key(self.run, place),
            has_given_key=given is not None,
            deadline=time.monotonic() + float(step.timeout_sec or operation.timeout_seconds),
            log=self._log,
            run=self.run,
            ticket=self.run.ticket,
            adopt=self._adopt,
        )


def _made_key(run: Run, place: Place) -> str:
    """Return the key made of run, step and pass (SPEC section 5.4); of a long path its SHA-256."""
    path = place.path
    if len(path) > MAX_PATH_IN_KEY:
        path = hashlib.sha256(path.encode()).hexdigest()
    return f"{run.public_id}:{path}"
