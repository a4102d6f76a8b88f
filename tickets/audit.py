"""Who changed which part of a tenant's configuration: the one writer of the audit log. Append-only."""

from __future__ import annotations

from typing import Any

from tickets.events import Actor
from tickets.models import AuditEntry, Tenant


def record(tenant: Tenant, actor: Actor, action: str, label: str, before: Any, after: Any) -> AuditEntry:
    """Write an entry, in the caller's transaction.

    `action` is `<noun>.<what happened>` (`person.changed`), `label` the object's path under /api
    (`people/<id>`); `before` and `after` are JSON with secrets already masked, or None.
    """
    return AuditEntry.objects.create(
        tenant=tenant,
        actor={"kind": actor.kind, "name": actor.name},
        action=action,
        object=label,
        before=before,
        after=after,
    )
