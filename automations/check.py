"""The check of a posted document `{"trigger", "steps"}`: every fault and warning, and what of it is stored.

Secrets leave the document before anything else looks at it, so no fault or warning can repeat one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from automations import lint, tree, trigger_secrets
from automations.faults import Fault
from automations.known import KnownOfTenant
from automations.tree import TreeError
from automations.trigger_secrets import TriggerSecrets
from csbot.lib.errors import RequestRefused
from csbot.lib.json import dumps
from tickets.models import Tenant

# Fifty steps with long texts are about 50 KiB; a version of this size still loads in a few milliseconds.
MAX_BYTES = 262_144


@dataclass(frozen=True)
class Checked:
    """A document as it is stored (with marks instead of secrets), and what the check says of it."""

    document: dict[str, Any]
    secrets: TriggerSecrets = field(repr=False)
    faults: list[Fault]
    warnings: list[lint.Warning]


def check(tenant: Tenant, raw: Mapping[str, Any], kept: TriggerSecrets = trigger_secrets.NONE) -> Checked:
    """Check `raw["trigger"]` and `raw["steps"]` for this tenant; `kept` are the secrets that marks stand for.

    Raises RequestRefused 400 for what cannot even be kept as a draft: no object, no array, larger than
    MAX_BYTES.
    """
    document = {"trigger": raw.get("trigger", {}), "steps": raw.get("steps", [])}
    refuse(_unkeepable(document))
    masked, secrets, faults = trigger_secrets.take_out(document["trigger"], kept)
    document["trigger"] = masked
    known = KnownOfTenant(tenant)
    try:
        parsed = tree.parse(document, known)
    except TreeError as error:
        return Checked(document, secrets, [*faults, *error.faults], [])
    return Checked(document, secrets, faults, lint.warnings(parsed, known))


def refuse(faults: list[Fault], message: str = "The automation has faults.") -> None:
    """Raise RequestRefused 400 with every fault and its pointer when there is one."""
    if faults:
        raise RequestRefused("automation.invalid", message, errors=[line_of(fault) for fault in faults])


def line_of(told: Fault | lint.Warning) -> dict[str, Any]:
    """Return a fault or a warning as answers show it."""
    return {"pointer": told.pointer, "code": told.code, "message": told.message}


def _unkeepable(document: Mapping[str, Any]) -> list[Fault]:
    faults = []
    if not isinstance(document["trigger"], Mapping):
        faults.append(Fault("/trigger", "type", "Expected an object."))
    if not isinstance(document["steps"], list):
        faults.append(Fault("/steps", "type", "Expected an array of steps."))
    size = len(dumps(document).encode())
    if size > MAX_BYTES:
        faults.append(Fault("", "limit.size", f"Expected at most {MAX_BYTES} bytes of JSON, came {size}."))
    return faults
