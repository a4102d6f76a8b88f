"""A ticket as everybody outside sees it: the JSON of SPEC section 13, and what one edit changed of it."""

from __future__ import annotations

from typing import Any

from csbot.lib.values import instant_text
from tickets import messages
from tickets.fields import equal
from tickets.models import Group, Person, Ticket, TicketEvent

BEFORE_CREATION: dict[str, Any] = {
    "externalId": None,
    "title": None,
    "description": None,
    "type": None,
    "status": None,
    "closed": False,
    "tags": [],
    "assignee": None,
    "group": None,
    "requester": None,
}
"""What a log is replayed onto: the values that a ticket has before its `created` entry."""


def representation(ticket: Ticket) -> dict[str, Any]:
    """Return the JSON of a ticket: of the API, of `{{ticket…}}` in templates and of what goes out.

    Unknown values are null; instants are ISO 8601 in UTC; `type` is the type's key, `number` is `TK-1`.
    """
    return {
        "number": ticket.key,
        "externalId": ticket.external_id,
        "title": ticket.title,
        "description": ticket.description or None,
        "type": ticket.type.key if ticket.type else None,
        "status": ticket.status,
        "closed": ticket.closed,
        "closedAt": instant_text(ticket.closed_at) if ticket.closed_at else None,
        "tags": list(ticket.tags),
        "assignee": named(ticket.assignee),
        "group": named(ticket.group),
        "fields": dict(ticket.fields),
        "requester": _requester(ticket),
        "createdAt": instant_text(ticket.created_at),
        "updatedAt": instant_text(ticket.updated_at),
        "version": ticket.version,
    }


def log_entry(event: TicketEvent, language: str) -> dict[str, Any]:
    """Return the JSON of a log entry with its message in `language`."""
    return {
        "id": str(event.public_id),
        "at": instant_text(event.at),
        "kind": event.kind,
        "actor": {"kind": event.actor_kind, "name": event.actor_name},
        "message": messages.rendered(event, language),
        "data": event.data,
        "runId": str(event.run_id) if event.run_id else None,
    }


def named(row: Person | Group | None) -> dict[str, str] | None:
    """Return `{"id", "name"}` of a person or a group."""
    return {"id": str(row.public_id), "name": row.name} if row else None


def state(ticket: Ticket) -> dict[str, Any]:
    """Return what an edit can change, flat: a custom field is `fields.<key>`."""
    shown = representation(ticket)
    return {key: shown[key] for key in BEFORE_CREATION} | {
        f"fields.{key}": value for key, value in shown["fields"].items()
    }


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return `{"status": {"from", "to"}, "fields.color": …}` of what differs between two states."""
    return {
        key: {"from": before.get(key), "to": after.get(key)}
        for key in before | after
        if not equal(before.get(key), after.get(key))
    }


def _requester(ticket: Ticket) -> dict[str, str | None] | None:
    if not ticket.requester_name and not ticket.requester_email:
        return None
    return {"name": ticket.requester_name, "email": ticket.requester_email}
