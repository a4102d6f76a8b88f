"""What callers name a type, a group or a person by: a key, an id or a person's e-mail, within one tenant."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models.functions import Lower

from tickets import values
from tickets.models import Group, Person, Tenant, TenantOwned, TicketType


def required(tenant: Tenant, kind: str, reference: Any, pointer: str) -> Any:
    """Return the `group` or `person` that a caller named. Raises RequestRefused 400 `missing.<kind>`."""
    clean = values.reference(reference, pointer)
    find = {"group": group_of, "person": person_of}[kind]
    row = find(tenant, clean) if clean is not None else None
    if row is None:
        values.refuse([values.Fault(f"missing.{kind}", pointer, f"There is no such {kind}: {clean}.")])
    return row


def type_of(tenant: Tenant, reference: str) -> TicketType | None:
    """Return the tenant's ticket type by key or id, None when there is none."""
    return TicketType.objects.of(tenant).filter(key=reference).first() or _by_id(
        TicketType, tenant, reference
    )


def group_of(tenant: Tenant, reference: str) -> Group | None:
    """Return the tenant's group by key or id, None when there is none."""
    return Group.objects.of(tenant).filter(key=reference).first() or _by_id(Group, tenant, reference)


def person_of(tenant: Tenant, reference: str) -> Person | None:
    """Return the tenant's person by e-mail in any case or by id, None when there is none."""
    if "@" in reference:
        people = Person.objects.of(tenant).annotate(address=Lower("email"))
        return people.filter(address=reference.lower()).first()
    return _by_id(Person, tenant, reference)


def _by_id(model: type[TenantOwned], tenant: Tenant, reference: str) -> Any:
    try:
        public_id = uuid.UUID(reference)
    except ValueError:
        return None
    return model.objects.of(tenant).filter(public_id=public_id).first()
