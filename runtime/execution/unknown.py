"""What a dry run cannot know: answers of calls that are not made, and everything that depends on them.

An `Unknown` stands among the variables as the text of the placeholder that would ask for it, so whoever reads a
rendered input sees `{{st_2.body.id}}` where the answer would be. Each look-up that meets one is noted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from automations import expressions, paths
from automations.conditions import Found
from automations.contract import Parameter
from automations.values import MISSING
from csbot.lib.errors import TerminalError
from csbot.lib.values import instant_text
from runtime.execution.context import Variables
from runtime.execution.rendering import TICKET_FIELDS, Rendering
from runtime.models import Run

INSTANTS = ("createdAt", "updatedAt", "closedAt")


class Unknown(str):
    """A value that only executing would tell; its text is its placeholder, `path` says what it is."""

    path: str

    def __new__(cls, path: str) -> Unknown:
        """Return the unknown value at a path such as `st_2.body`."""
        made = super().__new__(cls, f"{{{{{path}}}}}")
        made.path = path
        return made


def unknown_paths(value: Any) -> Iterator[str]:
    """Yield the paths of all unknown values inside a value."""
    if isinstance(value, Unknown):
        yield value.path
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from unknown_paths(part)
    elif isinstance(value, list):
        for part in value:
            yield from unknown_paths(part)


@dataclass(frozen=True)
class Snapshot:
    """All names at one moment."""

    names: dict[str, Any]
    owners: dict[str, str]
    ticket: Unknown | None


class DryVariables(Variables):
    """The variables of a dry run. `at` stands for the instants that its own changes write, so two tests are alike."""

    def __init__(self, run: Run, given: Mapping[str, Any], at: datetime) -> None:
        super().__init__(run, given)
        self._at = at
        # Set when what the run's ticket holds by now depends on something unknown.
        self.unknown_ticket: Unknown | None = None

    def __getitem__(self, name: str) -> Any:
        if name != "ticket":
            return super().__getitem__(name)
        return self.unknown_ticket or self.frozen(super().__getitem__(name))

    def frozen(self, ticket: Any) -> Any:
        """Return a ticket's JSON whose instants since the test began are all the beginning of the test."""
        if not isinstance(ticket, Mapping):
            return ticket
        begun = instant_text(self._at)
        fresh = {
            key: begun
            for key in INSTANTS
            if isinstance(ticket.get(key), str) and datetime.fromisoformat(ticket[key]) >= self._at
        }
        return {**ticket, **fresh}

    def snapshot(self) -> Snapshot:
        """Return all names as they are now."""
        return Snapshot(dict(self._names), dict(self._owners), self.unknown_ticket)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to an earlier moment."""
        self._names, self._owners = dict(snapshot.names), dict(snapshot.owners)
        self.unknown_ticket = snapshot.ticket
        self.forget_ticket()

    def meet(self, one: Snapshot, other: Snapshot) -> None:
        """Take the names where two ways meet, of which nobody knows which was taken: what differs is unknown."""
        for name in one.names.keys() | other.names.keys():
            value = one.names.get(name, MISSING)
            if value != other.names.get(name, MISSING):
                value = Unknown(name)
            self._names[name] = value
        self._owners = {**one.owners, **other.owners}
        self.unknown_ticket = one.ticket or other.ticket


class DryRendering(Rendering):
    """Renders as a run does, and notes in `asked` every unknown value that it met."""

    def __init__(self, run: Run, variables: DryVariables, parameters: Sequence[Parameter]) -> None:
        super().__init__(run, variables, parameters)
        self.asked: list[str] = []

    def value(self, template: Any) -> Any:
        """Return the rendered template; a text whose filter cannot take an unknown value stays as it is written."""
        before = len(self.asked)
        try:
            return super().value(template)
        except TerminalError:
            if len(self.asked) == before:
                raise
        if isinstance(template, dict):
            members = {key: self.value(part) for key, part in template.items()}
            return {key: part for key, part in members.items() if part is not MISSING}
        if isinstance(template, list):
            return [part for part in map(self.value, template) if part is not MISSING]
        return template

    def field(self, field_id: str) -> Found:
        """Return what a condition's field holds; of a ticket whose state is unknown, an unknown value."""
        found = super().field(field_id)
        ticket = self._variables.get("ticket")
        if not isinstance(ticket, Unknown) or field_id in self._parameters:
            return found
        is_of_ticket_run = self._run.trigger == Run.Trigger.TICKET
        if found.value is MISSING or (is_of_ticket_run and field_id in TICKET_FIELDS):
            return Found(self._noted(Unknown(f"{ticket.path}.{field_id.removeprefix('ticket.')}")))
        return found

    def _path(self, template: Any) -> Any:
        before = len(self.asked)
        rendered = super()._path(template)
        return rendered if len(self.asked) == before else self.value(template)

    def _lookup(self, path: str) -> Any:
        keys = paths.split(path)
        for length in range(1, len(keys)):
            value = paths.find(self._variables, keys[:length])
            if isinstance(value, Unknown):
                return self._noted(Unknown(paths.join((*paths.split(value.path), *keys[length:]))))
        return self._noted(expressions.resolve(self._variables, path))

    def _noted(self, value: Any) -> Any:
        self.asked += unknown_paths(value)
        return value
