"""What each role may do: one table that views and tests read (SPEC section 13)."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured

# Least first: each role may do what those before it may.
RANKS = ["viewer", "agent", "admin", "staff"]

RIGHTS: dict[str, dict[str, str]] = {
    "me": {"read": "viewer"},
    "tenants": {"read": "staff", "write": "staff"},
    "people": {"read": "viewer", "write": "admin"},
    "groups": {"read": "viewer", "write": "admin"},
    "ticket-types": {"read": "viewer", "write": "admin"},
    "tokens": {"read": "admin", "write": "admin"},
    "audit": {"read": "admin"},
    "tickets": {"read": "viewer", "write": "agent"},
    "automations": {
        "read": "viewer",
        "write": "admin",
        # Starting one, and asking what would happen, changes no automation.
        "run": "agent",
        "test": "agent",
        "reach": "agent",
        "contract_check": "agent",
        "replay": "agent",
    },
    "runs": {"read": "viewer", "write": "agent"},
    "incidents": {"read": "viewer", "write": "agent"},
    "connections": {"read": "viewer", "write": "admin"},
    "catalog": {"read": "viewer"},
    # A refresh reads anew; it changes nothing of the tenant's.
    "widgets": {"read": "viewer", "write": "admin", "refresh": "viewer"},
    "dashboards": {"read": "viewer", "write": "admin"},
    "reconciliation": {"read": "viewer", "write": "agent"},
    "stream": {"read": "viewer"},
}
"""Resource -> action (a method name of the viewset, else `read` or `write`) -> the least role that may."""

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}


def has_right(role: str | None, resource: str, action: str, method: str) -> bool:
    """Whether `role` may do `action` with `resource`. Raises ImproperlyConfigured where there is no row."""
    actions = RIGHTS.get(resource, {})
    kind = "read" if method in SAFE_METHODS else "write"
    least = actions.get(action) or actions.get(kind)
    if least is None:
        raise ImproperlyConfigured(f"RIGHTS has no row for {action} of {resource}.")
    return role is not None and RANKS.index(role) >= RANKS.index(least)
