"""What GET on a webhook's address tells its sender: how to use it, as JSON or as a page, or a challenge's echo."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation.trans_real import parse_accept_lang_header

from automations import webhook
from automations.services import WebhookTarget
from csbot.lib import json
from csbot.lib.errors import RequestRefused
from runtime.intake import demands
from runtime.intake.answers import SANDBOX, Answer
from runtime.intake.arrival import Arrival

# SPEC section 2: of a challenge so much is echoed.
MAX_CHALLENGE = 256


def answer(arrival: Arrival, target: WebhookTarget, token: str) -> Answer:
    """Return the challenge's echo where one is asked for, else the help. Raises RequestRefused 400 and 401."""
    challenge = _challenge(arrival, target)
    if challenge is not None:
        return Answer(200, challenge.encode(), "text/plain; charset=utf-8")
    with translation.override(_language(arrival, target)):
        told = webhook.help_of(webhook.address(token), target.trigger)
        if _prefers_html(arrival.header("Accept") or ""):
            return _page(target, told)
    return Answer(200, json.dumps(told, indent=2).encode(), "application/json")


def _challenge(arrival: Arrival, target: WebhookTarget) -> str | None:
    """Return what to echo to Meta's verification of an address, None for an ordinary GET.

    Source: developers.facebook.com, Graph API, webhooks, verification requests.
    """
    challenge = arrival.query("hub.challenge")
    if "verify" not in target.trigger or challenge is None:
        return None
    if arrival.query("hub.mode") not in (None, "subscribe"):
        raise RequestRefused("verify", "Expected the hub.mode subscribe.")
    demands.check_verify_token(target, arrival.query("hub.verify_token") or "")
    if len(challenge) > MAX_CHALLENGE:
        raise RequestRefused("verify", f"A challenge has at most {MAX_CHALLENGE} characters.")
    return challenge


def _language(arrival: Arrival, target: WebhookTarget) -> str:
    known = {code for code, _ in settings.LANGUAGES}
    for asked, _ in parse_accept_lang_header(arrival.header("Accept-Language") or ""):
        code = str(asked).partition("-")[0]
        if code in known:
            return code
    return target.tenant_language


def _prefers_html(accept: str) -> bool:
    """Say whether `Accept` names a page, and no JSON before it."""
    weights: dict[str, float] = {}
    for part in accept.lower().split(",")[:50]:
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weights.setdefault(name, _weight(parameters))
    html = weights.get("text/html", 0)
    return html > 0 and html >= weights.get("application/json", 0)


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0
    return 1


def _page(target: WebhookTarget, told: dict[str, Any]) -> Answer:
    """Return the help as a page that may use its own style and nothing else."""
    nonce = secrets.token_urlsafe(16)
    context = {
        **told,
        "name": target.automation_name,
        "sample": json.dumps(told["sample"], indent=2),
        "language": translation.get_language(),
        "nonce": nonce,
    }
    page = render_to_string("intake/help.html", context)
    return Answer(
        200, page.encode(), "text/html; charset=utf-8", policy=f"{SANDBOX}; style-src 'nonce-{nonce}'"
    )
