"""One tenant's account at a provider: address, encrypted credentials, limits, health."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import models

from csbot.lib.json import JSONField
from tickets.models import TenantOwned


class Connection(TenantOwned):
    """A tenant's account at a provider. `credentials` is sealed and write-only (SPEC section 10)."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    provider = models.CharField(max_length=40)
    name = models.CharField(max_length=200)
    config: Any = JSONField(default=dict)
    credentials = models.TextField(blank=True)
    limits: Any = JSONField(default=dict)
    # A 429 closes the whole connection until this instant; `refusals` counts those in a row.
    closed_until = models.DateTimeField(null=True, blank=True)
    refusals = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="connection_name")]

    def __str__(self) -> str:
        return self.name
