"""Tokens of programs: `csb_<8 public>_<32 random>`; only the SHA-256 of it is stored (SPEC section 13)."""

from __future__ import annotations

import hashlib
import secrets
import string
from datetime import datetime, timedelta

from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from tickets.models import ApiToken, Tenant

ALPHABET = string.ascii_letters + string.digits
PUBLIC_CHARACTERS = 8
# 32 of 62 characters are 190 bits.
RANDOM_CHARACTERS = 32
# The last use is for people to see; a write with every request would be dearer than the request.
LAST_USE_PRECISION = timedelta(minutes=1)


def issue(
    tenant: Tenant | None, name: str, role: str | None, *, expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """Store a new token and return it with its text, which is never to be had again.

    A staff token has neither tenant nor role.
    """
    prefix = "csb_" + _random(PUBLIC_CHARACTERS)
    written = f"{prefix}_{_random(RANDOM_CHARACTERS)}"
    token = ApiToken.objects.create(
        tenant=tenant, name=name, role=role, prefix=prefix, digest=digest_of(written), expires_at=expires_at
    )
    return token, written


def digest_of(written: str) -> bytes:
    """Return what is stored of a token's text."""
    return hashlib.sha256(written.encode()).digest()


def find(written: str) -> ApiToken | None:
    """Return the token with its tenant, or None for an unknown or expired one.

    One hash and one look-up by its digest, whatever came, so that the time tells nothing about near misses.
    """
    return (
        ApiToken.objects.select_related("tenant")
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()), digest=digest_of(written))
        .first()
    )


def note_use(token: ApiToken) -> bool:
    """Remember that `token` was used now; False when that was written less than a minute ago."""
    if token.last_used_at is not None and timezone.now() - token.last_used_at < LAST_USE_PRECISION:
        return False
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=Now() - LAST_USE_PRECISION)
    return bool(ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=Now()))


def revoke(token: ApiToken) -> bool:
    """Delete `token`; False when it is gone already."""
    deleted, _ = ApiToken.objects.filter(pk=token.pk).delete()
    return bool(deleted)


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))
