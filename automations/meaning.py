"""Whether what a tree names exists: operations and their inputs, references, connections, placeholders. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Protocol, TypeGuard

from automations import contract, expressions, paths, scope
from automations.conditions import OF_TICKET_RUNS, Rule
from automations.expressions import TemplateError
from automations.faults import Fault, Faults, below
from automations.names import name_fault
from automations.scope import Operations, OperationSpec, Scope
from automations.steps import ActionStep, ConditionStep, LoopStep, Step, walk
from automations.trigger import Trigger

# Fields that a condition of a ticket run may name without `ticket.` (SPEC section 3.2).
BUILT_IN_FIELDS = frozenset({"status", "type", "tags", "closed", "assignee", "group", "title"})
# Inputs of built-in operations that name something of the tenant's.
REFERENCES = ("group", "type", "person", "automation")


class Known(Operations, Protocol):
    """What the check of a tree asks the tenant's data."""

    def has(self, kind: str, reference: str) -> bool:
        """Say whether there is a `group`, `type`, `person` or `automation` of this key, id, name or e-mail."""

    def provider_of(self, connection: str) -> str | None:
        """Return the provider of the connection of this name or id, or None when there is none."""

    def ticket_fields(self) -> Collection[str]:
        """Return the ids of the custom fields of all ticket types."""

    def statuses(self, type_key: str | None) -> Collection[str]:
        """Return the statuses that a ticket type offers, or all types together; none for an unknown type."""


def faults(trigger: Trigger, steps: tuple[Step, ...], known: Known) -> list[Fault]:
    """Return everything that the trigger and the steps name and that does not exist, with its pointer."""
    found = Faults()
    _check_trigger(trigger, known, found)
    _check_names(trigger, steps, found)
    for step, names in scope.placed(trigger, steps, known):
        _check_templates(step, names, found)
        if isinstance(step, ActionStep):
            _check_action(step, known, found)
        elif isinstance(step, ConditionStep):
            for rule in step.rules:
                _check_field(rule, trigger, names, known, found)
    return found.found


def _check_trigger(trigger: Trigger, known: Known, found: Faults) -> None:
    wanted = trigger.settings.get("filter")
    types = wanted.get("type") if isinstance(wanted, dict) else None
    for pointer, key in scope.texts(types, "/trigger/filter/type"):
        _check_reference("type", key, pointer, known, found)
    order_key = trigger.settings.get("orderKey")
    if isinstance(order_key, str):
        _check_text(order_key, "/trigger/orderKey", scope.at_start(trigger), found)


def _check_names(trigger: Trigger, steps: tuple[Step, ...], found: Faults) -> None:
    """Tell ids that are given twice, and names that would hide a step's outputs."""
    taken: dict[str, str] = {}
    params = {param.name for param in trigger.params}
    for step in walk(steps):
        pointer = below(step.pointer, "id")
        if step.id in taken:
            found.add(
                pointer, "id.duplicate", f"The step at {taken[step.id]} has the id {step.id!r} as well."
            )
        elif step.id in params:
            found.add(pointer, "id.taken", f"A parameter of the trigger has the name {step.id!r}.")
        elif step.id:
            taken[step.id] = step.pointer
    for step in walk(steps):
        for pointer, name in _names_given(step):
            if name in taken:
                found.add(pointer, "name.taken", f"The step at {taken[name]} has the id {name!r}.")


def _names_given(step: Step) -> Iterator[tuple[str, str]]:
    if isinstance(step, LoopStep):
        yield below(step.pointer, "as"), step.as_name
    elif isinstance(step, ActionStep) and step.op == scope.SET:
        name = step.inputs.get("name")
        if isinstance(name, str):
            yield f"{step.pointer}/inputs/name", name


# --- actions ------------------------------------------------------------------------------------------------


def _check_action(step: ActionStep, known: Known, found: Faults) -> None:
    spec = known.operation(step.op) if step.op else None
    if spec is None:
        if step.op:
            found.add(below(step.pointer, "op"), "op.unknown", f"There is no operation {step.op!r}.")
        return
    _check_inputs(step, spec, found)
    _check_connection(step, spec, known, found)
    if spec.provider is None:
        for kind in REFERENCES:
            if kind in step.inputs:
                place = f"{step.pointer}/inputs/{kind}"
                _check_reference(kind, step.inputs[kind], place, known, found)
    name = step.inputs.get("name")
    if step.op == scope.SET and _is_literal(name) and (told := name_fault(name)):
        found.add(f"{step.pointer}/inputs/name", "name.invalid", told)


def _check_inputs(step: ActionStep, spec: OperationSpec, found: Faults) -> None:
    place = below(step.pointer, "inputs")
    properties = spec.inputs.get("properties", {})
    for name in spec.inputs.get("required", []):
        if step.inputs.get(name) is None:
            found.add(below(place, name), "input.missing", f"{step.op} needs the input `{name}`.")
    if spec.inputs.get("additionalProperties"):
        return
    for name in step.inputs:
        if name not in properties:
            message = f"{step.op} has no input `{name}`; it has {', '.join(properties) or 'none'}."
            found.add(below(place, name), "input.unknown", message)


def _check_connection(step: ActionStep, spec: OperationSpec, known: Known, found: Faults) -> None:
    place = below(step.pointer, "connection")
    if spec.provider is None:
        if step.connection is not None:
            found.add(place, "connection.unused", f"{step.op} needs no connection.")
        return
    if step.connection is None:
        message = f"{step.op} needs a connection of provider {spec.provider}."
        found.add(place, "connection.missing", message)
        return
    if not _is_literal(step.connection):
        return
    provider = known.provider_of(step.connection)
    if provider is None:
        found.add(place, "connection.unknown", f"There is no connection {step.connection!r}.")
    elif provider != spec.provider:
        message = f"{step.op} needs a connection of provider {spec.provider}; this one is of {provider}."
        found.add(place, "connection.unknown", message)


def _check_reference(kind: str, value: Any, pointer: str, known: Known, found: Faults) -> None:
    if _is_literal(value) and not known.has(kind, value):
        found.add(pointer, f"{kind}.unknown", f"There is no {kind} {value!r}.")


def _is_literal(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and "{{" not in value


# --- what is looked up --------------------------------------------------------------------------------------


def _check_templates(step: Step, names: Scope, found: Faults) -> None:
    for pointer, text in scope.templates(step):
        _check_text(text, pointer, names, found)


def _check_text(text: str, pointer: str, names: Scope, found: Faults) -> None:
    try:
        placeholders = expressions.placeholders(text)
    except TemplateError as error:
        found.add(pointer, "template.invalid", error.message)
        return
    for placeholder in placeholders:
        if not names.provides(placeholder.path):
            message = f"Nothing here can provide {{{{{placeholder.path}}}}}."
            found.add(pointer, "reference.unknown", message)


def _check_field(rule: Rule, trigger: Trigger, names: Scope, known: Known, found: Faults) -> None:
    place = below(rule.pointer, "fieldId")
    is_ticket_run = trigger.kind in ("ticket", "")
    if rule.operator in OF_TICKET_RUNS and not is_ticket_run:
        message = f"`{rule.operator}` asks for the change that triggered a ticket run."
        found.add(below(rule.pointer, "operator"), "operator.invalid", message)
    if not rule.field_id or rule.field_id in contract.by_field_id(trigger.params):
        return
    if is_ticket_run and (rule.field_id in BUILT_IN_FIELDS or rule.field_id in known.ticket_fields()):
        return
    if len(paths.split(rule.field_id)) > paths.MAX_KEYS or not names.provides(rule.field_id):
        found.add(place, "reference.unknown", f"Nothing here can provide the field {rule.field_id!r}.")
