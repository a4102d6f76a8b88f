"""Hands out the lines of every tenant's groups: somebody's absence may have ended, and that is no event."""

from __future__ import annotations

from django.db.models import Exists, OuterRef

from tickets import services as tickets
from tickets.models import Tenant, Ticket


def hand_out_lines() -> int:
    """Hand waiting tickets to who is free, in every tenant that has a line; return how many went.

    Idempotent, for a periodic tick; one tenant's load lock at a time (SPEC section 4, `respectCapacity`).
    """
    waiting = Ticket.objects.of(OuterRef("pk")).filter(in_line_since__isnull=False)
    tenants = Tenant.objects.filter(Exists(waiting), suspended_at=None).order_by("pk")
    return sum(tickets.hand_out(tenant) for tenant in tenants)
