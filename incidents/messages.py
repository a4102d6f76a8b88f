"""What an incident says to the client, by error code, in the reader's language: no step names, no run ids.

The title says what happened, the impact what it means and what to do. "No data was lost" stands only where it
is true: never where nobody knows whether a call happened (SPEC sections 5.5 and 9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, override
from django.utils.translation import gettext_noop as _

from connectors import providers

# Every error code of a run (SPEC section 13); `http.<status>` stands for any status.
ERROR_CODES = (
    "http.<status>",
    "net.dns",
    "net.refused",
    "net.timeout",
    "net.tls",
    "net.unknown",
    "storage",
    "mcp.isError",
    "input.invalid",
    "missing.operation",
    "missing.group",
    "missing.type",
    "missing.person",
    "missing.connection",
    "missing.automation",
    "automation.paused",
    "limit.actions",
    "limit.size",
    "limit.wait",
    "flow.fail",
    "poison",
    "bug",
)


@dataclass(frozen=True)
class Texts:
    """Both sentences for the client."""

    title: str
    impact: str


@dataclass(frozen=True)
class Title:
    """One title in three forms: of a ticket, of an automation, of neither."""

    of_ticket: str
    of_automation: str
    plain: str


FAILED = Title(
    _("The automation at ticket %(ticket)s did not finish, no data was lost."),
    _("The automation “%(automation)s” did not finish, no data was lost."),
    _("An automation did not finish, no data was lost."),
)
UNCERTAIN = Title(
    _("It is not certain whether the automation at ticket %(ticket)s did its last action."),
    _("It is not certain whether the automation “%(automation)s” did its last action."),
    _("It is not certain whether an automation did its last action."),
)
UNCERTAIN_IMPACT: str = _(
    "%(service)s was given the request, but it is not known whether it did what was asked. Nothing is"
    " repeated until somebody looks there and decides: it happened, do it again, or give up."
)
# Incidents that are not about a failed run have titles of their own.
TITLES = {
    "delivery.parked": Title(
        _("An event about ticket %(ticket)s does not fit its automation, it is kept."),
        _("An event for the automation “%(automation)s” does not fit it, it is kept."),
        _("An event does not fit its automation, it is kept."),
    ),
    "loop.depth": Title(
        _("Automations at ticket %(ticket)s kept starting one another, we stopped them. No data was lost."),
        _("The automation “%(automation)s” was part of a circle that we stopped. No data was lost."),
        _("Automations kept starting one another, we stopped them. No data was lost."),
    ),
    "reconciliation.missing": Title(
        _("Some events of ticket %(ticket)s did not start their automation."),
        _("Some events did not start the automation “%(automation)s”."),
        _("Some events did not start their automation."),
    ),
    "reconciliation.stuck": Title(
        _("Work at ticket %(ticket)s has been waiting for longer than it should."),
        _("Work of the automation “%(automation)s” has been waiting for longer than it should."),
        _("Some work has been waiting for longer than it should."),
    ),
    "reconciliation.silence": Title(
        _("No events have come for ticket %(ticket)s for unusually long."),
        _("The automation “%(automation)s” has received no event for unusually long."),
        _("An automation has received no event for unusually long."),
    ),
    "incident.created": Title(
        _("An automation reports a problem at ticket %(ticket)s."),
        _("The automation “%(automation)s” reports a problem."),
        _("An automation reports a problem."),
    ),
}

# `%(service)s` is the subject at the beginning of its text, so that no language has to decline it.
SERVICE = _("The service “%(connection)s”")
UNNAMED_SERVICE = _("The other service")

ACCESS_REFUSED = _(
    "%(service)s refused our access. Check the credentials and rights of its connection, then run it again."
)
NOT_FOUND = _(
    "%(service)s does not have what was asked for. Check the address or the number, then run it again."
)
NOT_ACCEPTED = _("%(service)s did not accept the data that were sent. Correct them, then run it again.")
NOT_AVAILABLE = _(
    "%(service)s was not available, not even after repeated attempts. Run it again when the service works."
)
FAULT_OF_OURS = _("There is a fault on our side. We know about it and are looking into it.")

IMPACTS: dict[str, str] = {
    "http.400": NOT_ACCEPTED,
    "http.401": ACCESS_REFUSED,
    "http.403": ACCESS_REFUSED,
    "http.404": NOT_FOUND,
    "http.408": NOT_AVAILABLE,
    "http.409": _(
        "%(service)s refused the change, because it does not fit what it already has. Check it there, then"
        " run it again."
    ),
    "http.410": NOT_FOUND,
    "http.422": NOT_ACCEPTED,
    "http.425": NOT_AVAILABLE,
    "http.429": NOT_AVAILABLE,
    "http.503": NOT_AVAILABLE,
    "http.3xx": _("%(service)s has moved elsewhere. Check the address of its connection, then run it again."),
    "http.4xx": _("%(service)s refused the request (%(status)s). Correct it, then run it again."),
    "http.5xx": _(
        "%(service)s has a fault of its own (%(status)s), also after repeated attempts. Run it again when the"
        " service works."
    ),
    "net.dns": _("%(service)s cannot be found. Check the address of its connection, then run it again."),
    "net.refused": NOT_AVAILABLE,
    "storage": _(
        "Our own storage did not answer in time, not even after repeated attempts. Run it again later."
    ),
    "net.timeout": _(
        "%(service)s did not answer in time, not even after repeated attempts. Run it again when the service"
        " works."
    ),
    "net.tls": _(
        "%(service)s could not prove who it is, so nothing was sent to it. Its certificate has to be mended"
        " there."
    ),
    "net.unknown": UNCERTAIN_IMPACT,
    "mcp.isError": _("%(service)s reports that it could not do its task."),
    "input.invalid": _(
        "A value that the automation needs did not arrive or cannot be used; the run says which. Correct the"
        " data, the automation or its connection, then run it again."
    ),
    "missing.operation": _(
        "The automation uses an operation that does not exist any more. Edit the automation, then run it"
        " again."
    ),
    "missing.group": _(
        "The group that the automation names does not exist. Edit the automation, then run it again."
    ),
    "missing.type": _(
        "The ticket type that the automation names does not exist. Edit the automation, then run it again."
    ),
    "missing.person": _(
        "The person that the automation names does not exist. Edit the automation, then run it again."
    ),
    "missing.connection": _(
        "The connection that the automation names does not exist. Edit the automation, then run it again."
    ),
    "missing.automation": _(
        "The automation that should have run does not exist any more. Nothing goes on until there is one"
        " again."
    ),
    "automation.paused": _(
        "The automation is paused. Events that came meanwhile are kept and can be run again when it is"
        " resumed."
    ),
    "limit.actions": _(
        "It took more steps than one run may take, so we stopped it. Divide the work into smaller parts."
    ),
    "limit.size": _(
        "The data were larger than is allowed. Divide them into smaller parts, then run it again."
    ),
    "limit.wait": _(
        "It waited for another service for longer than is allowed. Run it again when the service works."
    ),
    "flow.fail": _("The automation ended itself, as its author wished in this case."),
    "flow.fail.message": _("The automation ended itself and says: %(message)s"),
    "poison": FAULT_OF_OURS,
    "bug": FAULT_OF_OURS,
    "delivery.parked": _(
        "Something that the automation needs is missing in the event or has another form. Mend the parameters"
        " of the automation, then replay the event from the refused ones."
    ),
    "loop.depth": _(
        "Changes by automations caused further changes too many times in a row. Edit one of the automations."
    ),
    "reconciliation.missing": _(
        "Nothing was done for them yet. The reconciliation of the day lists them, and they can be started from"
        " there."
    ),
    "reconciliation.stuck": _(
        "It is late, or it waits for somebody to decide whether a call happened. Look at the runs in review and"
        " decide."
    ),
    "reconciliation.silence": _(
        "Events used to come more often. Check whether their sender still sends them, and to the right address."
    ),
    "incident.created": _("Look at what the automation did, and at its ticket."),
}
UNKNOWN_IMPACT: str = _("The automation could not go on. We know about it and are looking into it.")


def texts(code: str, params: Mapping[str, Any], language: str) -> Texts:
    """Return what the client reads of an incident.

    `params` may hold `ticket` (`TK-1`), `automation` and `connection` (names), `message` (of `flow.fail`),
    `several` (true when failures of more than one ticket were counted) and `uncertain` (true when nobody
    knows whether a call happened, so that the run waits for a person). A provider's own codes have its texts.
    """
    is_uncertain = bool(params.get("uncertain", code == "net.unknown"))
    if code == "net.unknown" and not is_uncertain:
        # Repeated as often as it may be and never answered: for the client that is a service that does not answer.
        code = "net.timeout"
    declared = _of_provider(code)
    if declared and not is_uncertain:
        return Texts(*declared.get(language, declared["en"]))
    title = UNCERTAIN if is_uncertain else TITLES.get(code, FAILED)
    impact = UNCERTAIN_IMPACT if is_uncertain else _impact_of(code, params)
    with override(language):
        values = {**params, "status": code.rpartition(".")[2], "service": _service(params)}
        return Texts(title=gettext(_form(title, params)) % values, impact=gettext(impact) % values)


def has_text(code: str) -> bool:
    """Whether `code` has an impact of its own, so that its readers do not meet the general sentence."""
    return _of_provider(code) is not None or _impact_of(code, {}) != UNKNOWN_IMPACT


def _of_provider(code: str) -> Mapping[str, tuple[str, str]] | None:
    """Return title and impact by language when a provider declares `code` as its own (SPEC section 10)."""
    return next((one.texts[code] for one in providers.every() if code in one.texts), None)


def _form(title: Title, params: Mapping[str, Any]) -> str:
    if params.get("ticket") and not params.get("several"):
        return title.of_ticket
    return title.of_automation if params.get("automation") else title.plain


def _impact_of(code: str, params: Mapping[str, Any]) -> str:
    if code == "flow.fail" and params.get("message"):
        return IMPACTS["flow.fail.message"]
    if code not in IMPACTS and code.startswith("http.") and len(code) == len("http.000"):
        return IMPACTS.get(f"{code[:6]}xx", UNKNOWN_IMPACT)
    return IMPACTS.get(code, UNKNOWN_IMPACT)


def _service(params: Mapping[str, Any]) -> str:
    return str(gettext(SERVICE) % params if params.get("connection") else gettext(UNNAMED_SERVICE))
