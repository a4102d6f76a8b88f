"""Where stored trees name something by id or name, so that what is still used is not deleted unnoticed.

Looks at drafts and at published versions, and finds its way through unfinished trees too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from automations.models import Automation
from connectors.models import Connection


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
    means = {str(automation.public_id), automation.name}
    return [
        label_of(other)
        for other in _of_tenant(automation.tenant_id)
        if other.pk != automation.pk and any(callee_of(step) in means for step in _actions_of(other))
    ]


def users_of_connection(connection: Connection) -> list[str]:
    """Return the automations that have a step over this connection, each as `automations/<id>`."""
    means = {str(connection.public_id), connection.name}
    return [
        label_of(automation)
        for automation in _of_tenant(connection.tenant_id)
        if any(connection_of(step) in means for step in _actions_of(automation))
    ]


def _of_tenant(tenant_id: int) -> list[Automation]:
    return list(Automation.objects.of(tenant_id).select_related("published").order_by("pk"))


def _actions_of(automation: Automation) -> Iterator[dict[str, Any]]:
    yield from actions(automation.draft.get("steps"))
    if automation.published is not None:
        yield from actions(automation.published.tree["steps"])


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
