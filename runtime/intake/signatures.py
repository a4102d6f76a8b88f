"""Whether a delivery was signed with a secret of its trigger (SPEC section 2.4). Pure: `now` is an argument.

Signatures are compared in constant time as bytes, over the body as it came. Whatever is missing, malformed, unknown or
too old does not match; nothing here raises.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Standard Webhooks and Stripe's library allow so much; a delivery from the future is as suspicious as an old one.
WINDOW_SECONDS = 300
# A header with more signatures than a rotation ever has is not looked through to its end.
MAX_SIGNATURES = 20
ALGORITHMS = ("sha1", "sha256", "sha384", "sha512")

Header = Callable[[str], str | None]


@dataclass(frozen=True)
class _Plain:
    """A scheme that signs the bare body: where the signature stands and how it is written."""

    header: str
    algorithm: str = "sha256"
    encoding: str = "hex"
    prefix: str = ""


# Sources: docs.github.com (validating webhook deliveries), shopify.dev (verify a webhook), Shoptet's API
# documentation (webhooks, signature), WooCommerce's class-wc-webhook.php.
_PLAIN = {
    "github": _Plain("X-Hub-Signature-256", prefix="sha256="),
    "shopify": _Plain("X-Shopify-Hmac-Sha256", encoding="base64"),
    "shoptet": _Plain("Shoptet-Webhook-Signature", algorithm="sha1"),
    "woocommerce": _Plain("X-WC-Webhook-Signature", encoding="base64"),
}


def is_signed(
    signature: Mapping[str, Any], secrets: Iterable[str], header: Header, raw: bytes, *, now: float
) -> bool:
    """Say whether one of `secrets` has signed the body `raw` the way the trigger's `signature` demands.

    `header(name)` returns a header of the request or None; `now` is Unix time in seconds.
    """
    scheme = signature.get("scheme")
    keys = [secret for secret in secrets if secret]
    if scheme == "standard":
        return _is_standard(signature, keys, header, raw, now)
    if scheme == "stripe":
        return _is_stripe(signature, keys, header, raw, now)
    if scheme == "hmac":
        return _is_generic(signature, keys, header, raw, now)
    plain = _PLAIN.get(str(scheme))
    if plain is None:
        return False
    sent = header(str(signature.get("header") or plain.header)) or ""
    if not sent.startswith(plain.prefix):
        return False
    given = _decoded(sent.removeprefix(plain.prefix), plain.encoding)
    return _is_any(given, [key.encode() for key in keys], plain.algorithm, raw)


def _is_standard(
    signature: Mapping[str, Any], secrets: list[str], header: Header, raw: bytes, now: float
) -> bool:
    """Standard Webhooks: `v1,<base64>` of `<id>.<timestamp>.<body>`, several divided by blanks.

    Source: github.com/standard-webhooks/standard-webhooks, spec.
    """
    identity, timestamp = header("webhook-id"), header("webhook-timestamp")
    if not identity or not _is_recent(timestamp, now):
        return False
    signed = f"{identity}.{timestamp}.".encode() + raw
    sent = (header(str(signature.get("header") or "webhook-signature")) or "").split()
    given = [_decoded(one[3:], "base64") for one in sent[:MAX_SIGNATURES] if one.startswith("v1,")]
    keys = [key for secret in secrets for key in _standard_keys(secret)]
    return True in [_is_any(one, keys, "sha256", signed) for one in given]


def _standard_keys(secret: str) -> list[bytes]:
    """Return what a secret may mean as a key: base64 after `whsec_`; without that also the text itself."""
    has_prefix = secret.startswith("whsec_")
    decoded = _decoded(secret.removeprefix("whsec_"), "base64")
    plain = [] if has_prefix else [secret.encode()]
    return [decoded, *plain] if decoded else plain


def _is_stripe(
    signature: Mapping[str, Any], secrets: list[str], header: Header, raw: bytes, now: float
) -> bool:
    """Stripe: `t=<timestamp>,v1=<hex>[,v1=<hex>]` of `<timestamp>.<body>`. Source: stripe-python, webhook.py."""
    sent = header(str(signature.get("header") or "Stripe-Signature")) or ""
    parts = [part.strip().partition("=") for part in sent.split(",")[: MAX_SIGNATURES + 1]]
    timestamps = [value for name, _, value in parts if name == "t"]
    if len(timestamps) != 1 or not _is_recent(timestamps[0], now):
        return False
    signed = timestamps[0].encode() + b"." + raw
    keys = [secret.encode() for secret in secrets]
    given = [_decoded(value, "hex") for name, _, value in parts if name == "v1"]
    return True in [_is_any(one, keys, "sha256", signed) for one in given]


def _is_generic(
    signature: Mapping[str, Any], secrets: list[str], header: Header, raw: bytes, now: float
) -> bool:
    """Any sender's HMAC: its header, algorithm and encoding; with `timestampHeader` over `<timestamp>.<body>`."""
    algorithm = str(signature.get("algorithm") or "sha256").lower().replace("-", "")
    if algorithm not in ALGORITHMS or not signature.get("header"):
        return False
    if signature.get("timestampHeader"):
        timestamp = header(str(signature["timestampHeader"]))
        if timestamp is None or not _is_recent(timestamp, now):
            return False
        raw = timestamp.encode() + b"." + raw
    # `sha256=` before the value is a habit of many senders.
    sent = (header(str(signature["header"])) or "").removeprefix(f"{algorithm}=")
    given = _decoded(sent, str(signature.get("encoding") or "hex").lower())
    return _is_any(given, [secret.encode() for secret in secrets], algorithm, raw)


def _is_recent(timestamp: str | None, now: float) -> bool:
    """Say whether a timestamp in Unix seconds (or milliseconds, with 13 digits) is within the window."""
    if timestamp is None or not re.fullmatch(r"[0-9]{1,11}|[0-9]{13}", timestamp, re.ASCII):
        return False
    at = int(timestamp) / 1000 if len(timestamp) == 13 else int(timestamp)
    return abs(now - at) <= WINDOW_SECONDS


def _is_any(given: bytes | None, keys: list[bytes], algorithm: str, signed: bytes) -> bool:
    """Say whether `given` is the HMAC of `signed` under one of the keys; all are tried, so the time is the same."""
    if not given:
        return False
    return True in [hmac.compare_digest(given, hmac.digest(key, signed, algorithm)) for key in keys]


def _decoded(text: str, encoding: str) -> bytes | None:
    """Return the bytes that a signature writes in hex or base64 (also URL-safe, also without padding), or None."""
    if encoding == "hex":
        return bytes.fromhex(text) if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", text) else None
    if encoding != "base64" or not re.fullmatch(r"[A-Za-z0-9+/_-]+={0,2}", text):
        return None
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return None
