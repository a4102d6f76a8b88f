"""What a run knows while it executes: its variables, its ticket, and which run is executing at all.

Variables come from the run's input and from its step rows alone, so a resumed run has the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from connectors.catalog import Call
from runtime.models import Run
from tickets.models import Ticket
from tickets.representation import representation

current_run: ContextVar[Run | None] = ContextVar("current_run", default=None)
"""The run that this thread executes, for whoever has to know what caused a change (SPEC section 6)."""


@dataclass
class RunCall(Call):
    """A call of a built-in operation: it knows the run and the ticket that the run is about."""

    run: Run
    ticket: Ticket | None
    adopt: Callable[[Ticket], None]


class Variables(Mapping[str, Any]):
    """The names that templates and conditions can look up.

    A step's outputs are published under its id always, and under their bare names only where no such name is known
    yet (SPEC section 3.3); the same step may overwrite its own bare name in a later pass of a loop.
    """

    def __init__(self, run: Run, given: Mapping[str, Any]) -> None:
        self._run = run
        self._names: dict[str, Any] = {}
        self._owners: dict[str, str] = {}
        self._ticket: Ticket | None = None
        if "body" in given:
            self._names.update({"_body": given["body"], "_headers": given.get("headers") or {}})
            self._names.update(given.get("params") or {})
        else:
            self._names.update({"event": given.get("event"), "changes": given.get("changes") or {}})

        # What the trigger gave keeps its meaning in the whole tree, whatever a rendered name says.
        self._given = frozenset(self._names)

    def __getitem__(self, name: str) -> Any:
        if name == "ticket" and self._run.ticket_id is not None:
            return representation(self._present_ticket())
        return self._names[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._names
        if self._run.ticket_id is not None:
            yield "ticket"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def forget_ticket(self) -> None:
        """Read the ticket anew when it is next asked for: what goes out is its present state."""
        self._ticket = None

    def name(self, name: str, value: Any) -> None:
        """Give a value a name: a loop's variable, `error`, or what `data/set` says."""
        self._names[name] = value

    def publish(self, step_id: str, op: str, outputs: Mapping[str, Any]) -> None:
        """Publish a step's outputs; the one way for built-in and foreign operations."""
        self._names[step_id] = outputs
        self._owners.setdefault(step_id, step_id)
        if op == "data/set":
            if outputs["name"] not in self._given:
                self._names[outputs["name"]] = outputs["value"]
            return
        for name, value in outputs.items():
            if self._owners.get(name) == step_id or name not in self._names:
                self._names[name] = value
                self._owners[name] = step_id

    def ticket_fields(self) -> list[dict[str, Any]]:
        """Return the custom fields that the present type of the run's ticket defines; none without a type."""
        if self._run.ticket_id is None:
            return []
        type_ = self._present_ticket().type
        return list(type_.fields) if type_ else []

    def _present_ticket(self) -> Ticket:
        if self._ticket is None:
            tickets = Ticket.objects.of(self._run.tenant).select_related("type", "assignee", "group")
            self._ticket = tickets.get(pk=self._run.ticket_id)
        return self._ticket
