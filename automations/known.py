"""What the check of a tree asks: operations of the catalogue, and what one tenant has, by key, name or id.

Each kind is read once, when it is first asked for; one object serves one check.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from functools import cache, cached_property

from automations.models import Automation
from automations.scope import OperationSpec
from connectors import catalog
from connectors.catalog import Operation
from connectors.models import Connection
from tickets.models import Group, Person, Tenant, TenantOwned, TicketType

# What a tree may name: its table, and the column that means the same in another tenant.
_KINDS: dict[str, tuple[type[TenantOwned], str]] = {
    "group": (Group, "key"),
    "type": (TicketType, "key"),
    "person": (Person, "email"),
    "automation": (Automation, "name"),
    "connection": (Connection, "name"),
}


class KnownOfTenant:
    """The `Known` of `automations.meaning` for one tenant; nothing of another tenant's is found."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._read: dict[str, dict[str, str]] = {}

    def operation(self, op: str) -> OperationSpec | None:
        """Return what is known of an operation, or None when there is none of that name."""
        found = catalog.find(op)
        return None if found is None else _spec(found)

    def has(self, kind: str, reference: str) -> bool:
        """Say whether there is a `group`, `type`, `person` or `automation` of this key, id, name or e-mail."""
        return _spelled(kind, reference) in self._names(kind) or _canonical(reference) in self._names(kind)

    def provider_of(self, connection: str) -> str | None:
        """Return the provider of the connection of this name or id, or None when there is none."""
        name = self._names("connection").get(connection) or self._names("connection").get(
            _canonical(connection)
        )
        return None if name is None else self._providers[name]

    def ticket_fields(self) -> Collection[str]:
        """Return the ids of the custom fields of all ticket types."""
        return {field["id"] for kind in self._types for field in kind.fields}

    def statuses(self, type_key: str | None) -> Collection[str]:
        """Return the statuses that the type of this key or id offers, or all types together."""
        return {
            status
            for kind in self._types
            if type_key is None or type_key in (kind.key, str(kind.public_id))
            for status in kind.statuses
        }

    def portable(self, text: str) -> str:
        """Return the key, name or e-mail of what has the id `text`; any other text as it is."""
        by_kind = (self._names(kind).get(_canonical(text)) for kind in _KINDS if _canonical(text))
        return next((name for name in by_kind if name is not None), text)

    def _names(self, kind: str) -> dict[str, str]:
        """Return by id and by name what each thing of a kind is called."""
        if kind not in self._read:
            model, column = _KINDS[kind]
            rows = list(model.objects.of(self._tenant).values_list("public_id", column))
            by_id = {str(public_id): name for public_id, name in rows}
            self._read[kind] = by_id | {_spelled(kind, name): name for _public_id, name in rows}
        return self._read[kind]

    @cached_property
    def _types(self) -> list[TicketType]:
        return list(TicketType.objects.of(self._tenant))

    @cached_property
    def _providers(self) -> dict[str, str]:
        return dict(Connection.objects.of(self._tenant).values_list("name", "provider"))


@cache
def _spec(operation: Operation) -> OperationSpec:
    return OperationSpec(
        op=operation.op,
        inputs=operation.inputs.model_json_schema(),
        outputs=tuple(operation.outputs.model_json_schema().get("properties", {})),
        provider=operation.provider,
    )


def _spelled(kind: str, name: str) -> str:
    """Return a name as it is compared: e-mails in any case of letters."""
    return name.lower() if kind == "person" else name


def _canonical(text: str) -> str:
    """Return an id in its one spelling, or an empty text for what is none."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return ""
