"""The steps of a tree: what each kind holds, and how it is read from a document and written back (SPEC 3). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from automations import expressions
from automations.conditions import OPERATORS, Rule
from automations.expressions import TemplateError
from automations.faults import Faults, below, too_deep
from automations.names import name_fault

# SPEC section 3, fixed: steps of a tree, those of branches, loops and onError counted.
MAX_STEPS = 50
# As deep as a body may be (SPEC section 2), for what a step holds as data.
MAX_DATA_DEPTH = 64
# The longest call there is (SPEC section 10: 600 s); what waits longer is `flow/wait`.
MAX_TIMEOUT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class ActionStep:
    """Does one operation; `on_error` may be steps of its own. Inputs and `connection` may hold templates."""

    id: str
    op: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    connection: str | None = None
    on_error: Literal["fail", "continue"] | tuple[Step, ...] = "fail"
    timeout_sec: Any = None
    wait: bool = True
    pointer: str = field(default="", compare=False)

    @property
    def ticket(self) -> Any:
        """The ticket that the step names, a template; None for the run's own. It is one of the inputs."""
        return self.inputs.get("ticket")


@dataclass(frozen=True, slots=True)
class ConditionStep:
    """Goes one of two ways. `match` is `all` or `any`."""

    id: str
    match: str
    rules: tuple[Rule, ...]
    then: tuple[Step, ...] = ()
    otherwise: tuple[Step, ...] = ()
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class LoopStep:
    """Executes its steps for each of the items, a template or an array; `as_name` names the item."""

    id: str
    items: Any
    as_name: str
    steps: tuple[Step, ...] = ()
    pointer: str = field(default="", compare=False)


Step: TypeAlias = ActionStep | ConditionStep | LoopStep
"""Each step knows its `pointer`, its place in the document that it was read from."""


def branches(step: Step) -> list[tuple[str, tuple[Step, ...]]]:
    """Return the lists of steps inside a step, with the pointer of each below the step's own."""
    if isinstance(step, ConditionStep):
        return [("/then", step.then), ("/else", step.otherwise)]
    if isinstance(step, LoopStep):
        return [("/steps", step.steps)]
    return [] if isinstance(step.on_error, str) else [("/onError/steps", step.on_error)]


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield every step in the order of the document."""
    for step in steps:
        yield step
        for _, inner in branches(step):
            yield from walk(inner)


class StepReader:
    """Reads the steps of one document and counts them; what is beyond MAX_STEPS is one fault and is not read."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._count = 0

    def read(self, raw: Any, pointer: str) -> tuple[Step, ...]:
        """Return the steps of an array; wrong parts of them add faults and read as empty."""
        steps: list[Step] = []
        for index, item in enumerate(self._faults.array(raw, pointer)):
            place = f"{pointer}/{index}"
            self._count += 1
            if self._count > MAX_STEPS:
                if self._count == MAX_STEPS + 1:
                    self._faults.add(place, "limit.steps", f"Expected at most {MAX_STEPS} steps in the tree.")
                break
            step = self._step(item, place)
            if step is not None:
                steps.append(step)
        return tuple(steps)

    def _step(self, raw: Any, pointer: str) -> Step | None:
        if not isinstance(raw, dict):
            self._faults.expected(pointer, "an object", raw)
            return None
        kind = self._faults.choice(raw, "type", pointer, tuple(_KEYS), required=True)
        if kind is None:
            return None
        part = self._faults.object(raw, pointer, known=("id", "type", *_KEYS[kind])) or {}
        id_ = self._faults.text(part, "id", pointer, required=True) or ""
        if id_ and (told := name_fault(id_)):
            self._faults.add(below(pointer, "id"), "id.invalid", told)
        if kind == "action":
            return self._action(part, id_, pointer)
        return self._condition(part, id_, pointer) if kind == "condition" else self._loop(part, id_, pointer)

    def _action(self, part: dict[str, Any], id_: str, pointer: str) -> ActionStep:
        faults = self._faults
        op = faults.text(part, "op", pointer, required=True) or ""
        inputs = part.get("inputs", {})
        if not isinstance(inputs, dict):
            faults.expected(below(pointer, "inputs"), "an object", inputs)
            inputs = {}
        self._check_depth(inputs, below(pointer, "inputs"))
        ticket = faults.text(part, "ticket", pointer)
        if ticket is not None:
            # On the step itself it means the same as among the inputs.
            if "ticket" in inputs:
                faults.add(below(pointer, "ticket"), "value.invalid", "`inputs` names a ticket as well.")
            inputs = {**inputs, "ticket": ticket}
        wait = faults.boolean(part, "wait", pointer)
        return ActionStep(
            id=id_,
            op=op,
            inputs=inputs,
            connection=faults.text(part, "connection", pointer),
            on_error=self._on_error(part, pointer),
            timeout_sec=faults.number(part, "timeoutSec", pointer, low=1, high=MAX_TIMEOUT_SECONDS),
            wait=wait is not False,
            pointer=pointer,
        )

    def _check_depth(self, value: Any, pointer: str) -> None:
        if too_deep(value, MAX_DATA_DEPTH) is not None:
            self._faults.add(pointer, "limit.depth", f"Expected at most {MAX_DATA_DEPTH} levels.")

    def _on_error(self, part: dict[str, Any], pointer: str) -> Literal["fail", "continue"] | tuple[Step, ...]:
        value, place = part.get("onError", "fail"), below(pointer, "onError")
        if value == "fail" or value == "continue":
            return "continue" if value == "continue" else "fail"
        if not isinstance(value, dict):
            self._faults.expected(place, '"fail", "continue" or {"steps": […]}', value)
            return "fail"
        self._faults.object(value, place, known=("steps",))
        if "steps" not in value:
            self._faults.add(f"{place}/steps", "key.missing", "Expected `steps`, an array of steps.")
        return self.read(value.get("steps", []), f"{place}/steps")

    def _condition(self, part: dict[str, Any], id_: str, pointer: str) -> ConditionStep:
        faults = self._faults
        match = faults.choice(part, "match", pointer, ("all", "any")) or "all"
        if "rules" in part:
            rules = self._rules(part["rules"], below(pointer, "rules"))
            for key in filter(_RULE_KEYS.__contains__, part):
                faults.add(below(pointer, key), "key.unknown", "A step with `rules` has no rule of its own.")
        else:
            # The older form: one rule, its keys directly on the step (SPEC section 3.2).
            rules = [self._rule(part, pointer)]
        return ConditionStep(
            id=id_,
            match=match,
            rules=tuple(rules),
            then=self.read(part.get("then", []), below(pointer, "then")),
            otherwise=self.read(part.get("else", []), below(pointer, "else")),
            pointer=pointer,
        )

    def _rules(self, raw: Any, pointer: str) -> list[Rule]:
        items = self._faults.array(raw, pointer)
        if raw == []:
            self._faults.add(pointer, "value.invalid", "Expected at least one rule.")
        rules = []
        for index, item in enumerate(items):
            part = self._faults.object(item, f"{pointer}/{index}", known=tuple(sorted(_RULE_KEYS)))
            if part is not None:
                rules.append(self._rule(part, f"{pointer}/{index}"))
        return rules

    def _rule(self, part: dict[str, Any], pointer: str) -> Rule:
        self._check_depth(part.get("value"), below(pointer, "value"))
        return Rule(
            field_id=self._faults.text(part, "fieldId", pointer, required=True) or "",
            operator=self._faults.choice(part, "operator", pointer, tuple(OPERATORS), required=True) or "",
            value=part.get("value"),
            pointer=pointer,
        )

    def _loop(self, part: dict[str, Any], id_: str, pointer: str) -> LoopStep:
        faults = self._faults
        as_name = faults.text(part, "as", pointer, required=True) or ""
        if as_name and (told := name_fault(as_name)):
            faults.add(below(pointer, "as"), "name.invalid", told)
        for key in ("items", "steps"):
            if key not in part:
                faults.add(below(pointer, key), "key.missing", f"A loop needs `{key}`.")
        items = part.get("items", [])
        if not isinstance(items, list) and not _is_lone(items):
            faults.expected(below(pointer, "items"), "an array or exactly one placeholder", items)
        self._check_depth(items, below(pointer, "items"))
        steps = self.read(part.get("steps", []), below(pointer, "steps"))
        return LoopStep(id=id_, items=items, as_name=as_name, steps=steps, pointer=pointer)


_RULE_KEYS = {"fieldId", "operator", "value"}
_KEYS: dict[str, tuple[str, ...]] = {
    "action": ("op", "inputs", "connection", "ticket", "onError", "timeoutSec", "wait"),
    "condition": ("match", "rules", "then", "else", *sorted(_RULE_KEYS)),
    "loop": ("items", "as", "steps"),
}


def _is_lone(items: Any) -> bool:
    """Say whether the items are one placeholder; one with bad syntax is told of with the other templates."""
    try:
        return isinstance(items, str) and expressions.is_lone(items)
    except TemplateError:
        return True


def dump(step: Step) -> dict[str, Any]:
    """Return a step as it stands in a document; what is as if left out is left out."""
    if isinstance(step, ConditionStep):
        return {
            "id": step.id,
            "type": "condition",
            "match": step.match,
            "rules": [_dump_rule(rule) for rule in step.rules],
            "then": [dump(inner) for inner in step.then],
            "else": [dump(inner) for inner in step.otherwise],
        }
    if isinstance(step, LoopStep):
        inner_steps = [dump(inner) for inner in step.steps]
        return {"id": step.id, "type": "loop", "items": step.items, "as": step.as_name, "steps": inner_steps}
    raw: dict[str, Any] = {"id": step.id, "type": "action", "op": step.op}
    optional = {"connection": step.connection, "timeoutSec": step.timeout_sec}
    raw |= {key: value for key, value in optional.items() if value is not None}
    raw["inputs"] = dict(step.inputs)
    if not isinstance(step.on_error, str):
        raw["onError"] = {"steps": [dump(inner) for inner in step.on_error]}
    elif step.on_error == "continue":
        raw["onError"] = "continue"
    if not step.wait:
        raw["wait"] = False
    return raw


def _dump_rule(rule: Rule) -> dict[str, Any]:
    raw = {"fieldId": rule.field_id, "operator": rule.operator}
    return raw if rule.value is None else {**raw, "value": rule.value}
