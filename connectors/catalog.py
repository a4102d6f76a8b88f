"""The one catalogue of operations, built-in and foreign: what a step can do, with what, and how often.

A module declares an operation once with `@operation`; validation, JSON Schema, forms and documentation come from
that declaration (SPEC sections 4 and 10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict

from connectors.models import Connection
from tickets.events import Actor
from tickets.models import Tenant


class Repeat(Enum):
    """Whether a call whose outcome is unknown may be sent again (SPEC sections 5.3 to 5.5)."""

    SAFE = "safe"
    """Reading: repeated freely."""
    KEYED = "keyed"
    """Repeated with the same idempotency key."""
    ONCE = "once"
    """Never repeated: the run goes to review."""


class Shape(BaseModel):
    """Base of the inputs and outputs of operations. Names are camelCase as in the API; unknown inputs are refused."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, strict=False)


@dataclass
class Call:
    """What an operation is called with besides its inputs.

    `deadline` is a value of `time.monotonic()`; `idempotency_key` stays the same for the same step and pass of the
    same run; `has_given_key` says that the step itself gave it; `log(code, **params)` writes a line into the run's log.
    """

    tenant: Tenant
    connection: Connection | None
    actor: Actor
    idempotency_key: str
    has_given_key: bool
    deadline: float
    log: Callable[..., None]


@dataclass(frozen=True)
class Operation:
    """One entry of the catalogue. `builtin` ones run inside the transaction of their step row."""

    op: str
    title: Any
    inputs: type[Shape]
    outputs: type[Shape]
    repeat: Repeat | Callable[[Any, bool], Repeat]
    function: Callable[[Any, Any], Any]
    provider: str | None = None
    builtin: bool = False
    # Set for an operation that begins something and waits for its end without a slot: `(call, inputs, begun)` gives
    # the outputs, or None while it is not over. `begun` is what `function` returned; its `until` says when to look.
    waits: Callable[[Any, Any, dict[str, Any]], dict[str, Any] | None] | None = None
    timeout_seconds: float = 35.0
    # How often a poll that begins with this operation runs; None for the usual period.
    poll_seconds: int | None = None
    # Fields of `inputs` that only the operation may render itself, such as a path whose parts are percent-encoded.
    raw_inputs: frozenset[str] = field(default_factory=frozenset)

    def repeat_of(self, inputs: Any, has_given_key: bool) -> Repeat:
        """Return the repeat class of one call; `inputs` are the validated inputs."""
        return self.repeat if isinstance(self.repeat, Repeat) else self.repeat(inputs, has_given_key)

    @property
    def idempotent(self) -> bool | str:
        """True, False or `depends`, as the catalogue shows it."""
        if callable(self.repeat):
            return "depends"
        return self.repeat is not Repeat.ONCE


_operations: dict[str, Operation] = {}


def operation(op: str, **declaration: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function `(call, inputs) -> outputs` as operation `op`. Raises ValueError for a second one."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if op in _operations:
            raise ValueError(f"Operation {op} is declared twice.")
        _operations[op] = Operation(op=op, function=function, **declaration)
        return function

    return register


def builtin(op: str, **declaration: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an operation of csbot's own: it runs in the transaction of its step row, so it happens exactly once."""
    return operation(op, repeat=Repeat.SAFE, builtin=True, **declaration)


def find(op: str) -> Operation | None:
    """Return the operation named `op`, or None when there is none."""
    return _operations.get(op)


def every() -> Iterator[Operation]:
    """Yield all operations in the order of their names."""
    for op in sorted(_operations):
        yield _operations[op]
