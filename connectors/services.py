"""All writes to connections, each together with its audit entry; credentials go in and never come out.

`refusals` alone writes whether a connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, transaction
from pydantic import Field, ValidationError

from connectors import credentials, providers
from connectors.catalog import Shape
from connectors.models import Connection
from connectors.providers import Provider
from csbot.lib.api import instant_text
from csbot.lib.errors import RequestRefused
from csbot.lib.values import escape
from tickets import audit
from tickets.events import Actor
from tickets.models import Tenant

# Enough to see what it is; a list of thousands helps nobody.
MAX_USED_BY = 20


class Rate(Shape):
    """At most `count` calls in any `perSec` seconds."""

    count: int = Field(ge=1, le=100_000)
    perSec: Decimal = Field(gt=0, le=86_400)


class Limits(Shape):
    """What the service bears; without a value the provider's default holds."""

    rate: Rate | None = None
    concurrency: int | None = Field(default=None, ge=1, le=1000)


connection_users: list[Callable[[Connection], list[str]]] = []
"""Who knows what uses a connection: an app that refers to connections appends a function while it starts.

Each returns the names of the users, such as `automations/<id>`.
"""


def create(tenant: Tenant, actor: Actor, values: dict[str, Any]) -> Connection:
    """Add a connection: `provider`, `name`, `config`, `credentials` and `limits` as in SPEC section 13.

    Raises RequestRefused 400 `invalid` with every fault, 409 `exists` for a taken name.
    """
    account = Connection(tenant=tenant, provider=values["provider"], name=values["name"])
    _fill(account, {"config": {}, **values})
    with transaction.atomic():
        _save(account)
        audit.record(tenant, actor, "connection.created", _label(account), None, connection_shape(account))
    return account


def change(account: Connection, actor: Actor, values: dict[str, Any]) -> Connection:
    """Change what is given of a connection and return it. `config`, `limits`, `credentials` come whole.

    Credentials that are exactly the marks which the API shows stay as they are, so that what was read can be
    sent back. Raises RequestRefused 400 `invalid`, 409 `exists`; Connection.DoesNotExist when it is gone.
    """
    with transaction.atomic():
        account = Connection.objects.of(account.tenant_id).select_for_update().get(pk=account.pk)
        before = connection_shape(account)
        sealed = account.credentials
        _fill(account, values)
        account.name = values.get("name", account.name)
        _save(account)
        after = connection_shape(account)
        if before != after or sealed != account.credentials:
            audit.record(account.tenant, actor, "connection.changed", _label(account), before, after)
    return account


def delete(account: Connection, actor: Actor) -> None:
    """Delete a connection. Raises RequestRefused 409 `used` with `usedBy` while something refers to it."""
    with transaction.atomic():
        locked = Connection.objects.of(account.tenant_id).select_for_update().filter(pk=account.pk).first()
        if locked is None:
            return
        used_by = [name for users_of in connection_users for name in users_of(locked)][:MAX_USED_BY]
        if used_by:
            more = " and more" if len(used_by) > 3 else ""
            message = f"It is still used by {', '.join(used_by[:3])}{more}."
            raise RequestRefused("used", message, status=409, extra={"usedBy": used_by})
        before = connection_shape(locked)
        label = _label(locked)
        locked.delete()
        audit.record(account.tenant, actor, "connection.deleted", label, before, None)


def connection_shape(account: Connection) -> dict[str, Any]:
    """Return a connection as it may be seen: of its credentials only which are set."""
    provider = providers.find(account.provider)
    defaults = provider.limits if provider else {}
    return {
        "id": str(account.public_id),
        "provider": account.provider,
        "name": account.name,
        "config": account.config,
        "credentials": credentials.marks(account),
        "limits": {**defaults, **account.limits},
        "createdAt": instant_text(account.created_at),
    }


def state_shape(account: Connection, now: datetime) -> dict[str, Any]:
    """Return whether calls of a connection go out: `reason` is `rate` while a 429 keeps it closed."""
    is_closed = account.closed_until is not None and account.closed_until > now
    return {
        "open": not is_closed,
        "reason": "rate" if is_closed else None,
        "closedUntil": instant_text(account.closed_until) if is_closed and account.closed_until else None,
        "refusals": account.refusals,
    }


def _fill(account: Connection, values: dict[str, Any]) -> None:
    """Put the checked values into `account`. Raises RequestRefused 400 with every fault and its pointer."""
    provider = providers.find(account.provider)
    if provider is None:
        known = ", ".join(each.name for each in providers.every())
        fault = {"pointer": "/provider", "message": f"This provider is not known; there are: {known}."}
        raise RequestRefused("invalid", fault["message"], errors=[fault])
    faults: list[dict[str, str]] = []
    if "config" in values:
        account.config = _checked("config", provider.config, values["config"], faults)
    if "limits" in values:
        account.limits = _checked("limits", Limits, values["limits"] or {}, faults)
    if "credentials" in values:
        _fill_credentials(account, provider, values["credentials"] or {}, faults)
    if faults:
        raise RequestRefused("invalid", "Some values cannot be taken.", errors=faults)


def _fill_credentials(
    account: Connection, provider: Provider, given: dict[str, Any], faults: list[dict[str, str]]
) -> None:
    if given and given == credentials.marks(account):
        return
    checked = _checked("credentials", provider.credentials, given, faults)
    if not faults:
        credentials.seal(account, checked)


def _checked(place: str, shape: type[Shape], given: Any, faults: list[dict[str, str]]) -> dict[str, Any]:
    """Return `given` in its shape, without what is not set; add its faults to `faults`, never a value."""
    try:
        return shape.model_validate(given).model_dump(by_alias=True, exclude_none=True)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            where = "/".join(escape(str(part)) for part in (place, *fault["loc"]))
            faults.append({"pointer": f"/{where}", "message": fault["msg"].removeprefix("Value error, ")})
        return {}


def _save(account: Connection) -> None:
    try:
        with transaction.atomic():
            if account.pk is None:
                account.save(force_insert=True)
            else:
                # Never the columns that `refusals` writes.
                account.save(update_fields=["name", "config", "credentials", "limits"])
    except IntegrityError as error:
        broken = getattr(getattr(error.__cause__, "diag", None), "constraint_name", None)
        if broken != "connection_name":
            raise
        fault = {"pointer": "/name", "message": "There is a connection with this name."}
        raise RequestRefused("exists", fault["message"], status=409, errors=[fault]) from error


def _label(account: Connection) -> str:
    return f"connections/{account.public_id}"
