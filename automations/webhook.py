"""How a webhook is reached: its whole address, its parameters, a sample body and a curl that can be copied.

The address is built from CSBOT_PUBLIC_URL, never from a request's Host header.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from automations import contract
from automations.contract import Parameter
from automations.faults import Faults
from automations.models import Automation
from csbot.lib.errors import RequestRefused
from csbot.lib.json import dumps

METHOD = "POST"
# What stands for the token where the reader may not see it (SPEC P10).
HIDDEN_TOKEN = "•••"
CONTENT_TYPES = [
    "application/json",
    "application/*+json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "text/*",
]


def trigger_of(automation: Automation) -> Mapping[str, Any] | None:
    """Return the webhook trigger that senders meet: the published one, before that the draft's; else None."""
    published = automation.published.tree["trigger"] if automation.published else {}
    draft: Mapping[str, Any] = automation.draft["trigger"]
    return next((trigger for trigger in (published, draft) if trigger.get("kind") == "webhook"), None)


def none() -> RequestRefused:
    """Return the refusal for an automation without a webhook."""
    return RequestRefused("webhook.none", "This automation is not started by a webhook.", status=404)


def address(token: str) -> str:
    """Return the whole URL of the webhook with this token."""
    return f"{settings.CSBOT_PUBLIC_URL}/webhook/{token}"


def description(url: str, trigger: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{"method", "url", "params", "sample", "curl"}` of SPEC section 13.

    `trigger` may be of an unfinished draft: parameters that cannot be read yet are left out of the sample.
    """
    params = parameters(trigger)
    sample = contract.sample(params)
    return {
        "method": METHOD,
        "url": url,
        "params": [one.dump() for one in params],
        "sample": sample,
        "curl": curl(url, sample),
    }


def help_of(url: str, trigger: Mapping[str, Any]) -> dict[str, Any]:
    """Return what GET on the webhook's address tells its sender (SPEC section 2), in the active language."""
    told = description(url, trigger)
    told["params"] = [
        {"name": one.name, "path": one.path, "type": one.type, "required": one.required}
        for one in parameters(trigger)
    ]
    return {
        **told,
        "contentTypes": CONTENT_TYPES,
        "signature": _signature(trigger),
        "answers": _answers(trigger),
    }


def curl(url: str, sample: Any) -> str:
    """Return a shell line that sends the sample body to the address."""
    body = shlex.quote(dumps(sample))
    return f"curl -X {METHOD} {shlex.quote(url)} -H 'Content-Type: application/json' -d {body}"


def parameters(trigger: Mapping[str, Any]) -> list[Parameter]:
    """Return the parameters of the contract; of an unfinished one those that can be read by themselves."""
    return contract.read_params(trigger.get("params", []), Faults(), "")


def _signature(trigger: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how a delivery has to be signed, without secrets, or None."""
    signature = trigger.get("signature")
    if not isinstance(signature, Mapping):
        return None
    told = ("scheme", "header", "algorithm", "encoding", "timestampHeader")
    return {key: signature[key] for key in told if key in signature}


def _answers(trigger: Mapping[str, Any]) -> dict[str, str]:
    """Return what each answer means; the success is the one that the trigger sets (SPEC section 2.5)."""
    answer = trigger.get("answer")
    success = answer.get("status", 202) if isinstance(answer, Mapping) else 202
    size = {"bytes": settings.CSBOT_MAX_BODY}
    told = {
        str(success): _(
            "The event is taken over and will be worked on. A repeated delivery answers the same."
        ),
        "400": _("The body cannot be read, or a required parameter is missing or has a wrong type."),
        "401": _("The signature is missing, does not match or is too old."),
        "404": _("There is no such webhook."),
        "413": _("The body is larger than %(bytes)s bytes or deeper than 64 levels.") % size,
        "415": _("The content type cannot be read."),
        "422": _("The same delivery id came before with another body."),
        "429": _("Too many requests: try again after the seconds in Retry-After."),
        "503": _("The event cannot be taken over now: try again after the seconds in Retry-After."),
    }
    if trigger.get("onRefusal") == "park":
        told.pop("400")
    return told
