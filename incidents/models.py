"""Something a person must know about: a client level (title, impact) and an admin level (detail)."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from connectors.models import Connection
from csbot.lib.json import JSONField
from tickets.models import TenantOwned, Ticket


class Incident(TenantOwned):
    """One cause that went wrong for one tenant. The same cause founds no second one while this is open.

    `code` and `params` make title and impact in the reader's language (`incidents.messages`), unless `title`
    and `impact` were given by the automation itself. `automation` is a snapshot `{"id", "name"}` or null, so
    that this app knows no other. `detail` is for platform staff only. After several failures of one cause all
    of these are the newest one's.
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
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())
    ticket = models.ForeignKey(Ticket, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    automation = JSONField(null=True)
    connection = models.ForeignKey(
        Connection, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    detail = JSONField(default=dict)
    resolved_at = models.DateTimeField(null=True, blank=True)
    # When staff were told, and until then the earliest instant of the next try.
    notified_at = models.DateTimeField(null=True, blank=True)
    notify_after = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status="resolved", resolved_at__isnull=False)
                | (~Q(status="resolved") & Q(resolved_at__isnull=True)),
                name="incident_resolved_has_instant",
            ),
            models.UniqueConstraint(
                fields=["tenant", "cause"],
                condition=Q(status__in=["open", "acknowledged"]),
                name="incident_one_for_cause",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "-id"], name="incident_newest"),
            models.Index(
                fields=["notify_after"],
                condition=Q(notified_at__isnull=True, status__in=["open", "acknowledged"]),
                name="incident_to_notify",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.code} ({self.status})"
