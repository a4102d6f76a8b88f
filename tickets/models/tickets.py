"""Tickets, their types and their append-only log. Written by `tickets.services` alone."""

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from csbot.lib.json import JSONField
from csbot.lib.rows import loaded
from tickets import limits
from tickets.models.tenants import Group, Person, Tenant, TenantOwned


class TicketType(TenantOwned):
    """Names a kind of ticket, offers its statuses and defines its custom fields.

    `fields`: `[{"id", "key", "label", "type", "required", "options"?}]`; types of SPEC section 8.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    key = models.CharField(max_length=100, validators=[limits.validate_key])
    name = models.CharField(max_length=200)
    statuses = JSONField(default=list)
    fields = JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "key"], name="ticket_type_key")]

    def __str__(self) -> str:
        return self.name


class TicketCounter(models.Model):
    """The next ticket number of a tenant; apart from Tenant, so that counting locks nothing else."""

    tenant = models.OneToOneField(Tenant, primary_key=True, on_delete=models.CASCADE, related_name="+")
    next_number = models.BigIntegerField(default=1)

    def __str__(self) -> str:
        return f"TK-{self.next_number} is next"


class Ticket(TenantOwned):
    """A unit of work with three axes that never touch one another: status, closed, tags (SPEC section 8)."""

    number = models.BigIntegerField()
    external_id = models.CharField(max_length=500, null=True, blank=True)
    title = models.CharField(max_length=500)
    description = models.TextField(blank=True)
    type = models.ForeignKey(TicketType, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    status = models.CharField(max_length=200, null=True, blank=True)
    closed = models.BooleanField(default=False)
    closed_at = models.DateTimeField(null=True, blank=True)
    tags = ArrayField(models.CharField(max_length=200), default=list, blank=True)
    assignee = models.ForeignKey(Person, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    group = models.ForeignKey(Group, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    # Custom fields by the key of the type's definition.
    fields = JSONField(default=dict)
    requester_name = models.CharField(max_length=200, null=True, blank=True)
    requester_email = models.CharField(max_length=320, null=True, blank=True)
    # Since when it stands in the line of its group, waiting for somebody to get free; null outside a line.
    in_line_since = models.DateTimeField(null=True, blank=True)
    # What a search looks through, folded by `tickets.search.fold`: without accents and in small letters.
    search_text = models.TextField(default="", blank=True, editable=False)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)
    # The last change, comment or event; `version` counts changes alone.
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "number"], name="ticket_number"),
            models.UniqueConstraint(fields=["tenant", "external_id"], name="ticket_external_id"),
            models.CheckConstraint(
                condition=models.Q(closed=models.Q(closed_at__isnull=False)), name="ticket_closed_has_instant"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "-id"], name="ticket_newest"),
            models.Index(
                fields=["tenant", "assignee"], condition=models.Q(closed=False), name="ticket_open_of_person"
            ),
            models.Index(
                fields=["tenant", "in_line_since"],
                condition=models.Q(in_line_since__isnull=False),
                name="ticket_in_line",
            ),
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def key(self) -> str:
        """The number people use: `TK-1`."""
        return f"TK-{self.number}"


class TicketEvent(TenantOwned):
    """One entry of a ticket's append-only log.

    `kind` is a word of SPEC section 13; `code` and `params` make the message in the reader's language; `data`
    carries what programs read, such as `{"changes": {"status": {"from": null, "to": "new"}}}`.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    ticket = models.ForeignKey(Ticket, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    kind = models.CharField(max_length=20)
    actor_kind = models.CharField(max_length=20)
    actor_name = models.CharField(max_length=200)
    code = models.CharField(max_length=60)
    params = JSONField(default=dict)
    data = JSONField(default=dict)
    run_id = models.UUIDField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["ticket", "id"], name="ticket_event_of_ticket"),
            models.Index(fields=["tenant", "at"], name="ticket_event_of_day"),
        ]

    def __str__(self) -> str:
        return f"{loaded(self, 'ticket') or f'ticket {self.ticket_id}'} {self.kind}"
