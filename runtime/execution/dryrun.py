"""Walks a tree as a run would and changes nothing: what would each step do, and to which tickets (SPEC section 13).

Built-in steps are executed for real inside a transaction that is always rolled back; foreign steps are not called. What
depends on an answer that nobody has says so; where a condition depends on one, both ways are tried apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from django.db import connection, transaction
from django.dispatch import receiver

from automations import conditions
from automations.conditions import RuleResult
from automations.steps import ActionStep, ConditionStep, LoopStep, Step
from automations.tree import Tree
from connectors.catalog import Operation, Shape
from csbot.lib import json
from csbot.lib.errors import RunError, TerminalError
from runtime.execution import effects
from runtime.execution.context import current_run
from runtime.execution.effects import TicketChange, Told
from runtime.execution.journal import Entry, Journal, Place, State
from runtime.execution.unknown import DryRendering, DryVariables, Snapshot, Unknown
from runtime.execution.walker import Stopped, Walker
from runtime.models import Run
from tickets.events import ticket_changed
from tickets.models import Ticket

# A dry run holds the locks of the tickets it changes until it is rolled back, so it is short, and it gives up waiting
# well before PostgreSQL looks for deadlocks (1 s) and could choose a worker as the victim.
LONGEST_SECONDS = 5.0
LOCK_TIMEOUT_MS = 400
# Their answers are made by chance or by somebody else, so a test cannot know them.
UNKNOWN_OUTPUTS = {"incident/create": ("incident",)}
# They leave a ticket as it is.
READING = frozenset({"ticket/find", "ticket/comment"})

_edits: ContextVar[list[TicketChange] | None] = ContextVar("edits_of_dry_run", default=None)


@receiver(ticket_changed)
def _on_ticket_changed(ticket: Ticket, event: str, changes: dict[str, Any], **_kwargs: Any) -> None:
    edits = _edits.get()
    if edits is not None:
        edits.append(TicketChange(ticket.pk, ticket.key, event == "created", changes))


@contextmanager
def undone() -> Iterator[None]:
    """Roll back whatever is written inside, and forget what was to happen on commit."""
    with transaction.atomic():
        try:
            yield
        finally:
            transaction.set_rollback(True)


@dataclass(frozen=True)
class RuleLine:
    """The line of one rule of a condition: what was compared with what."""

    result: RuleResult

    def text(self, language: str) -> str:
        """Return the line in `language`."""
        return self.result.line(language)


Note: TypeAlias = Told | RuleLine | str


class TooLongError(Exception):
    """The dry run was stopped, because it held its locks for long enough."""


@dataclass
class Row:
    """What is told of one step."""

    place: Place
    is_skipped: bool = False
    inputs: dict[str, Any] = field(default_factory=dict)
    effects: list[Told] = field(default_factory=list)
    # Sentences beside the effect: why, on what it depends.
    notes: list[Note] = field(default_factory=list)

    def shown(self, language: str) -> dict[str, Any]:
        """Return the step of SPEC section 13."""
        notes = [note if isinstance(note, str) else note.text(language) for note in self.notes]
        return {
            "stepId": self.place.step_id,
            "path": self.place.path,
            "op": self.place.op or None,
            "status": "skipped" if self.is_skipped else "would",
            "inputs": self.inputs,
            "effect": " ".join(effect.text(language) for effect in self.effects),
            "message": "\n".join(notes) or None,
        }

    @property
    def deed(self) -> Any:
        """What has to be equal for two versions to act alike; a condition counts by the way that is taken."""
        inputs = self.inputs if self.place.type == "action" else None
        return self.place.op, self.is_skipped, json.dumps(inputs, sort_keys=True), self.effects


class DryJournal(Journal):
    """A journal in memory: nothing was done before, and nothing is written."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._output_bytes = 0
        self.is_cancel_requested = False
        self.rows: dict[str, Row] = {}

    def row(self, place: Place) -> Row:
        """Return the row at a place, a new one when there is none."""
        return self.rows.setdefault(place.path, Row(place))

    def write(
        self,
        place: Place,
        state: str,
        *,
        key: str = "",
        input: Any = None,
        output: Any = None,
        message: str = "",
        rules: Any = None,
        duration_ms: int | None = None,
    ) -> None:
        """Remember the outcome of a step. Raises TerminalError `limit.size`."""
        self._weigh(json.dumps(output) if output is not None else None)
        known = self._entries.get(place.path)
        seq = known.seq if known else len(self._entries) + 1
        self._entries[place.path] = Entry(seq, state, output, message)
        row = self.row(place)
        row.inputs = input or row.inputs
        if state == State.FAILED:
            row.effects = [Told("test.fails", {"message": message})]
            row.notes.append(message)


class DryRun(Walker):
    """Tries one tree over one event. `recorded` are outputs by path that a real run got from calls.

    After `execute`, `journal.rows` tell of the steps, `edits` of the tickets and `taken` the pointers of the branches
    that were, or could be, taken.
    """

    def __init__(
        self, run: Run, tree: Tree, recorded: Mapping[str, tuple[str, dict[str, Any]]], at: datetime
    ) -> None:
        self.notes = DryJournal()
        self.variables = DryVariables(run, run.data.input, at)
        self.rendering = DryRendering(run, self.variables, tree.trigger.params)
        super().__init__(run, tree, self.notes, self.variables, self.rendering)
        self.edits: list[TicketChange] = []
        self.taken: set[str] = set()
        self._recorded = recorded
        # What has to hold for the present steps to be reached at all.
        self._suppositions: list[Note] = []
        self._asked_before = 0
        self._is_valid = True
        self._has_unknown_ticket = False
        self._end_at = 0.0

    def execute(self) -> None:
        """Walk the tree and roll everything back. Raises OperationalError when a lock cannot be had."""
        self._end_at = time.monotonic() + LONGEST_SECONDS
        tokens = current_run.set(self.run), _edits.set(self.edits)
        try:
            with undone():
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
                self._walk()
        finally:
            current_run.reset(tokens[0])
            _edits.reset(tokens[1])

    def _walk(self) -> None:
        try:
            self._block(self.tree.steps, "")
        except Stopped:
            return
        except RunError as error:
            self._tell_failure(error)
        except TooLongError:
            row = self.notes.row(Place("", "", "", ""))
            row.is_skipped = True
            row.effects = [Told("test.tooLong", {"seconds": int(LONGEST_SECONDS)})]

    def _tell_failure(self, error: RunError) -> None:
        """Tell a failure that no step's row tells yet, such as that of a condition."""
        assert self.place is not None
        known = self.notes.find(self.place.path)
        if known is None or known.state != State.FAILED:
            self.notes.write(self.place, State.FAILED, message=error.detail)

    def _between_steps(self) -> None:
        self.variables.forget_ticket()
        if time.monotonic() > self._end_at:
            raise TooLongError

    def _is_final(self, error: RunError) -> bool:
        return True

    def _log(self, code: str, level: str = "info", **params: Any) -> None:
        """A line in a log is an effect, which the step's row tells."""

    def _adopt(self, ticket: Ticket) -> None:
        self.run.ticket = ticket
        self.variables.unknown_ticket = None
        self._has_unknown_ticket = False
        self.variables.forget_ticket()

    # --- conditions and loops -----------------------------------------------------------------------------

    def _condition(self, step: ConditionStep, prefix: str) -> None:
        place = self._begin(step.id, prefix, "", "condition")
        results: list[RuleResult] = []
        notes: list[Note] = []
        asked_of: list[list[str]] = []
        for rule in step.rules:
            before = len(self.rendering.asked)
            verdict = self._verdict(ConditionStep(step.id, "all", (rule,)))
            asked = list(dict.fromkeys(self.rendering.asked[before:]))
            result = verdict.rules[0]
            results.append(result)
            asked_of.append(asked)
            notes.append(_undecided(result, asked) if asked else RuleLine(result))
        is_met = _met(step.match, results, asked_of)
        self.notes.write(place, State.DONE, output={"met": is_met})
        row = self._tell(place, notes, [Told(_WAYS[is_met])])
        row.inputs = {"rules": [result.as_dict() for result in results]}
        if is_met is None:
            self._both_ways(step, place, prefix)
            return
        if not is_met:
            self._skip(step.then, prefix, notes)
        self.taken.add(f"{step.pointer}/{'then' if is_met else 'else'}")
        self._block(step.then if is_met else step.otherwise, prefix)
        if is_met:
            self._skip(step.otherwise, prefix, notes)

    def _skip(self, steps: Sequence[Step], prefix: str, notes: list[Note]) -> None:
        """Tell that steps are not executed, with the lines of the condition; of a loop without its passes."""
        for step in steps:
            op, type_ = (step.op, "action") if isinstance(step, ActionStep) else ("", "")
            row = self.notes.row(Place(step.id, prefix + step.id, op, type_))
            row.is_skipped = True
            row.effects, row.notes = [Told("test.skipped")], notes
            if isinstance(step, ConditionStep):
                self._skip(step.then, prefix, notes)
                self._skip(step.otherwise, prefix, notes)

    def _both_ways(self, step: ConditionStep, place: Place, prefix: str) -> None:
        self.taken |= {f"{step.pointer}/then", f"{step.pointer}/else"}
        then, then_ends = self._suppose(Told("test.ifMet", {"step": step.id}), step.then, prefix)
        other, other_ends = self._suppose(Told("test.ifNotMet", {"step": step.id}), step.otherwise, prefix)
        self._go_on(step.id, [(then, then_ends), (other, other_ends)])

    def _loop(self, step: LoopStep, prefix: str) -> None:
        place = self._begin(step.id, prefix, "", "loop")
        items = self.rendering.value(step.items)
        row = self._tell(place, [], [])
        if isinstance(items, Unknown):
            row.effects = [Told("test.loop.unknown", {"paths": items.path})]
            row.inputs = {"items": items}
            self.taken.add(f"{step.pointer}/steps")
            before = self.variables.snapshot()
            self.variables.name(step.as_name, Unknown(step.as_name))
            passed, ends = self._suppose(
                Told("test.ifPassed", {"step": step.id}), step.steps, f"{place.path}/0/"
            )
            self.variables.restore(before)
            self._go_on(step.id, [(passed, ends), (before, False)])
            return
        passes = self._items(step)
        row.effects = [Told("test.loop", {"count": len(passes)})]
        row.inputs = {"items": passes}
        if passes:
            self.taken.add(f"{step.pointer}/steps")
        super()._loop(step, prefix)

    def _suppose(self, supposition: Told, steps: Sequence[Step], prefix: str) -> tuple[Snapshot, bool]:
        """Try steps that may or may not be reached, and undo them; return the names after them and whether they end.

        A ticket that they change is unknown afterwards.
        """
        before, ticket = self.variables.snapshot(), self.run.ticket
        suppositions, edits = list(self._suppositions), len(self.edits)
        self._suppositions.append(supposition)
        is_end = False
        try:
            with undone():
                try:
                    self._block(steps, prefix)
                except Stopped:
                    is_end = True
                except RunError as error:
                    self._tell_failure(error)
                    is_end = True
            if len(self.edits) > edits or self.run.ticket is not ticket:
                self.variables.unknown_ticket = Unknown("ticket")
            after = self.variables.snapshot()
            self._has_unknown_ticket |= self.run.ticket is not ticket
        finally:
            self._suppositions, self.run.ticket = suppositions, ticket
            del self.edits[edits:]
            self.variables.restore(before)
        return after, is_end

    def _go_on(self, step_id: str, ways: list[tuple[Snapshot, bool]]) -> None:
        """Go on after ways of which nobody knows which was taken. Raises Stopped when all of them end the run."""
        if all(is_end for _names, is_end in ways):
            raise Stopped
        open_ways = [names for names, is_end in ways if not is_end]
        self.variables.meet(open_ways[0], open_ways[-1])
        if len(open_ways) < len(ways):
            self._suppositions.append(Told("test.ifGoesOn", {"step": step_id}))

    # --- actions ------------------------------------------------------------------------------------------

    def _attempt(self, step: ActionStep, place: Place) -> dict[str, Any]:
        self._asked_before = len(self.rendering.asked)
        self._tell(place, [], [])
        return super()._attempt(step, place)

    def _asked(self) -> list[str]:
        """Return the unknown values that the present step's inputs met."""
        return list(dict.fromkeys(self.rendering.asked[self._asked_before :]))

    def _validated(self, operation: Operation, rendered: dict[str, Any]) -> Shape:
        self._is_valid = True
        try:
            return super()._validated(operation, rendered)
        except TerminalError:
            if not self._asked():
                raise
        self._is_valid = False
        return operation.inputs.model_construct(**rendered)

    def _built_in(
        self, step: ActionStep, place: Place, operation: Operation, inputs: Shape, rendered: dict[str, Any]
    ) -> dict[str, Any]:
        asked = self._asked()
        is_of_ticket = step.op.startswith("ticket/")
        is_over_run = is_of_ticket and step.op not in ("ticket/upsert", "ticket/find") and step.ticket is None
        if is_over_run and self._has_unknown_ticket:
            asked.append("ticket")
        if asked and (is_of_ticket or not self._is_valid):
            if is_of_ticket and step.op not in READING:
                self.variables.unknown_ticket = Unknown("ticket")
                self._has_unknown_ticket |= step.op == "ticket/upsert"
            return self._untried(step, place, operation, rendered, asked)
        before = len(self.edits)
        with transaction.atomic():
            call = self._call(step, place, operation, None)
            outputs = operation.function(call, inputs).model_dump(by_alias=True)
        if isinstance(outputs.get("ticket"), dict):
            outputs["ticket"] = self.variables.frozen(outputs["ticket"])
        outputs |= {name: Unknown(f"{step.id}.{name}") for name in UNKNOWN_OUTPUTS.get(step.op, ())}
        ticket = rendered.get("ticket") or (self.run.ticket.key if self.run.ticket else None)
        told = effects.of_built_in(step.op, rendered, outputs, self.edits[before:], ticket)
        return self._done(place, rendered, outputs, told, asked)

    def _wait(
        self, step: ActionStep, place: Place, operation: Operation, inputs: Shape, rendered: dict[str, Any]
    ) -> dict[str, Any]:
        asked = self._asked()
        known = self._recorded_outputs(place)
        if known is not None and step.op == "flow/call":
            told = [Told("test.flow.call", {"automation": effects.shown(rendered.get("automation"))})]
            return self._done(place, rendered, known, told, asked, is_recorded=True)
        if asked:
            return self._untried(step, place, operation, rendered, asked)
        with transaction.atomic():
            outputs = operation.function(self._call(step, place, operation, None), inputs).model_dump(
                by_alias=True
            )
        if step.op != "flow/call":
            told = [Told("test.flow.wait", volatile={"until": outputs["until"]})]
            return self._done(place, rendered, outputs, told, asked)
        names = ("runId", "status", "outputs") if rendered.get("wait", True) else ("runId",)
        outputs |= {name: Unknown(f"{step.id}.{name}") for name in names}
        told = [Told("test.flow.call", {"automation": effects.shown(rendered["automation"])})]
        return self._done(place, rendered, outputs, told, asked)

    def _send(self, step: ActionStep, place: Place, rendered: dict[str, Any]) -> dict[str, Any]:
        told = Told("test.send", {"op": step.op, "connection": self.rendering.connection_of(step)})
        return self._done(place, rendered, {"runId": Unknown(f"{step.id}.runId")}, [told], self._asked())

    def _foreign(
        self, step: ActionStep, place: Place, operation: Operation, inputs: Shape, rendered: dict[str, Any]
    ) -> dict[str, Any]:
        account = self.rendering.account(step, operation)
        told = [Told("test.call", {"op": step.op, "connection": account.name if account else ""})]
        known = self._recorded_outputs(place)
        if known is not None:
            return self._done(place, rendered, known, told, self._asked(), is_recorded=True)
        return self._done(place, rendered, _unknown_outputs(step, operation), told, self._asked())

    def _recorded_outputs(self, place: Place) -> dict[str, Any] | None:
        op, outputs = self._recorded.get(place.path, ("", None))
        return outputs if op == place.op else None

    def _untried(
        self, step: ActionStep, place: Place, operation: Operation, rendered: dict[str, Any], asked: list[str]
    ) -> dict[str, Any]:
        """Tell that what the step would do depends on something unknown; so do all its outputs."""
        told = Told("test.notTried", {"op": step.op, "paths": asked})
        return self._done(place, rendered, _unknown_outputs(step, operation), [told], [])

    def _done(
        self,
        place: Place,
        rendered: dict[str, Any],
        outputs: dict[str, Any],
        told: list[Told],
        asked: list[str],
        *,
        is_recorded: bool = False,
    ) -> dict[str, Any]:
        self.notes.write(place, State.DONE, input=rendered, output=outputs)
        row = self.notes.row(place)
        row.effects = told
        if asked:
            row.notes.append(Told("test.depends", {"paths": asked}))
        if is_recorded:
            row.notes.append(Told("test.recorded"))
        return outputs

    def _tell(self, place: Place, notes: list[Note], told: list[Told]) -> Row:
        row = self.notes.row(place)
        row.notes = [*self._suppositions, *notes]
        row.effects = told
        return row


_WAYS = {True: "test.condition.met", False: "test.condition.notMet", None: "test.condition.unknown"}


def _met(match: str, results: Sequence[RuleResult], asked_of: Sequence[list[str]]) -> bool | None:
    """Return whether a condition is met, None where that depends on an unknown value."""
    told = {result.met for result, asked in zip(results, asked_of, strict=True) if not asked}
    decisive = match != "all"
    if decisive in told:
        return decisive
    return None if any(asked_of) else not decisive


def _undecided(result: RuleResult, asked: list[str]) -> Told:
    rule = f"{result.name or result.field_id} {result.operator}"
    if result.operator not in conditions.UNARY:
        rule = f"{rule} {effects.shown(result.value)}"
    return Told("test.rule.unknown", {"rule": rule, "paths": asked})


def _unknown_outputs(step: ActionStep, operation: Operation) -> dict[str, Any]:
    fields = operation.outputs.model_fields
    return {one.alias or name: Unknown(f"{step.id}.{one.alias or name}") for name, one in fields.items()}
