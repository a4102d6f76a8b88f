"""Automations as JSON that another tenant or another installation can take: export and what an import is.

Names and keys stand for ids, marks stand for secrets, so a file tells nothing that its reader may not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from automations import references
from automations.known import KnownOfTenant
from automations.models import Automation
from csbot.lib.errors import RequestRefused

FORMAT = "csbot.automation/1"


def exported(automation: Automation) -> dict[str, Any]:
    """Return `{"format", "name", "trigger", "steps", "connections"}` of the draft.

    `connections` lists name and provider of each connection that the steps use, for whoever prepares an
    import.
    """
    known = KnownOfTenant(automation.tenant)
    document = _portable(automation.draft, known)
    used = sorted(
        filter(None, {references.connection_of(step) for step in references.actions(document["steps"])})
    )
    return {
        "format": FORMAT,
        "name": automation.name,
        "trigger": document["trigger"],
        "steps": document["steps"],
        "connections": [{"name": name, "provider": known.provider_of(name)} for name in used],
    }


def refuse_other_formats(raw: Mapping[str, Any]) -> None:
    """Raise RequestRefused 400 for a document of another or a later format."""
    if raw.get("format", FORMAT) != FORMAT:
        message = f"Expected {FORMAT}, came {raw['format']!r}."
        raise RequestRefused("import.format", message, errors=[{"pointer": "/format", "message": message}])


def _portable(value: Any, known: KnownOfTenant) -> Any:
    """Return `value` with the name or key in place of every id of something of the tenant's."""
    if isinstance(value, Mapping):
        return {key: _portable(part, known) for key, part in value.items()}
    if isinstance(value, list):
        return [_portable(part, known) for part in value]
    return known.portable(value) if isinstance(value, str) else value
