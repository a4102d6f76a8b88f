"""Tokens of webhooks: the secret part of an address (SPEC section 2). SHA-256 to look up, sealed to show."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.db.models import F
from django.db.models.functions import Coalesce, Least, Now

from automations.models import Automation, WebhookToken
from csbot.lib import crypto

# 256 bits, twice what SPEC section 2 asks for: 43 characters of an address.
TOKEN_BYTES = 32


def digest_of(token: str) -> bytes:
    """Return what a token is looked up by; any text has one."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def current(automation: Automation) -> str | None:
    """Return the present token, opened for showing, or None when there is none."""
    row = WebhookToken.objects.of(automation.tenant_id).filter(automation=automation, expires_at=None).first()
    return crypto.decrypt(row.sealed, bound_to=_place(automation)) if row else None


def ensure(automation: Automation) -> None:
    """Make a token where there is none yet; the caller holds the automation's row."""
    rows = WebhookToken.objects.of(automation.tenant_id)
    if not rows.filter(automation=automation, expires_at=None).exists():
        _make(automation)


def rotate(automation: Automation, overlap: timedelta) -> str:
    """Make a new token and return it; the caller holds the automation's row.

    The older ones end after the overlap, none later than it would have ended anyway.
    """
    older = WebhookToken.objects.of(automation.tenant_id).filter(automation=automation)
    older.filter(expires_at__lt=Now()).delete()
    ends_at = Now() + overlap
    older.update(expires_at=Least(Coalesce(F("expires_at"), ends_at), ends_at))
    return _make(automation)


def _make(automation: Automation) -> str:
    token = secrets.token_urlsafe(TOKEN_BYTES)
    WebhookToken.objects.of(automation.tenant_id).create(
        tenant_id=automation.tenant_id,
        automation=automation,
        digest=digest_of(token),
        sealed=crypto.encrypt(token, bound_to=_place(automation)),
    )
    return token


def _place(automation: Automation) -> str:
    return f"{automation.tenant_id}/automation/{automation.public_id}/token"
