"""Encryption at rest: AES-256-GCM, bound to tenant, row and field, with a key ring.

The first key of CSBOT_ENCRYPTION_KEYS encrypts, every key decrypts; a text copied into another row or another
tenant does not open there.
"""

from __future__ import annotations

import base64
import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

# 96 bits, as NIST SP 800-38D recommends for GCM.
NONCE_BYTES = 12


class DecryptionError(Exception):
    """No key of the ring opens this text in this place."""


def encrypt(text: str, *, bound_to: str) -> str:
    """Return `text` sealed for the place `bound_to` (such as `tenant/connection/<id>/credentials`)."""
    key = settings.CSBOT_ENCRYPTION_KEYS[0]
    nonce = os.urandom(NONCE_BYTES)
    sealed = AESGCM(key).encrypt(nonce, text.encode(), bound_to.encode())
    return f"v1.{_key_id(key)}.{base64.b64encode(nonce + sealed).decode()}"


def decrypt(sealed: str, *, bound_to: str) -> str:
    """Return the text sealed for `bound_to`. Raises DecryptionError when no key opens it there."""
    _version, key_id, payload = sealed.split(".", 2)
    raw = base64.b64decode(payload)
    for key in settings.CSBOT_ENCRYPTION_KEYS:
        if _key_id(key) != key_id:
            continue
        try:
            return AESGCM(key).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], bound_to.encode()).decode()
        except InvalidTag as error:
            raise DecryptionError(
                f"The text sealed for {bound_to} does not open with key {key_id}."
            ) from error
    raise DecryptionError(f"Key {key_id} is not in CSBOT_ENCRYPTION_KEYS.")


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"csbot key id" + key).hexdigest()[:8]
