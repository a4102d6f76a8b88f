"""Warnings about what people regret although it is allowed; computed against the contract (SPEC section 3). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from automations import contract, paths, scope
from automations.conditions import ORDERING, Rule
from automations.faults import below
from automations.meaning import Known
from automations.scope import Scope
from automations.steps import ActionStep, ConditionStep, LoopStep, Step
from automations.tree import Tree

_NEGATIVE = frozenset({"neq", "notContains"})


@dataclass(frozen=True, slots=True)
class Warning:
    """What may be regretted and where: a pointer as of a fault, a stable code, a sentence.

    Codes: `rule.optional`, `rule.textOrder`, `status.unoffered`, `name.ambiguous`.
    """

    pointer: str
    code: str
    message: str


def warnings(tree: Tree, known: Known) -> list[Warning]:
    """Return the warnings of a tree without faults, in the order of the document."""
    found = [*_of_filter(tree, known), *_of_rules(tree, tree.steps, frozenset())]
    for step, names in scope.placed(tree.trigger, tree.steps, known):
        found += _of_status(step, tree, known)
        found += _of_bare_names(step, names)
    return found


# --- rules --------------------------------------------------------------------------------------------------


def _of_rules(tree: Tree, steps: tuple[Step, ...], arrived: frozenset[str]) -> Iterator[Warning]:
    """Walk the tree with the names of the optional parameters that are known not to be empty on each way."""
    for step in steps:
        if isinstance(step, ConditionStep):
            yield from _of_condition(tree, step, arrived)
            yield from _of_rules(tree, step.then, arrived | _asked(tree, step, "isNotEmpty", "all"))
            yield from _of_rules(tree, step.otherwise, arrived | _asked(tree, step, "isEmpty", "any"))
        elif isinstance(step, LoopStep):
            yield from _of_rules(tree, step.steps, arrived)
        elif not isinstance(step.on_error, str):
            yield from _of_rules(tree, step.on_error, arrived)


def _asked(tree: Tree, step: ConditionStep, operator: str, match: str) -> frozenset[str]:
    """Return the parameters that are not empty on the way where these rules all have to hold, or all to fail."""
    if step.match != match and len(step.rules) > 1:
        return frozenset()
    params = contract.by_field_id(tree.trigger.params)
    return frozenset(
        params[rule.field_id].name
        for rule in step.rules
        if rule.operator == operator and rule.field_id in params
    )


def _of_condition(tree: Tree, step: ConditionStep, arrived: frozenset[str]) -> Iterator[Warning]:
    known_here = arrived | _asked(tree, step, "isNotEmpty", "all")
    params = contract.by_field_id(tree.trigger.params)
    for rule in step.rules:
        param = params.get(rule.field_id)
        if param is None:
            continue
        if rule.operator in _NEGATIVE and not param.required and param.name not in known_here:
            yield Warning(
                rule.pointer,
                "rule.optional",
                f"`{rule.operator}` holds as well when `{param.name}` did not arrive; add `isNotEmpty` beside it.",
            )
        if rule.operator in ORDERING and param.type == "string":
            yield Warning(
                below(rule.pointer, "operator"),
                "rule.textOrder",
                f"`{param.name}` is a text: only numbers and dates have an order; give it another type.",
            )


# --- statuses -----------------------------------------------------------------------------------------------


def _of_filter(tree: Tree, known: Known) -> Iterator[Warning]:
    wanted = tree.trigger.settings.get("filter", {})
    for pointer, status in scope.texts(wanted.get("status"), "/trigger/filter/status"):
        yield from _unoffered(status, None, pointer, known)


def _of_status(step: Step, tree: Tree, known: Known) -> Iterator[Warning]:
    if isinstance(step, ActionStep) and step.op in ("ticket/set-status", "ticket/upsert"):
        type_ = step.inputs.get("type")
        is_literal = isinstance(type_, str) and "{{" not in type_
        pointer = f"{step.pointer}/inputs/status"
        yield from _unoffered(step.inputs.get("status"), type_ if is_literal else None, pointer, known)
    elif isinstance(step, ConditionStep):
        for rule in step.rules:
            if _is_about_status(rule, tree):
                for pointer, status in scope.texts(rule.value, below(rule.pointer, "value")):
                    yield from _unoffered(status, None, pointer, known)


def _is_about_status(rule: Rule, tree: Tree) -> bool:
    if rule.field_id in contract.by_field_id(tree.trigger.params):
        return False
    names = ("ticket.status", "status") if tree.trigger.kind == "ticket" else ("ticket.status",)
    return rule.field_id in names and rule.operator in ("eq", "neq", "in", "notIn", "changedTo")


def _unoffered(status: object, type_: str | None, pointer: str, known: Known) -> Iterator[Warning]:
    if not isinstance(status, str) or not status.strip() or "{{" in status:
        return
    if status not in known.statuses(type_):
        offering = f"the ticket type {type_!r} does not offer" if type_ else "no ticket type offers"
        yield Warning(pointer, "status.unoffered", f"A status that {offering}: {status!r}.")


# --- bare names ---------------------------------------------------------------------------------------------


def _of_bare_names(step: Step, names: Scope) -> Iterator[Warning]:
    fields = (
        [(below(rule.pointer, "fieldId"), rule.field_id) for rule in step.rules]
        if isinstance(step, ConditionStep)
        else []
    )
    told: set[tuple[str, str]] = set()
    for pointer, path in [*fields, *scope.looked_up(step)]:
        name = paths.split(path)[0]
        writers = names.writers.get(name, frozenset())
        if len(writers) > 1 and (pointer, name) not in told:
            told.add((pointer, name))
            ways = " or ".join(
                f"{{{{{writer}.{name}}}}}" for writer in sorted(writers) if writer != scope.SET
            )
            message = f"`{name}` is written by {len(writers)} steps and the first one counts; say {ways}."
            yield Warning(pointer, "name.ambiguous", message)
