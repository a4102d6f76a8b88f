"""How tickets are narrowed: the filters of the list, which `ticket/find` takes as well."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from csbot.lib import filters
from tickets import numbers, search


def named(field: str) -> filters.Filter:
    """Rows whose `field` (a type or a group) has the key or the id; an unknown one matches nothing."""

    def narrow(rows: QuerySet, value: str) -> QuerySet:
        meant = Q(**{f"{field}__key": value})
        public_id = filters.read_uuid(value)
        if public_id is not None:
            meant |= Q(**{f"{field}__public_id": public_id})
        return rows.filter(meant)

    return narrow


def _assignee(tickets: QuerySet, value: str) -> QuerySet:
    """Rows that the person (id or e-mail) has; `none` are those that nobody has."""
    if value == "none":
        return tickets.filter(assignee__isnull=True)
    if "@" in value:
        return tickets.filter(assignee__email__iexact=value)
    public_id = filters.read_uuid(value)
    if public_id is None:
        raise filters.BadFilter("Expected a person's id or e-mail, or none.")
    return tickets.filter(assignee__public_id=public_id)


def _tag(tickets: QuerySet, value: str) -> QuerySet:
    return tickets.filter(tags__contains=[value])


def _question(tickets: QuerySet, value: str) -> QuerySet:
    """Rows with that number, or with all the words in title, description, external id or requester."""
    number = numbers.read_key(value)
    if number is not None:
        return tickets.filter(number=number)
    found = Q()
    for word in search.words(value):
        found &= Q(search_text__contains=word)
    digits = value.strip()
    if digits.isascii() and digits.isdigit() and len(digits) <= 18:
        found |= Q(number=int(digits))
    return tickets.filter(found)


FILTERS: dict[str, filters.Filter] = {
    "status": filters.text("status"),
    "closed": filters.boolean("closed"),
    "type": named("type"),
    "tag": _tag,
    "assignee": _assignee,
    "group": named("group"),
    "externalId": filters.text("external_id"),
    "q": _question,
    "createdAfter": filters.instant_after("created_at"),
    "updatedAfter": filters.instant_after("updated_at"),
}
