"""A connection's credentials: sealed in its row, opened for one call, masked wherever people read.

Invariant: what `seal` takes comes out of `unsealed` and nowhere else; `marks` tells what is set, never its
value.
"""

from __future__ import annotations

import json as standard_json
from base64 import b64encode
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

from connectors.models import Connection
from csbot.lib import crypto, json

MASK = "•••"
# In data that steps go on working with, shorter texts are too likely to be something else.
SHORTEST_MASKED_IN_DATA = 8


def seal(account: Connection, values: dict[str, Any]) -> None:
    """Put `values` into `account.credentials`, bound to its tenant and row. The caller saves."""
    account.credentials = crypto.encrypt(json.dumps(values), bound_to=_place(account)) if values else ""


def unsealed(account: Connection) -> dict[str, Any]:
    """Return the credentials of `account`, {} when none are set. Raises DecryptionError."""
    if not account.credentials:
        return {}
    opened: dict[str, Any] = json.loads(crypto.decrypt(account.credentials, bound_to=_place(account)))
    return opened


def marks(account: Connection) -> Any:
    """Return the shape of the credentials with `true` for each value: all that is ever shown (SPEC P10).

    None when no key of the ring opens them any more: a lost key must not hide the connection.
    """
    try:
        return _marked(unsealed(account))
    except crypto.DecryptionError:
        return None


def _marked(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _marked(value) for name, value in values.items()}
    return True


class Mask:
    """Replaces secrets by a mark, in every form in which a service may send them back."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if secret for form in _forms(secret)}
        # Longest first, so that no part of a longer one stays.
        self._forms = sorted(forms, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return `text` for people: without any secret, however short."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def data(self, value: Any) -> Any:
        """Return JSON data for steps: without any secret of at least `SHORTEST_MASKED_IN_DATA` characters."""
        if isinstance(value, str):
            for form in self._forms:
                if len(form) >= SHORTEST_MASKED_IN_DATA:
                    value = value.replace(form, MASK)
            return value
        if isinstance(value, dict):
            return {self.data(name): self.data(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.data(item) for item in value]
        return value


def _forms(secret: str) -> set[str]:
    """Return how `secret` looks raw, in a URL, in JSON and in base64."""
    return {
        secret,
        quote(secret, safe=""),
        quote_plus(secret),
        standard_json.dumps(secret)[1:-1],
        json.dumps(secret)[1:-1],
        b64encode(secret.encode()).decode(),
    }


def _place(account: Connection) -> str:
    return f"{account.tenant_id}/connection/{account.public_id}/credentials"
