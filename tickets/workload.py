"""How much work the people of a group hold now, by which `tickets.assignment` chooses. Writes nothing."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import Count

from csbot.lib import database_clock
from tickets import assignment
from tickets.assignment import Candidate, Choice
from tickets.models import Group, Membership, Tenant, Ticket
from tickets.representation import named

LOAD_LOCK = 4_801
"""First half of the advisory lock under which it is decided who gets work; the second is the tenant's id."""


def lock(tenant: Tenant) -> None:
    """Wait until nobody else in the tenant decides who gets work; held to the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOAD_LOCK, tenant.pk])


def candidates(group: Group, *, without: Ticket) -> list[Candidate]:
    """Return the members of `group` with their open tickets in the whole tenant, `without` not counted."""
    memberships = (
        Membership.objects.of(group.tenant_id)
        .filter(group=group)
        .select_related("person")
        .order_by("person_id")
    )
    people = [one.person_id for one in memberships]
    held = dict(
        Ticket.objects.of(group.tenant_id)
        .filter(closed=False, assignee__in=people)
        .exclude(pk=without.pk)
        .values_list("assignee_id")
        .annotate(Count("pk"))
    )
    return [
        Candidate(
            person_id=one.person_id,
            name=one.person.name,
            open_tickets=held.get(one.person_id, 0),
            capacity=one.capacity,
            last_assigned_at=one.person.last_assigned_at,
            away_until=one.person.away_until,
        )
        for one in memberships
    ]


def choose(group: Group, ticket: Ticket, *, respect_capacity: bool) -> Choice:
    """Return who of `group` gets the ticket, by the numbers of this moment; call it under `lock`."""
    people = candidates(group, without=ticket)
    return assignment.choose(people, now=database_clock.now(), respect_capacity=respect_capacity)


def is_held_by(group: Group, ticket: Ticket) -> bool:
    """Whether somebody has the ticket for `group`: under its name, or as a member where no group is named."""
    if ticket.assignee_id is None:
        return False
    return ticket.group_id == group.pk or (ticket.group_id is None and is_member(group, ticket.assignee_id))


def is_member(group: Group, person_id: int | None) -> bool:
    """Whether the person is one of the group; nobody is none."""
    return Membership.objects.of(group.tenant_id).filter(group=group, person=person_id).exists()


def explanation(group: Group, choice: Choice) -> dict[str, Any]:
    """Return the JSON that a log entry keeps: whom, among whom, by which numbers.

    `{"group", "person", "decidedBy", "considered": [{"name", "open", "capacity", "lastAssignedAt",
    "passedOver"}]}`
    """
    return {
        "group": named(group),
        "person": choice.chosen.name if choice.chosen else None,
        "decidedBy": choice.decided_by,
        "considered": [
            {
                "name": one.candidate.name,
                "open": one.candidate.open_tickets,
                "capacity": one.candidate.capacity,
                "lastAssignedAt": (
                    one.candidate.last_assigned_at.isoformat() if one.candidate.last_assigned_at else None
                ),
                "passedOver": one.passed_over,
            }
            for one in choice.considered
        ],
    }
