"""What a step can look up where it stands: the names that its trigger and the steps before it provide. Pure.

In a branch these are the names from before and from inside it; after it those of both branches, since either
may have been taken. Inside a loop the names of its whole body count, because an earlier pass may have
provided them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from automations import expressions, paths
from automations.faults import below
from automations.steps import ActionStep, ConditionStep, LoopStep, Step, walk
from automations.trigger import Trigger


@dataclass(frozen=True, slots=True)
class OperationSpec:
    """What the language has to know of an operation.

    `inputs` is the JSON Schema of an object, `outputs` the names of its outputs (None: any may come),
    `provider` the kind of connection that it needs, None for built-in ones.
    """

    op: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] | None = ()
    provider: str | None = None


class Operations(Protocol):
    """Whoever knows the catalogue."""

    def operation(self, op: str) -> OperationSpec | None:
        """Return what is known of an operation, or None when there is none of that name."""


# A ticket run has them; after ticket/upsert any other run has a ticket as well.
TICKET_NAMES = ("ticket", "event", "changes")
_OF_TRIGGER: dict[str, tuple[str, ...]] = {
    "webhook": ("_body", "_headers"),
    "manual": ("_body",),
    "ticket": TICKET_NAMES,
    # A trigger that could not be read: its fault is told, and not one more for each name that it might
    # provide.
    "": ("_body", "_headers", *TICKET_NAMES),
}
# One writer for all steps `data/set` of a name: to set it again is what they are for.
SET = "data/set"
# A foreign call whose answer nobody waits for is a run of its own (SPEC section 5.7); built-in steps always wait.
OF_SENT = ("runId",)

Keys: TypeAlias = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Scope:
    """The names at one place of a tree.

    `names` holds for each the keys that it may have, None for any. `writers` holds for a bare name the steps
    that write it on one way through the tree, but for `fixed` names, which no output takes over. `is_open`
    says that a step named a value by a template, so that any name may be there.
    """

    names: Mapping[str, Keys]
    writers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    is_open: bool = False

    def provides(self, path: str) -> bool:
        """Say whether anything can be at a path."""
        root, *rest = paths.split(path)
        if root not in self.names:
            return self.is_open
        keys = self.names[root]
        return not rest or keys is None or rest[0] in keys

    def plus(self, *names: str) -> Scope:
        """Return the scope with names whose values may be anything."""
        return replace(self, names={**self.names, **dict.fromkeys(names)})

    def after(self, step: ActionStep, spec: OperationSpec | None) -> Scope:
        """Return the scope after an action: its outputs under its id and their bare names (SPEC section 3.3)."""
        if step.op == SET:
            return self._after_set(step)
        # What an unknown operation answers cannot be told here.
        outputs = spec.outputs if spec is not None else None
        if spec is not None and spec.provider is not None and not step.wait:
            outputs = OF_SENT
        names: dict[str, Keys] = {**self.names, **dict.fromkeys(outputs or ())}
        if step.id:
            names[step.id] = None if outputs is None else frozenset(outputs)
        writers = _added(self.writers, dict.fromkeys(set(outputs or ()) - self.fixed, step.id))
        if step.op != "ticket/upsert":
            return replace(self, names=names, writers=writers)
        # From here on `ticket` is the run's own ticket, whoever else has an output of that name.
        writers.pop("ticket", None)
        names |= dict.fromkeys(TICKET_NAMES)
        return replace(self, names=names, writers=writers, fixed=self.fixed | {"ticket"})

    def _after_set(self, step: ActionStep) -> Scope:
        name = step.inputs.get("name")
        here = self.plus(*filter(None, [step.id]))
        if not isinstance(name, str) or "{{" in name:
            return replace(here, is_open=True)
        return replace(here.plus(name), writers=_added(self.writers, {name: SET}))

    def merged(self, other: Scope) -> Scope:
        """Return the scope where two ways meet again."""
        names = dict(self.names)
        for name, keys in other.names.items():
            mine = names.get(name, keys)
            names[name] = None if mine is None or keys is None else mine | keys
        writers = dict(self.writers)
        for name, steps in other.writers.items():
            writers[name] = max(writers.get(name, frozenset()), steps, key=len)
        return Scope(names, writers, self.fixed | other.fixed, self.is_open or other.is_open)

    def without(self, name: str, before: Scope) -> Scope:
        """Return the scope with a name as it was before: an `error` is known to its own steps only."""
        names = {key: keys for key, keys in self.names.items() if key != name}
        return replace(self, names=names | {name: before.names[name]} if name in before.names else names)


def _added(writers: Mapping[str, frozenset[str]], more: Mapping[str, str]) -> dict[str, frozenset[str]]:
    return {**writers, **{name: writers.get(name, frozenset()) | {step} for name, step in more.items()}}


def at_start(trigger: Trigger) -> Scope:
    """Return what a trigger provides: its parameters by their names, and the system's names of its kind."""
    names = [*(param.name for param in trigger.params), *_OF_TRIGGER.get(trigger.kind, ())]
    return Scope(dict.fromkeys(names), fixed=frozenset(names))


def placed(trigger: Trigger, steps: tuple[Step, ...], operations: Operations) -> Iterator[tuple[Step, Scope]]:
    """Yield every step in the order of the document, with what it can look up."""
    yield from _block(steps, at_start(trigger), operations.operation)


_Find: TypeAlias = Callable[[str], OperationSpec | None]
_Walk: TypeAlias = Generator[tuple[Step, Scope], None, Scope]


def _block(steps: tuple[Step, ...], scope: Scope, find: _Find) -> _Walk:
    """Yield the steps of one list; return the scope after it."""
    for step in steps:
        yield step, scope
        if isinstance(step, ConditionStep):
            taken = yield from _block(step.then, scope, find)
            other = yield from _block(step.otherwise, scope, find)
            scope = taken.merged(other)
        elif isinstance(step, LoopStep):
            inside = scope.plus(*filter(None, [step.as_name]))
            scope = yield from _block(step.steps, _with_earlier_passes(inside, step, find), find)
        else:
            scope = yield from _action(step, scope, find)
    return scope


def _action(step: ActionStep, scope: Scope, find: _Find) -> _Walk:
    after = scope.after(step, find(step.op))
    if isinstance(step.on_error, str):
        return after
    handled = yield from _block(step.on_error, scope.plus("error"), find)
    return after.merged(handled.without("error", scope))


def _with_earlier_passes(scope: Scope, loop: LoopStep, find: _Find) -> Scope:
    provided = scope
    for step in walk(loop.steps):
        if isinstance(step, ActionStep):
            provided = provided.after(step, find(step.op))
        elif isinstance(step, LoopStep):
            provided = provided.plus(*filter(None, [step.as_name]))
    return replace(provided, writers=scope.writers, fixed=scope.fixed)


def texts(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield every text inside a value that may be a template, with its pointer; keys are never templates."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from texts(part, below(pointer, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from texts(part, f"{pointer}/{index}")


def templates(step: Step) -> Iterator[tuple[str, str]]:
    """Yield the texts of a step that may be templates, with their pointers; those of its inner steps are not."""
    if isinstance(step, ConditionStep):
        for rule in step.rules:
            yield from texts(rule.value, below(rule.pointer, "value"))
    elif isinstance(step, LoopStep):
        yield from texts(step.items, below(step.pointer, "items"))
    else:
        yield from texts(dict(step.inputs), below(step.pointer, "inputs"))
        yield from texts(step.connection, below(step.pointer, "connection"))


def looked_up(step: Step) -> Iterator[tuple[str, str]]:
    """Yield the paths of a step's placeholders, with their pointers. Raises TemplateError for bad syntax."""
    for pointer, text in templates(step):
        for placeholder in expressions.placeholders(text):
            yield pointer, placeholder.path
