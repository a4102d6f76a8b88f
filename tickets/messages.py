"""Texts of a ticket's log: an entry keeps code, parameters and data, the sentence is made for its reader.

Msgids are English, translations are in `csbot/locale`. A worker has no language, so nothing is translated on
writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.utils import translation
from django.utils.translation import gettext, gettext_noop, ngettext

from tickets.fields import plain_number
from tickets.models import TicketEvent

TEXTS: dict[str, str] = {
    "ticket.created": gettext_noop("Created"),
    "ticket.changed": gettext_noop("%(changes)s"),
    "ticket.assigned": gettext_noop("%(changes)s"),
    "ticket.assigned.leastBusy": gettext_noop("Handed to %(person)s of %(group)s, %(reason)s: %(numbers)s"),
    "ticket.assigned.fromLine": gettext_noop(
        "Handed from the line of %(group)s to %(person)s, %(reason)s: %(numbers)s"
    ),
    "ticket.inLine": gettext_noop("Waits in the line of %(group)s, nobody is free: %(numbers)s"),
    "ticket.event": gettext_noop("Event %(externalId)s arrived"),
    "ticket.comment.internal": gettext_noop("Internal note: %(text)s"),
    "ticket.comment.public": gettext_noop("Public reply: %(text)s"),
    "automation.log": gettext_noop("%(message)s"),
    "automation.failed": gettext_noop("%(automation)s did not finish: %(message)s"),
    "automation.review": gettext_noop("%(automation)s waits for a decision: %(message)s"),
    "loop.ceiling": gettext_noop(
        "%(automation)s was not started: it ran too often over this ticket within a minute. Chain: %(chain)s"
    ),
    "loop.depth": gettext_noop(
        "%(automation)s was not started: the chain of runs became too long. Chain: %(chain)s"
    ),
}
"""Code -> sentence with named parameters."""

_NAMES: dict[str, str] = {
    "title": gettext_noop("Title"),
    "description": gettext_noop("Description"),
    "type": gettext_noop("Type"),
    "status": gettext_noop("Status"),
    "tags": gettext_noop("Tags"),
    "assignee": gettext_noop("Assignee"),
    "group": gettext_noop("Group"),
    "requester": gettext_noop("Requester"),
    "externalId": gettext_noop("External id"),
}
_ORDER = (*_NAMES, "closed")

_REASONS: dict[str, str] = {
    "only": gettext_noop("the only one free"),
    "open": gettext_noop("with the fewest open tickets"),
    "share": gettext_noop("with the lower share of capacity"),
    "waited": gettext_noop("longest without new work"),
    "order": gettext_noop("equal with the others"),
}

MAX_SHOWN = 200
"""Characters of a value in a sentence; the whole value is in the entry's data."""


class _Parameters(dict[str, Any]):
    """A parameter that an entry does not have reads as nothing: an old entry never breaks a log."""

    def __missing__(self, key: str) -> str:
        return ""


def rendered(event: TicketEvent, language: str) -> str:
    """Return the sentence of a log entry in `language`; an unknown code reads as its message or itself."""
    with translation.override(language):
        sentence = TEXTS.get(event.code)
        if sentence is None:
            return str(event.params.get("message", event.code))
        parameters = _Parameters(event.params)
        if "changes" in event.data:
            parameters["changes"] = _changes(event.data["changes"])
        if "choice" in event.data:
            parameters |= _choice(event.data["choice"])
        return gettext(sentence) % parameters


def _changes(changes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return all changes in one order: jsonb keeps none."""
    known = [key for key in _ORDER if key in changes]
    ordered = known + sorted(changes.keys() - set(known))
    return "; ".join(_change(key, changes[key]["from"], changes[key]["to"]) for key in ordered)


def _change(key: str, before: Any, after: Any) -> str:
    if key == "closed":
        return gettext("Closed") if after else gettext("Reopened")
    name = gettext(_NAMES[key]) if key in _NAMES else key.removeprefix("fields.")
    if key == "description":
        return gettext("%(name)s changed") % {"name": name}
    return f"{name}: {_shown(before)} → {_shown(after)}"


def _choice(choice: Mapping[str, Any]) -> dict[str, str]:
    reason = _REASONS.get(choice["decidedBy"] or "", "")
    return {
        "person": choice["person"] or "",
        "group": choice["group"]["name"],
        "reason": gettext(reason) if reason else "",
        "numbers": "; ".join(map(_numbers, choice["considered"])) or gettext("the group has no members"),
    }


def _numbers(one: Mapping[str, Any]) -> str:
    held = ngettext("%(open)s open of %(capacity)s", "%(open)s open of %(capacity)s", one["open"]) % one
    passed_over = {"away": gettext("away"), "full": gettext("full")}.get(one["passedOver"] or "")
    return f"{one['name']} {held}, {passed_over}" if passed_over else f"{one['name']} {held}"


def _shown(value: Any) -> str:
    """Return a value as a person reads it."""
    if value in (None, "", [], {}):
        return "–"
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if isinstance(value, int | Decimal):
        return plain_number(value)
    if isinstance(value, list):
        text = ", ".join(map(_shown, value))
    elif isinstance(value, Mapping):
        text = " ".join(str(value[key]) for key in ("name", "email") if value.get(key))
    else:
        text = str(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
