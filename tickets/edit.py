"""What an edit makes of a ticket in memory: the three axes, the fields and the references. Writes nothing.

The axes never touch one another, with the one exception that SPEC section 4 names: a new type clears a status
that it does not offer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from csbot.lib.values import escape
from tickets import fields, references, search
from tickets.models import Tenant, Ticket
from tickets.representation import state
from tickets.values import MAX_TAGS, Fault, refuse

_REFERENCES: tuple[tuple[str, str, Callable[[Tenant, str], Any]], ...] = (
    ("type", "missing.type", references.type_of),
    ("group", "missing.group", references.group_of),
    ("assignee", "missing.person", references.person_of),
)

WRITTEN = (
    "external_id", "title", "description", "type_id", "status", "closed", "closed_at", "tags", "assignee_id",
    "group_id", "fields", "requester_name", "requester_email", "in_line_since", "search_text",
)  # fmt: skip
"""Columns that an edit may change."""


@dataclass(frozen=True)
class Before:
    """A ticket as it was before an edit: as others see it, and its columns."""

    shown: dict[str, Any]
    columns: dict[str, Any]

    @classmethod
    def of(cls, ticket: Ticket) -> Before:
        """Return the present state of `ticket`."""
        return cls(state(ticket), {name: getattr(ticket, name) for name in WRITTEN})

    def differences(self, ticket: Ticket) -> dict[str, Any]:
        """Return the columns of `ticket` that are not as they were, with their new values."""
        columns = {name: getattr(ticket, name) for name in WRITTEN}
        return {name: value for name, value in columns.items() if not fields.equal(value, self.columns[name])}


def apply(ticket: Ticket, values: Mapping[str, Any], *, now: datetime, is_new: bool = False) -> None:
    """Set the clean `values` (`tickets.values.checked`) on `ticket`; keys that are not there change nothing.

    Raises RequestRefused 400 with every fault; code `missing.type`, `missing.group`, `missing.person` or
    `ticket.invalid`.
    """
    type_before, group_before = ticket.type_id, ticket.group_id
    faults = _set_references(ticket, values)
    if faults:
        refuse(faults)
    has_new_type = is_new or ticket.type_id != type_before
    for key in ("title", "description"):
        if key in values:
            setattr(ticket, key, values[key])
    if "externalId" in values:
        ticket.external_id = values["externalId"]
    if "requester" in values:
        requester = values["requester"] or {"name": None, "email": None}
        ticket.requester_name, ticket.requester_email = requester["name"], requester["email"]
    faults += _set_status(ticket, values, has_new_type)
    faults += _set_tags(ticket, values)
    faults += _set_fields(ticket, values, has_new_type)
    if faults:
        refuse(faults)
    if values.get("closed", ticket.closed) != ticket.closed:
        ticket.closed = values["closed"]
        ticket.closed_at = now if ticket.closed else None
    settle_line(ticket, group_before)
    ticket.search_text = search.searched_text(
        title=ticket.title,
        description=ticket.description,
        external_id=ticket.external_id,
        requester=[ticket.requester_name, ticket.requester_email],
    )


def settle_line(ticket: Ticket, group_before: int | None) -> None:
    """Take the ticket out of its group's line when somebody has it, when it is closed or in another group."""
    if ticket.assignee_id or ticket.closed or ticket.group_id != group_before:
        ticket.in_line_since = None


def _set_references(ticket: Ticket, values: Mapping[str, Any]) -> list[Fault]:
    faults = []
    for key, code, find in _REFERENCES:
        if key not in values:
            continue
        reference = values[key]
        row = find(ticket.tenant, reference) if reference is not None else None
        if reference is not None and row is None:
            faults.append(Fault(code, f"/{key}", f"There is no such {code.partition('.')[2]}: {reference}."))
        else:
            setattr(ticket, key, row)
    return faults


def _set_status(ticket: Ticket, values: Mapping[str, Any], has_new_type: bool) -> list[Fault]:
    """A ticket without a type may have any status, since nothing offers one."""
    offered = ticket.type.statuses if ticket.type else None
    if "status" not in values:
        if has_new_type and offered is not None and ticket.status not in offered:
            ticket.status = None
        return []
    status = values["status"]
    is_checked = status is not None and (has_new_type or status != ticket.status)
    if is_checked and offered is not None and status not in offered:
        expected = f"The type {ticket.type.key} offers: {', '.join(offered) or 'no status'}."
        return [Fault("ticket.invalid", "/status", f"{expected} Got {status}.")]
    ticket.status = status
    return []


def _set_tags(ticket: Ticket, values: Mapping[str, Any]) -> list[Fault]:
    removed = set(values.get("removeTags", ()))
    wanted = [*values.get("tags", ticket.tags), *values.get("addTags", ())]
    tags = [tag for tag in dict.fromkeys(wanted) if tag not in removed]
    if len(tags) > MAX_TAGS:
        pointer = "/tags" if "tags" in values else "/addTags"
        return [Fault("ticket.invalid", pointer, f"A ticket has at most {MAX_TAGS} tags.")]
    # Tags are a set: another order of the same ones is no change.
    if set(tags) != set(ticket.tags):
        ticket.tags = tags
    return []


def _set_fields(ticket: Ticket, values: Mapping[str, Any], has_new_type: bool) -> list[Fault]:
    definitions = ticket.type.fields if ticket.type else []
    if "fields" in values:
        merged, faults = fields.merged(definitions, ticket.fields, values["fields"])
        if faults:
            return [Fault("ticket.invalid", f"/fields{pointer}", text) for pointer, text in faults.items()]
        ticket.fields = merged  # type: ignore[assignment]  # a field of the model, a dict on a row
    if not has_new_type:
        return []
    return [
        Fault("ticket.invalid", f"/fields/{escape(key)}", f"The type {ticket.type.key} requires this field.")
        for key in fields.missing(definitions, ticket.fields)
    ]
