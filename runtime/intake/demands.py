"""What a trigger demands of whoever calls its address: a signature, a verify token. Without a match it is 401."""

from __future__ import annotations

import hmac
import logging
import re
import time

from automations.services import WebhookTarget
from automations.trigger_secrets import NONE, TriggerSecrets
from csbot.lib import crypto
from csbot.lib.errors import RequestRefused
from runtime.intake import signatures
from runtime.intake.arrival import Arrival

logger = logging.getLogger(__name__)

_PING = re.compile(rb"webhook_id=[0-9]{1,20}")


def check_signature(arrival: Arrival, target: WebhookTarget, raw: bytes) -> None:
    """Raise RequestRefused 401 unless the body is signed as the trigger demands; one without a demand passes."""
    if "signature" not in target.trigger:
        return
    demanded = target.trigger["signature"]
    secrets = _secrets(target).signature
    if not signatures.is_signed(demanded, secrets, arrival.header, raw, now=time.time()):
        raise RequestRefused(
            "signature", "The signature is missing, does not match or is too old.", status=401
        )


def check_verify_token(target: WebhookTarget, sent: str) -> None:
    """Raise RequestRefused 401 unless `sent` is the verify token of the trigger."""
    expected = _secrets(target).verify
    if not expected or not hmac.compare_digest(sent.encode(), expected.encode()):
        raise RequestRefused("verify", "The verify token does not match.", status=401)


def is_ping(arrival: Arrival, target: WebhookTarget, raw: bytes) -> bool:
    """Say whether this is WooCommerce's trial of a new address: an unsigned form with nothing but its webhook's id.

    Only an answer of exactly 200 lets it pass. Source: class-wc-webhook.php, deliver_ping.
    """
    if target.trigger.get("signature", {}).get("scheme") != "woocommerce":
        return False
    return bool(_PING.fullmatch(raw)) and arrival.header("X-WC-Webhook-Signature") is None


def _secrets(target: WebhookTarget) -> TriggerSecrets:
    """Return the trigger's secrets; none, so that nothing matches, where no key of the installation opens them."""
    try:
        return target.secrets()
    except crypto.DecryptionError:
        logger.error("The secrets of automation %s do not open: its key is gone", target.automation_public_id)
        return NONE
