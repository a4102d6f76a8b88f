"""Something a person must know about: a client level (title, impact) and an admin level (detail)."""

from __future__ import annotations

import uuid

from django.db import models

from connectors.models import Connection
from csbot.lib.json import JSONField
from tickets.models import TenantOwned, Ticket


class Incident(TenantOwned):
    """One cause that went wrong for one tenant. The same cause founds no second one while this is open.

    `code` and `params` make title and impact in the reader's language (`incidents.messages`), unless `title` and
    `impact` were given by the automation itself. `automation` is a snapshot `{"id", "name"}` or null, so that this
    app knows no other. `detail` is for platform staff only.
    """

    class Status(models.TextChoices):
        OPEN = "open"
        ACKNOWLEDGED = "acknowledged"
        RESOLVED = "resolved"

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    cause = models.CharField(max_length=300)
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.OPEN)
    code = models.CharField(max_length=60)
    params = JSONField(default=dict)
    title = models.TextField(blank=True)
    impact = models.TextField(blank=True)
    count = models.PositiveIntegerField(default=1)
    first_at = models.DateTimeField(auto_now_add=True)
    last_at = models.DateTimeField(auto_now_add=True)
    ticket = models.ForeignKey(Ticket, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    automation = JSONField(null=True)
    connection = models.ForeignKey(
        Connection, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    detail = JSONField(default=dict)
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "cause"],
                condition=models.Q(status__in=["open", "acknowledged"]),
                name="incident_one_for_cause",
            )
        ]
        indexes = [models.Index(fields=["tenant", "-id"], name="incident_newest")]

    def __str__(self) -> str:
        return f"{self.code} ({self.status})"
