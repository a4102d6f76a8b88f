"""`ticket/*`: what a step can do to tickets (SPEC section 4). Each is one call of `tickets.services`.

They act on the run's ticket unless `ticket` names another one. A refusal of the desk is terminal: the same
step would be refused again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from django.utils.translation import gettext_lazy as _
from pydantic import BeforeValidator, Field, model_validator

from connectors.catalog import Shape, builtin
from csbot.lib.errors import RequestRefused, TerminalError
from csbot.lib.filters import BadFilter
from runtime.execution.context import RunCall
from runtime.execution.operations.shapes import Nothing, Text, as_text
from tickets import numbers, services
from tickets.filters import FILTERS
from tickets.models import Ticket
from tickets.representation import named

MISSING = frozenset({"missing.type", "missing.group", "missing.person"})
"""Codes of SPEC section 13 that a refusal keeps; every other one is `input.invalid`."""


def _as_list(value: Any) -> Any:
    """One tag from a placeholder is a list of one."""
    return value if isinstance(value, list | tuple) or value is None else [value]


Tags = Annotated[list[Text], BeforeValidator(_as_list)]


class OnTicket(Shape):
    """`ticket` is the number of the ticket to act on; without it, the run's own."""

    ticket: Text | None = Field(default=None, description="Number of the ticket, such as TK-1")


class Requester(Shape):
    """Who asked for the work."""

    name: Text | None = None
    email: Text | None = None


class UpsertInputs(Shape):
    """What left out or null stays as it is on a ticket that exists."""

    externalId: Text
    title: Text | None = None
    description: Text | None = None
    type: Text | None = None
    status: Text | None = None
    tags: Tags | None = None
    fields: dict[str, Any] | None = None
    requester: Requester | None = None
    update: bool = False

    def values(self) -> dict[str, Any]:
        """Return what was given, without nulls."""
        names = ("title", "description", "type", "status", "tags", "fields")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.requester and (self.requester.name or self.requester.email):
            given["requester"] = {"name": self.requester.name, "email": self.requester.email}
        return given


class UpsertOutputs(Shape):
    """`ticket` as the API shows it."""

    ticket: dict[str, Any]
    number: str
    created: bool


class AssignInputs(OnTicket):
    """A person (id or e-mail), a group (key or id), or a person in a group."""

    person: Text | None = None
    group: Text | None = None

    @model_validator(mode="after")
    def _names_somebody(self) -> AssignInputs:
        if not (self.person or "").strip() and not (self.group or "").strip():
            raise ValueError("give `person` or `group`")
        return self


class LeastBusyInputs(OnTicket):
    """The group by key or id."""

    group: Text
    reassign: bool = False
    respectCapacity: bool = False


class LeastBusyOutputs(Shape):
    """Who has the ticket now, `{"id", "name"}`; null when it waits in the group's line."""

    assignee: dict[str, Any] | None


class SetTypeInputs(OnTicket):
    """The type by key or id; null or blank takes the type away."""

    type: Text | None


class SetStatusInputs(OnTicket):
    """One of the type's statuses; null or blank takes the status away."""

    status: Text | None


class SetFieldsInputs(OnTicket):
    """Custom fields by key or id; what is not named stays, null removes."""

    fields: dict[str, Any]


class TagsInputs(OnTicket):
    """Tags to add or to remove; all others stay."""

    tags: Tags


class CommentInputs(OnTicket):
    """An internal note, or with `public` a reply."""

    text: Text
    public: bool = False


class FindInputs(Shape):
    """Exactly one way: `number`, `externalId`, or `filter` with the filters of the API's list."""

    number: Text | None = None
    externalId: Text | None = None
    filter: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _is_one_way(self) -> FindInputs:
        if sum(bool(way) for way in (self.number, (self.externalId or "").strip(), self.filter)) != 1:
            raise ValueError("give exactly one of `number`, `externalId` or `filter`, and not blank")
        return self


class FindOutputs(Shape):
    """`ticket` as the API shows it, null when none was found; of several the newest."""

    found: bool
    ticket: dict[str, Any] | None


@contextmanager
def _refusals_are_terminal() -> Iterator[None]:
    """Turn RequestRefused into TerminalError `missing.type|group|person` or `input.invalid`."""
    try:
        yield
    except RequestRefused as refused:
        code = refused.code if refused.code in MISSING else "input.invalid"
        raise TerminalError(code, refused.message) from refused


def _number(call: RunCall, inputs: OnTicket) -> int:
    """Return the number of the ticket to act on. Raises TerminalError when there is none."""
    if inputs.ticket is not None and inputs.ticket.strip():
        return _read_number(inputs.ticket)
    if call.ticket is None:
        raise TerminalError(
            "input.invalid",
            "There is no ticket: the run has none. Put ticket/upsert before this step, or give `ticket`.",
        )
    return call.ticket.number


def _read_number(text: str) -> int:
    written = text.strip()
    number = numbers.read_key(f"TK-{written}" if written.isdigit() else written)
    if number is None:
        raise TerminalError("input.invalid", f"Expected a ticket's number such as TK-1, got {written[:100]}.")
    return number


def _change(call: RunCall, inputs: OnTicket, values: dict[str, Any]) -> Nothing:
    with _refusals_are_terminal():
        services.change(call.tenant, _number(call, inputs), call.actor, values)
    return Nothing()


@builtin(
    "ticket/upsert",
    title=_("Find or create a ticket"),
    inputs=UpsertInputs,
    outputs=UpsertOutputs,
)
def upsert(call: RunCall, inputs: UpsertInputs) -> UpsertOutputs:
    """Find the ticket by external id or create it, and make it the run's ticket."""
    with _refusals_are_terminal():
        ticket, created = services.upsert(
            call.tenant, call.actor, inputs.externalId, inputs.values(), update=inputs.update
        )
    call.adopt(ticket)
    return UpsertOutputs(ticket=services.representation(ticket), number=ticket.key, created=created)


@builtin(
    "ticket/assign",
    title=_("Assign a ticket"),
    inputs=AssignInputs,
    outputs=Nothing,
)
def assign(call: RunCall, inputs: AssignInputs) -> Nothing:
    """Give the ticket to a person or a group."""
    with _refusals_are_terminal():
        services.assign(
            call.tenant, _number(call, inputs), call.actor, person=inputs.person, group=inputs.group
        )
    return Nothing()


@builtin(
    "ticket/assign-least-busy",
    title=_("Assign a ticket to the least busy person"),
    inputs=LeastBusyInputs,
    outputs=LeastBusyOutputs,
)
def assign_least_busy(call: RunCall, inputs: LeastBusyInputs) -> LeastBusyOutputs:
    """Hand the ticket to the person of the group with the fewest open tickets."""
    with _refusals_are_terminal():
        person = services.assign_least_busy(
            call.tenant,
            _number(call, inputs),
            call.actor,
            inputs.group,
            reassign=inputs.reassign,
            respect_capacity=inputs.respectCapacity,
        )
    return LeastBusyOutputs(assignee=named(person))


@builtin(
    "ticket/set-type",
    title=_("Set a ticket's type"),
    inputs=SetTypeInputs,
    outputs=Nothing,
)
def set_type(call: RunCall, inputs: SetTypeInputs) -> Nothing:
    """Set the type; a status that the new type does not offer is cleared."""
    return _change(call, inputs, {"type": inputs.type})


@builtin(
    "ticket/set-status",
    title=_("Set a ticket's status"),
    inputs=SetStatusInputs,
    outputs=Nothing,
)
def set_status(call: RunCall, inputs: SetStatusInputs) -> Nothing:
    """Set the status; one that the type does not offer is terminal."""
    return _change(call, inputs, {"status": inputs.status})


@builtin(
    "ticket/set-fields",
    title=_("Set custom fields of a ticket"),
    inputs=SetFieldsInputs,
    outputs=Nothing,
)
def set_fields(call: RunCall, inputs: SetFieldsInputs) -> Nothing:
    """Merge custom fields into the ticket's."""
    return _change(call, inputs, {"fields": inputs.fields})


@builtin(
    "ticket/close",
    title=_("Close a ticket"),
    inputs=OnTicket,
    outputs=Nothing,
)
def close(call: RunCall, inputs: OnTicket) -> Nothing:
    """Close the ticket; status and tags stay."""
    return _change(call, inputs, {"closed": True})


@builtin(
    "ticket/reopen",
    title=_("Reopen a ticket"),
    inputs=OnTicket,
    outputs=Nothing,
)
def reopen(call: RunCall, inputs: OnTicket) -> Nothing:
    """Open the ticket again; status and tags stay."""
    return _change(call, inputs, {"closed": False})


@builtin(
    "ticket/add-tags",
    title=_("Add tags to a ticket"),
    inputs=TagsInputs,
    outputs=Nothing,
)
def add_tags(call: RunCall, inputs: TagsInputs) -> Nothing:
    """Add tags; the others stay."""
    return _change(call, inputs, {"addTags": inputs.tags})


@builtin(
    "ticket/remove-tags",
    title=_("Remove tags from a ticket"),
    inputs=TagsInputs,
    outputs=Nothing,
)
def remove_tags(call: RunCall, inputs: TagsInputs) -> Nothing:
    """Remove tags; the others stay."""
    return _change(call, inputs, {"removeTags": inputs.tags})


@builtin(
    "ticket/comment",
    title=_("Comment on a ticket"),
    inputs=CommentInputs,
    outputs=Nothing,
)
def comment(call: RunCall, inputs: CommentInputs) -> Nothing:
    """Write an internal note or a public reply."""
    with _refusals_are_terminal():
        services.comment(call.tenant, _number(call, inputs), call.actor, inputs.text, public=inputs.public)
    return Nothing()


@builtin(
    "ticket/find",
    title=_("Find a ticket"),
    inputs=FindInputs,
    outputs=FindOutputs,
)
def find(call: RunCall, inputs: FindInputs) -> FindOutputs:
    """Find a ticket by number, external id or filter; the run's own ticket stays the same."""
    tickets = Ticket.objects.of(call.tenant).select_related("type", "assignee", "group")
    if inputs.number:
        tickets = tickets.filter(number=_read_number(inputs.number))
    elif inputs.externalId:
        tickets = tickets.filter(external_id=inputs.externalId)
    for name, value in (inputs.filter or {}).items():
        tickets = _narrowed(tickets, name, value)
    ticket = tickets.order_by("-pk").first()
    return FindOutputs(found=ticket is not None, ticket=services.representation(ticket) if ticket else None)


def _narrowed(tickets: Any, name: str, value: Any) -> Any:
    text = as_text(value)
    if name not in FILTERS or not isinstance(text, str):
        known = ", ".join(sorted(FILTERS))
        raise TerminalError("input.invalid", f"filter: expected texts for {known}; got {name[:100]}.")
    try:
        return FILTERS[name](tickets, text)
    except BadFilter as error:
        raise TerminalError("input.invalid", f"filter, {name}: {error}") from error
