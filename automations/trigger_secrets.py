"""Secrets of a trigger: taken out of the stored JSON, sealed beside it, shown as marks (SPEC section 2.4).

`signature.secrets` and `verify.token` are write-only. What is stored and shown carries marks in their places:
`•••` stands for the first secret, `•••2` for the second. A write that sends a mark keeps the secret that it
stands for.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from automations.faults import Fault
from csbot.lib import crypto
from csbot.lib.json import dumps, loads

MARK = "•••"
_MARKED = re.compile(rf"{MARK}([0-9]{{0,3}})")
# Every other key of these objects is taken for a secret, so that one sent under a wrong name is not stored
# either.
_OPEN_KEYS = {
    "signature": {"scheme", "header", "algorithm", "encoding", "timestampHeader"},
    "verify": {"kind"},
}


@dataclass(frozen=True)
class TriggerSecrets:
    """What signs deliveries (several during a rotation) and what a GET challenge has to know."""

    signature: tuple[str, ...] = field(default=(), repr=False)
    verify: str | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.signature) or self.verify is not None


NONE = TriggerSecrets()


def take_out(
    trigger: Mapping[str, Any], kept: TriggerSecrets
) -> tuple[dict[str, Any], TriggerSecrets, list[Fault]]:
    """Return the trigger with marks in place of its secrets, the secrets, and a fault for each empty mark.

    `kept` are the secrets stored so far, which marks stand for. Pointers begin at the document
    (`/trigger/…`). What has a wrong shape is masked too and left for the check of the tree to name.
    """
    masked, faults = dict(trigger), list[Fault]()
    signature, verify = masked.get("signature"), masked.get("verify")
    given: list[str] = []
    token: str | None = None
    if isinstance(signature, Mapping):
        masked["signature"] = _masked("signature", signature)
        if isinstance(signature.get("secrets"), list):
            given, marks = _taken_list(signature["secrets"], kept.signature, faults)
            masked["signature"]["secrets"] = marks
    if isinstance(verify, Mapping):
        masked["verify"] = _masked("verify", verify)
        if isinstance(verify.get("token"), str) and verify["token"]:
            stored = (kept.verify,) if kept.verify is not None else ()
            token = _taken(verify["token"], stored, "/trigger/verify/token", faults)
        elif "token" in verify:
            masked["verify"]["token"] = "" if isinstance(verify["token"], str) else None
    return masked, TriggerSecrets(tuple(given), token), faults


def put_back(trigger: Mapping[str, Any], secrets: TriggerSecrets) -> dict[str, Any]:
    """Return the trigger with its secrets in place of the marks; never for an answer or a log."""
    opened = dict(trigger)
    if secrets.signature:
        opened["signature"] = {**opened["signature"], "secrets": list(secrets.signature)}
    if secrets.verify is not None:
        opened["verify"] = {**opened["verify"], "token": secrets.verify}
    return opened


def seal(secrets: TriggerSecrets, *, tenant_id: int, automation_id: uuid.UUID) -> str:
    """Return the secrets encrypted for this automation, or an empty text when there are none."""
    if not secrets:
        return ""
    text = dumps({"signature": list(secrets.signature), "verify": secrets.verify})
    return crypto.encrypt(text, bound_to=_place(tenant_id, automation_id))


def unseal(sealed: str, *, tenant_id: int, automation_id: uuid.UUID) -> TriggerSecrets:
    """Return the secrets of `seal`. Raises crypto.DecryptionError for what was sealed elsewhere."""
    if not sealed:
        return NONE
    content = loads(crypto.decrypt(sealed, bound_to=_place(tenant_id, automation_id)))
    return TriggerSecrets(tuple(content["signature"]), content["verify"])


def _place(tenant_id: int, automation_id: uuid.UUID) -> str:
    return f"{tenant_id}/automation/{automation_id}/secrets"


def _masked(key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part if name in _OPEN_KEYS[key] else MARK for name, part in value.items()}


def _taken_list(
    sent: list[Any], stored: tuple[str, ...], faults: list[Fault]
) -> tuple[list[str], list[str | None]]:
    """Return the secrets that were meant and what to store in their places."""
    given: list[str] = []
    marks: list[str | None] = []
    for index, text in enumerate(sent):
        if not isinstance(text, str) or not text:
            marks.append("" if isinstance(text, str) else None)
            continue
        secret = _taken(text, stored, f"/trigger/signature/secrets/{index}", faults)
        if secret is not None:
            given.append(secret)
        marks.append(_mark(len(given) - 1) if secret is not None else MARK)
    return given, marks


def _mark(index: int) -> str:
    return MARK if index <= 0 else f"{MARK}{index + 1}"


def _taken(text: str, stored: tuple[str, ...], pointer: str, faults: list[Fault]) -> str | None:
    marked = _MARKED.fullmatch(text)
    if marked is None:
        return text
    index = int(marked[1] or 1) - 1
    if 0 <= index < len(stored):
        return stored[index]
    faults.append(
        Fault(pointer, "secret.missing", f"Expected a secret: {text} stands for one that is not stored here.")
    )
    return None
