"""Where stored trees name something by id or name, so that what is still used is not deleted unnoticed.

Looks at drafts and at published versions, and finds its way through unfinished trees too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from automations.models import Automation
from connectors import catalog
from connectors.models import Connection
from tickets.models import Group, Person, TicketType

# How inputs of built-in operations name something of the desk; `ticket/find` has it in its `filter`.
_INPUTS: dict[type, tuple[str, ...]] = {
    Group: ("group",),
    TicketType: ("type",),
    Person: ("person", "assignee"),
}


def actions(steps: Any) -> Iterator[dict[str, Any]]:
    """Yield every action step of a stored tree, at any depth, in no particular order."""
    waiting = [steps]
    while waiting:
        branch = waiting.pop()
        for step in branch if isinstance(branch, list) else []:
            if not isinstance(step, dict):
                continue
            if step.get("type") == "action":
                yield step
            on_error = step.get("onError")
            waiting += [step.get("then"), step.get("else"), step.get("steps")]
            waiting += [on_error.get("steps")] if isinstance(on_error, dict) else []


def connection_of(step: dict[str, Any]) -> str | None:
    """Return the name or id of the connection that an action step goes over."""
    return _text(step.get("connection"))


def callee_of(step: dict[str, Any]) -> str | None:
    """Return the name or id of the automation that an action step calls."""
    inputs = step.get("inputs")
    return (
        _text(inputs.get("automation"))
        if step.get("op") == "flow/call" and isinstance(inputs, dict)
        else None
    )


def label_of(automation: Automation) -> str:
    """Return the automation's path under /api."""
    return f"automations/{automation.public_id}"


def callers_of(automation: Automation) -> list[str]:
    """Return the other automations that call this one, each as `automations/<id>`."""
    return [
        label_of(other)
        for other in _of_tenant(automation.tenant_id)
        if other.pk != automation.pk
        and any(
            _is_meant(automation.public_id, automation.name, callee_of(step)) for step in _actions_of(other)
        )
    ]


def users_of_connection(connection: Connection) -> list[str]:
    """Return the automations that have a step over this connection, each as `automations/<id>`."""
    return [
        label_of(automation)
        for automation in _of_tenant(connection.tenant_id)
        if any(
            _is_meant(connection.public_id, connection.name, connection_of(step))
            for step in _actions_of(automation)
        )
    ]


def users_of_desk(row: Person | Group | TicketType) -> list[str]:
    """Return the automations that name this person, group or ticket type, each as `automations/<id>`."""
    name = row.email if isinstance(row, Person) else row.key
    return [
        label_of(automation)
        for automation in _of_tenant(row.tenant_id)
        if any(_is_meant(row.public_id, name, text) for text in _named_in(automation, type(row)))
    ]


def _named_in(automation: Automation, kind: type) -> Iterator[str | None]:
    """Yield what an automation names of one kind: in its steps and, of ticket types, in its trigger's filter."""
    for step in _actions_of(automation):
        yield from desk_names(step, kind)
    if kind is TicketType:
        for trigger in _triggers_of(automation):
            wanted = trigger.get("filter") if isinstance(trigger, dict) else None
            types = wanted.get("type") if isinstance(wanted, dict) else None
            yield from map(_text, types if isinstance(types, list) else [types])


def desk_names(step: dict[str, Any], kind: type) -> Iterator[str | None]:
    """Yield what an action step names of a kind (Person, Group or TicketType), by key, id or e-mail.

    Inputs of foreign operations and of unknown ones name nothing of ours.
    """
    op = step.get("op")
    found = catalog.find(op) if isinstance(op, str) else None
    inputs = step.get("inputs")
    if found is None or found.provider is not None or not isinstance(inputs, dict):
        return
    for place in (inputs, inputs.get("filter")):
        if isinstance(place, dict):
            yield from (_text(place.get(name)) for name in _INPUTS[kind])


def _of_tenant(tenant_id: int) -> list[Automation]:
    return list(Automation.objects.of(tenant_id).select_related("published").order_by("pk"))


def _actions_of(automation: Automation) -> Iterator[dict[str, Any]]:
    yield from actions(automation.draft.get("steps"))
    if automation.published is not None:
        yield from actions(automation.published.tree["steps"])


def _triggers_of(automation: Automation) -> Iterator[Any]:
    yield automation.draft.get("trigger")
    if automation.published is not None:
        yield automation.published.tree["trigger"]


def _is_meant(public_id: uuid.UUID, name: str, text: str | None) -> bool:
    """Say whether a text is the id, in any spelling, or the name; an e-mail is one in any case of letters."""
    if text is None:
        return False
    if text == name or ("@" in name and text.lower() == name.lower()):
        return True
    try:
        return uuid.UUID(text) == public_id
    except ValueError:
        return False


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
