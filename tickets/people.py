"""All writes to tenants, people, groups, ticket types and tokens, each together with its audit entry.

`values` are by column name, already checked for shape; what only the database knows (taken keys, use by
others) is refused here. The `…_shape` functions are the JSON of SPEC section 13, also for the audit log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db import IntegrityError, connection, models, transaction
from django.db.models.functions import Now

from csbot.lib.api import instant_text
from csbot.lib.errors import RequestRefused
from tickets import audit, references, services, tokens
from tickets.events import Actor
from tickets.models import ApiToken, Group, Membership, Person, Role, Tenant, Ticket, TicketType

log = logging.getLogger(__name__)

# Enough to see what it is; a list of thousands helps nobody.
MAX_USED_BY = 20

desk_users: list[Callable[[Person | Group | TicketType], list[str]]] = []
"""Who knows what uses a person, a group or a type: an app that refers to them appends a function while it starts.

Each returns the names of the users, such as `automations/<id>`.
"""

# Constraint of the database -> where the taken value stands in a body.
UNIQUE = {
    "tickets_tenant_slug": ("/slug", "There is a tenant with this slug."),
    "person_email": ("/email", "There is a person with this e-mail."),
    "group_key": ("/key", "There is a group with this key."),
    "ticket_type_key": ("/key", "There is a ticket type with this key."),
}


# Tenants


def create_tenant(actor: Actor, values: dict[str, Any]) -> tuple[Tenant, str]:
    """Found a tenant; return it and the text of its first admin token. Raises RequestRefused 409."""
    with transaction.atomic():
        with _unique():
            tenant = Tenant.objects.create(**values)
        audit.record(tenant, actor, "tenant.created", f"tenants/{tenant.slug}", None, tenant_shape(tenant))
        _token, written = create_token(tenant, actor, {"name": "First admin", "role": Role.ADMIN})
    return tenant, written


def change_tenant(tenant: Tenant, actor: Actor, values: dict[str, Any]) -> Tenant:
    """Change what is given of a tenant and return it."""
    return _change(Tenant.objects.filter(pk=tenant.pk), actor, "tenant.changed", values, tenant_shape)


def suspend_tenant(tenant: Tenant, actor: Actor) -> Tenant:
    """Stop a tenant: its tokens, webhooks, polls and claims. Suspending a suspended one changes nothing."""
    active = Tenant.objects.filter(pk=tenant.pk, suspended_at__isnull=True)
    return _switch(tenant, active, actor, "tenant.suspended", Now())


def resume_tenant(tenant: Tenant, actor: Actor) -> Tenant:
    """Let a suspended tenant go on where it stood. Resuming an active one changes nothing."""
    suspended = Tenant.objects.filter(pk=tenant.pk, suspended_at__isnull=False)
    return _switch(tenant, suspended, actor, "tenant.resumed", None)


def _switch(tenant: Tenant, standing: models.QuerySet[Tenant], actor: Actor, action: str, at: Any) -> Tenant:
    with transaction.atomic():
        before = tenant_shape(tenant)
        has_switched = standing.update(suspended_at=at)
        tenant = Tenant.objects.get(pk=tenant.pk)
        if has_switched:
            audit.record(tenant, actor, action, f"tenants/{tenant.slug}", before, tenant_shape(tenant))
    return tenant


def delete_tenant(tenant: Tenant, actor: Actor) -> None:
    """Delete a suspended tenant with all that is its own. Raises RequestRefused 409 for an active one.

    Foreign keys are checked at the commit (Django declares them deferrable), so tables go in any order.
    """
    with transaction.atomic():
        if not Tenant.objects.select_for_update().filter(pk=tenant.pk, suspended_at__isnull=False).exists():
            raise RequestRefused("tenant.active", "Only a suspended tenant can be deleted.", status=409)
        with connection.cursor() as cursor:
            # A large tenant takes longer than a request may; staff waits.
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute("SET LOCAL transaction_timeout = 0")
        for model in apps.get_models():
            owner = next((field for field in model._meta.fields if field.related_model is Tenant), None)
            if owner is not None:
                owned = model._base_manager.filter(**{owner.name: tenant})
                owned._raw_delete(owned.db)
        Tenant.objects.filter(pk=tenant.pk)._raw_delete("default")
    log.warning("Tenant %s was deleted by %s %s.", tenant.slug, actor.kind, actor.name)


def tenant_shape(tenant: Tenant) -> dict[str, Any]:
    """Return a tenant as the API shows it to staff."""
    return {
        "id": str(tenant.public_id),
        "slug": tenant.slug,
        "name": tenant.name,
        "language": tenant.language,
        "timezone": tenant.timezone,
        "maxParallelRuns": tenant.max_parallel_runs,
        "retentionDays": tenant.retention_days,
        "suspended": tenant.suspended_at is not None,
        "suspendedAt": _instant(tenant.suspended_at),
        "createdAt": _instant(tenant.created_at),
    }


# People


def create_person(tenant: Tenant, actor: Actor, values: dict[str, Any]) -> Person:
    """Add a person. Raises RequestRefused 409 `exists` when the e-mail is taken, in any case of letters."""
    return _create(Person, tenant, actor, "person.created", values, person_shape)


def change_person(person: Person, actor: Actor, values: dict[str, Any]) -> Person:
    """Change what is given of a person and return it. Raises RequestRefused 409 `exists`."""
    changed: Person = _change(_row(person), actor, "person.changed", values, person_shape)
    if "away_until" in values:
        services.hand_out(changed.tenant)
    return changed


def delete_person(person: Person, actor: Actor) -> None:
    """Delete a person. Raises RequestRefused 409 `used` while it has tickets or a place in a group, or is named."""
    _delete(person, actor, "person.deleted", person_shape, models.Q(assignee=person))


def person_shape(person: Person) -> dict[str, Any]:
    """Return a person as the API shows it."""
    return {
        "id": str(person.public_id),
        "name": person.name,
        "email": person.email,
        "role": str(person.role),
        "awayUntil": _instant(person.away_until),
        "createdAt": _instant(person.created_at),
    }


# Groups


def create_group(tenant: Tenant, actor: Actor, values: dict[str, Any]) -> Group:
    """Add a group with its `members`: `[{"person": <id or e-mail>, "capacity"}]`.

    Raises RequestRefused 400 for unknown people, 409 for a taken key.
    """
    values = dict(values)
    members = _members(tenant, values.pop("members", []))
    with transaction.atomic():
        with _unique():
            group = Group.objects.create(tenant=tenant, **values)
        _replace_members(group, members)
        audit.record(tenant, actor, "group.created", _label(group), None, group_shape(group))
    return group


def change_group(group: Group, actor: Actor, values: dict[str, Any]) -> Group:
    """Change what is given of a group; `members` replaces all, and who is free gets what waits in line.

    Raises RequestRefused 400 for unknown people, 409 for a taken key.
    """
    values = dict(values)
    given = values.pop("members", None)
    members = None if given is None else _members(group.tenant, given)
    with transaction.atomic():
        before = group_shape(_row(group).select_for_update().get())
        if values:
            with _unique():
                _row(group).update(**values)
        if members is not None:
            _replace_members(group, members)
        group = _row(group).get()
        after = group_shape(group)
        if before != after:
            audit.record(group.tenant, actor, "group.changed", _label(group), before, after)
    if members is not None:
        services.hand_out(group.tenant)
    return group


def delete_group(group: Group, actor: Actor) -> None:
    """Delete a group with its places. Raises RequestRefused 409 `used` while it has tickets or is named."""
    _delete(group, actor, "group.deleted", group_shape, models.Q(group=group))


def _members(tenant: Tenant, given: list[dict[str, Any]]) -> dict[int, int]:
    """Return capacity by the person's internal id. Raises RequestRefused 400 for bad ones."""
    capacities: dict[int, int] = {}
    faults = []
    for index, member in enumerate(given):
        person = references.person_of(tenant, member["person"])
        if person is None or person.pk in capacities:
            message = "There is no such person." if person is None else "This person is in the list twice."
            faults.append({"pointer": f"/members/{index}/person", "message": message})
        else:
            capacities[person.pk] = member["capacity"]
    if faults:
        raise RequestRefused("invalid", "Some members cannot be taken.", errors=faults)
    return capacities


def _replace_members(group: Group, capacities: dict[int, int]) -> None:
    memberships = Membership.objects.of(group.tenant_id).filter(group=group)
    memberships.exclude(person__in=capacities).delete()
    rows = [
        Membership(tenant_id=group.tenant_id, group=group, person_id=person, capacity=capacity)
        for person, capacity in capacities.items()
    ]
    Membership.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["group", "person"], update_fields=["capacity"]
    )


def group_shape(group: Group) -> dict[str, Any]:
    """Return a group as the API shows it; `memberships` may be prefetched with their people."""
    memberships = sorted(group.memberships.all(), key=lambda membership: membership.pk)
    return {
        "id": str(group.public_id),
        "key": group.key,
        "name": group.name,
        "members": [
            {"person": str(membership.person.public_id), "capacity": membership.capacity}
            for membership in memberships
        ],
        "createdAt": _instant(group.created_at),
    }


# Ticket types


def create_type(tenant: Tenant, actor: Actor, values: dict[str, Any]) -> TicketType:
    """Add a ticket type. Raises RequestRefused 409 `exists`."""
    return _create(TicketType, tenant, actor, "ticketType.created", values, type_shape)


def change_type(kind: TicketType, actor: Actor, values: dict[str, Any]) -> TicketType:
    """Change what is given of a type; a ticket keeps a status or a field that is no longer offered."""
    return _change(_row(kind), actor, "ticketType.changed", values, type_shape)


def delete_type(kind: TicketType, actor: Actor) -> None:
    """Delete a ticket type. Raises RequestRefused 409 `used` while tickets are of it or it is named."""
    _delete(kind, actor, "ticketType.deleted", type_shape, models.Q(type=kind))


def type_shape(kind: TicketType) -> dict[str, Any]:
    """Return a ticket type as the API shows it."""
    return {
        "id": str(kind.public_id),
        "key": kind.key,
        "name": kind.name,
        "statuses": kind.statuses,
        "fields": [{**field, "options": field.get("options")} for field in kind.fields],
        "createdAt": _instant(kind.created_at),
    }


# Tokens


def create_token(tenant: Tenant, actor: Actor, values: dict[str, Any]) -> tuple[ApiToken, str]:
    """Issue a token of a tenant and return it with its text, which is never to be had again."""
    with transaction.atomic():
        token, written = tokens.issue(
            tenant, values["name"], values["role"], expires_at=values.get("expires_at")
        )
        label = f"tokens/{token.public_id}"
        audit.record(tenant, actor, "token.created", label, None, token_shape(token))
    return token, written


def revoke_token(token: ApiToken, actor: Actor) -> None:
    """Take a token out of use at once."""
    with transaction.atomic():
        if tokens.revoke(token) and token.tenant is not None:
            label = f"tokens/{token.public_id}"
            audit.record(token.tenant, actor, "token.revoked", label, token_shape(token), None)


def token_shape(token: ApiToken) -> dict[str, Any]:
    """Return a token as the API shows it after its creation: without its text."""
    return {
        "id": str(token.public_id),
        "name": token.name,
        "role": None if token.role is None else str(token.role),
        "prefix": token.prefix,
        "expiresAt": _instant(token.expires_at),
        "lastUsedAt": _instant(token.last_used_at),
        "createdAt": _instant(token.created_at),
    }


# What they share


def _create(
    model: Any, tenant: Tenant, actor: Actor, action: str, values: dict[str, Any], shape: Callable[[Any], Any]
) -> Any:
    with transaction.atomic():
        with _unique():
            row = model.objects.create(tenant=tenant, **values)
        audit.record(tenant, actor, action, _label(row), None, shape(row))
    return row


def _change(
    rows: models.QuerySet, actor: Actor, action: str, values: dict[str, Any], shape: Callable[[Any], Any]
) -> Any:
    with transaction.atomic():
        before = shape(rows.select_for_update().get())
        if values:
            with _unique():
                rows.update(**values)
        row = rows.get()
        after = shape(row)
        if before != after:
            tenant = row if isinstance(row, Tenant) else row.tenant
            audit.record(tenant, actor, action, _label(row), before, after)
    return row


def _delete(row: Any, actor: Actor, action: str, shape: Callable[[Any], Any], in_tickets: models.Q) -> None:
    with transaction.atomic():
        # A ticket that is given to it meanwhile fails at its own commit: foreign keys are checked there.
        locked = _row(row).select_for_update().first()
        if locked is None:
            return
        used_by = _users_of(locked, in_tickets)
        if used_by:
            message = (
                f"It is still used by {', '.join(used_by[:3])}{' and more' if len(used_by) > 3 else ''}."
            )
            raise RequestRefused("used", message, status=409, extra={"usedBy": used_by})
        before = shape(locked)
        _row(row).delete()
        audit.record(row.tenant, actor, action, _label(row), before, None)


def _users_of(row: Any, in_tickets: models.Q) -> list[str]:
    """Return what uses a person, a group or a type: tickets, groups by their members, and what other apps know."""
    tickets = Ticket.objects.of(row.tenant_id).filter(in_tickets).order_by("-pk")[:MAX_USED_BY]
    users = [ticket.key for ticket in tickets]
    if isinstance(row, Person):
        groups = Group.objects.of(row.tenant_id).filter(memberships__person=row).order_by("pk")
        users += [_label(group) for group in groups[:MAX_USED_BY]]
    users += [name for users_of in desk_users for name in users_of(row)]
    return users[:MAX_USED_BY]


def _row(row: Any) -> Any:
    return type(row).objects.of(row.tenant_id).filter(pk=row.pk)


def _label(row: Any) -> str:
    """Return the object's path under /api."""
    if isinstance(row, Tenant):
        return f"tenants/{row.slug}"
    nouns = {Person: "people", Group: "groups", TicketType: "ticket-types"}
    return f"{nouns[type(row)]}/{row.public_id}"


@contextmanager
def _unique() -> Iterator[None]:
    """Translate a taken key into RequestRefused 409 `exists` with its pointer."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        broken = getattr(getattr(error.__cause__, "diag", None), "constraint_name", None) or ""
        for constraint, (pointer, message) in UNIQUE.items():
            if broken.startswith(constraint):
                fault = {"pointer": pointer, "message": message}
                raise RequestRefused("exists", message, status=409, errors=[fault]) from error
        raise


def _instant(value: datetime | None) -> str | None:
    return None if value is None else instant_text(value)
