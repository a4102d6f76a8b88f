"""Filters of a list from query parameters: an unknown, repeated or unreadable one is 400, never ignored."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict

from csbot.lib.errors import RequestRefused
from csbot.lib.values import escape, is_storable

Filter = Callable[[QuerySet, str], QuerySet]

# Parameters of every list that has pages.
OF_PAGES = ("cursor", "pageSize")


class BadFilter(Exception):
    """The value of a filter cannot be read; the message says what was expected."""


def filtered(queryset: QuerySet, query: QueryDict, filters: Mapping[str, Filter]) -> QuerySet:
    """Return `queryset` narrowed by the query parameters. Raises RequestRefused 400 for a bad one."""
    check_names(query, {*filters, *OF_PAGES})
    for name, value in query.items():
        if name in OF_PAGES:
            continue
        if not is_storable(value):
            raise bad_parameter("filter.invalid", name, "A text may not have a NUL character.")
        try:
            queryset = filters[name](queryset, value)
        except BadFilter as error:
            raise bad_parameter("filter.invalid", name, str(error)) from error
    return queryset


def check_names(query: QueryDict, known: Collection[str]) -> None:
    """Raise RequestRefused 400 for a query parameter that is not `known`, or that is there twice."""
    for name, values in query.lists():
        if name not in known:
            there_are = f"there are: {', '.join(sorted(known))}" if known else "there is none here"
            raise bad_parameter("filter.unknown", name, f"This filter is not known; {there_are}.")
        if len(values) > 1:
            raise bad_parameter("filter.invalid", name, "Expected this filter once.")


def bad_parameter(code: str, name: str, message: str) -> RequestRefused:
    """Return the refusal of query parameter `name`, to be raised; `message` says what was expected."""
    return RequestRefused(
        code, f"{name}: {message}", errors=[{"pointer": f"/{escape(name)}", "message": message}]
    )


def text(field: str) -> Filter:
    """Rows whose `field` equals the value."""
    return lambda queryset, value: queryset.filter(**{field: value})


def boolean(field: str) -> Filter:
    """Rows whose `field` is `true` or `false`."""

    def narrow(queryset: QuerySet, value: str) -> QuerySet:
        if value not in {"true", "false"}:
            raise BadFilter("Expected true or false.")
        return queryset.filter(**{field: value == "true"})

    return narrow


def choice(field: str, words: Mapping[str, Any] | list[str]) -> Filter:
    """Rows whose `field` is one of `words` (a mapping translates the API's word into the stored value)."""

    def narrow(queryset: QuerySet, value: str) -> QuerySet:
        if value not in words:
            raise BadFilter(f"Expected one of: {', '.join(words)}.")
        return queryset.filter(**{field: words[value] if isinstance(words, Mapping) else value})

    return narrow


def uuid_of(field: str) -> Filter:
    """Rows whose `field` (such as `automation__public_id`) is the id."""

    def narrow(queryset: QuerySet, value: str) -> QuerySet:
        public_id = read_uuid(value)
        if public_id is None:
            raise BadFilter("Expected an id (a UUID).")
        return queryset.filter(**{field: public_id})

    return narrow


def read_uuid(value: str) -> uuid.UUID | None:
    """Return the id of a text, None where it is none; Python alone takes the digits of every script."""
    try:
        return uuid.UUID(value) if value.isascii() else None
    except ValueError:
        return None


def instant_after(field: str) -> Filter:
    """Rows whose `field` is later than the instant."""
    return lambda queryset, value: queryset.filter(**{f"{field}__gt": read_instant(value)})


def instant_before(field: str) -> Filter:
    """Rows whose `field` is earlier than the instant."""
    return lambda queryset, value: queryset.filter(**{f"{field}__lt": read_instant(value)})


def read_instant(value: str) -> datetime:
    """Return the instant of ISO 8601 text, in UTC where no zone is named. Raises BadFilter."""
    # A plus sign that was not percent-encoded arrives as a blank: `…T10:00:00 01:00`.
    written = value[:-6] + "+" + value[-5:] if len(value) > 16 and value[-6] == " " else value
    try:
        instant = datetime.fromisoformat(written)
        return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise BadFilter("Expected an instant such as 2026-11-30T18:05:00Z.") from error
