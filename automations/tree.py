"""The tree of an automation: a trigger and its steps, read, checked as a whole and written back (SPEC 3). Pure.

`parse` is for what people post: every fault at once, each with its pointer. `parse_stored` is for versions
that have passed it: only their structure is read, for a run does not ask again what was asked when the
version was saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from automations import meaning, steps, trigger
from automations.conditions import Rule
from automations.faults import Fault, Faults, too_deep
from automations.meaning import Known
from automations.scope import OperationSpec
from automations.steps import MAX_STEPS, ActionStep, ConditionStep, LoopStep, Step, StepReader
from automations.trigger import Trigger

__all__ = [
    "MAX_STEPS",
    "ActionStep",
    "ConditionStep",
    "Fault",
    "Known",
    "LoopStep",
    "OperationSpec",
    "Rule",
    "Step",
    "Tree",
    "TreeError",
    "Trigger",
    "dump",
    "parse",
    "parse_stored",
]

# MAX_STEPS nested in one another, each in an `onError`, are 150 levels; the rest is for inputs.
MAX_DEPTH = 200
# A step's path in a run (`st_3/17/st_4`) has so many characters at most; each loop adds its id and an index.
MAX_PATH = 500
LONGEST_INDEX = len("/999/")


@dataclass(frozen=True, slots=True)
class Tree:
    """A trigger and the steps that it starts."""

    trigger: Trigger
    steps: tuple[Step, ...]


class TreeError(Exception):
    """A document that is no tree, with everything that is wrong with it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(f"{fault.pointer}: {fault.message}" for fault in faults))
        self.faults = list(faults)


def parse(raw: Any, known: Known) -> Tree:
    """Return the tree of a posted document `{"trigger", "steps"}`. Raises TreeError with every fault.

    `known` answers for the tenant which operations, groups, types, people, connections and automations there
    are.
    """
    tree, faults = _read(raw)
    faults += meaning.faults(tree.trigger, tree.steps, known)
    if faults:
        raise TreeError(faults)
    return tree


def parse_stored(raw: Any) -> Tree:
    """Return the tree of a stored version. Raises TreeError for what has not the structure of a tree."""
    tree, faults = _read(raw)
    if faults:
        raise TreeError(faults)
    return tree


def dump(tree: Tree) -> dict[str, Any]:
    """Return the document that `parse` reads as this tree."""
    return {"trigger": tree.trigger.dump(), "steps": [steps.dump(step) for step in tree.steps]}


def _read(raw: Any) -> tuple[Tree, list[Fault]]:
    faults = Faults()
    deep = too_deep(raw, MAX_DEPTH)
    if deep is not None:
        faults.add(deep, "limit.depth", f"Expected at most {MAX_DEPTH} levels.")
        raise TreeError(faults.found)
    part = faults.object(raw, "", known=("trigger", "steps")) or {}
    for key in ("trigger", "steps"):
        if isinstance(raw, dict) and key not in part:
            faults.add(f"/{key}", "key.missing", f"Expected `{key}`.")
    read_trigger = trigger.read(part["trigger"], faults, "/trigger") if "trigger" in part else trigger.UNKNOWN
    read_steps = StepReader(faults).read(part.get("steps", []), "/steps")
    _check_paths(read_steps, 0, faults)
    return Tree(read_trigger, read_steps), faults.found


def _check_paths(found: Sequence[Step], length: int, faults: Faults) -> None:
    """Add a fault for each step whose path in a run would be longer than one can be."""
    for step in found:
        own = length + len(step.id)
        if own > MAX_PATH:
            told = f"Nested too deep under long ids: a path has at most {MAX_PATH} characters."
            faults.add(step.pointer, "limit.path", told)
        for _, inner in steps.branches(step):
            _check_paths(inner, own + LONGEST_INDEX if isinstance(step, LoopStep) else length, faults)
