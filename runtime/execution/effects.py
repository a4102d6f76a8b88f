"""What a step would do, as a sentence: codes and parameters here, their texts in `runtime.messages`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from automations import values
from runtime import messages
from tickets import messages as ticket_messages
from tickets.models import TicketEvent

# A sentence is for reading; the whole value stands in the step's inputs.
MAX_SHOWN = 200


@dataclass(frozen=True)
class Told:
    """A sentence for people: `code` of `runtime.messages`; `changes` are those of one ticket, told in the sentence.

    `volatile` parameters differ between two tests of the same, such as an instant; they are not compared.
    """

    code: str
    params: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] | None = None
    volatile: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def text(self, language: str) -> str:
        """Return the sentence in `language`."""
        params = {**self.params, **self.volatile}
        if self.changes is not None:
            entry = TicketEvent(code="ticket.changed", data={"changes": self.changes})
            params["changes"] = ticket_messages.rendered(entry, language)
        return messages.rendered(self.code, params, language)


@dataclass(frozen=True)
class TicketChange:
    """One edit that a step made: of which ticket, whether it is new, and what it changed."""

    ticket_id: int
    key: str
    is_new: bool
    changes: dict[str, Any]


def of_built_in(
    op: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    edits: Sequence[TicketChange],
    ticket: str | None,
) -> list[Told]:
    """Return what a built-in operation did; `ticket` is the number of the ticket it acted on, if any."""
    told = _of_operation(op, inputs, outputs, ticket)
    for edit in edits:
        if edit.is_new:
            told.insert(0, Told("test.ticket.created", changes=edit.changes))
        else:
            told.append(Told("test.ticket.changed", {"ticket": edit.key}, changes=edit.changes))
    return told or [Told("test.ticket.unchanged", {"ticket": ticket or ""})]


def _of_operation(
    op: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], ticket: str | None
) -> list[Told]:
    if op == "ticket/upsert":
        return [] if outputs["created"] else [Told("test.ticket.event", {"ticket": outputs["number"]})]
    if op == "ticket/find":
        found = outputs["ticket"]
        return [
            Told("test.ticket.found", {"ticket": found["number"]}) if found else Told("test.ticket.notFound")
        ]
    if op == "ticket/comment":
        code = "test.ticket.reply" if inputs.get("public") else "test.ticket.note"
        return [Told(code, {"ticket": ticket or "", "text": shown(inputs.get("text"))})]
    if op == "incident/create":
        return [Told("test.incident", {"title": shown(inputs.get("title"))})]
    if op == "flow/log":
        return [Told("test.flow.log", {"message": shown(inputs.get("message"))})]
    if op == "flow/stop":
        return [Told("test.flow.stop")]
    if op == "data/set":
        return [Told("test.data.set", {"name": outputs["name"], "value": shown(outputs["value"])})]
    return [] if op.startswith("ticket/") else [Told("test.does", {"op": op})]


def shown(value: Any) -> str:
    """Return a value as it stands in a sentence."""
    text = values.text_of(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
