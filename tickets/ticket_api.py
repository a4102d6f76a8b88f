"""`/api/tickets`: reading and changing tickets (SPEC section 13); a write is a call of `tickets.services`."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from csbot.lib import api
from csbot.lib.errors import RequestRefused
from tickets import numbers, services
from tickets.filters import FILTERS
from tickets.models import Ticket, TicketEvent
from tickets.representation import log_entry, representation
from tickets.values import KEYS, checked
from tickets.viewset import TenantViewSet

MAX_BULK = 200
"""Tickets of one bulk request: as many as the largest page of a list has."""

BULK_KEYS = tuple(key for key in KEYS if key != "externalId")


class Comment(api.StrictSerializer):
    """`public` is a reply that the requester may see, otherwise it is an internal note."""

    text = api.AnyJSON()
    public = serializers.BooleanField(default=False)


class Assignment(api.StrictSerializer):
    """A person and/or a group, or `leastBusy` with a group; `person` null takes the assignee away."""

    person = api.AnyJSON(required=False, allow_null=True)
    group = api.AnyJSON(required=False)
    leastBusy = api.AnyJSON(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse what names nobody or names in two ways."""
        if not attrs or ("leastBusy" in attrs and len(attrs) > 1):
            raise serializers.ValidationError("Expected `person`, `group`, or `leastBusy` alone.")
        return attrs


class Bulk(api.StrictSerializer):
    """The same edit of several tickets; `set` has the keys of a PATCH but for `externalId`."""

    numbers = serializers.ListField(
        child=serializers.CharField(max_length=30), min_length=1, max_length=MAX_BULK
    )
    set = api.DataField(default=dict)
    addTags = api.AnyJSON(required=False)
    removeTags = api.AnyJSON(required=False)
    close = serializers.BooleanField(default=False)


class TicketViewSet(mixins.ListModelMixin, TenantViewSet):
    """Tickets by their number: `/api/tickets/TK-1`."""

    model = Ticket
    resource = "tickets"
    filters = FILTERS
    http_method_names = ["get", "post", "patch", "head"]

    def get_queryset(self) -> QuerySet:
        """Return the tenant's tickets with what their JSON shows."""
        return super().get_queryset().select_related("type", "assignee", "group").defer("search_text")

    def get_object(self) -> Ticket:
        """Return the ticket of the address. Raises Http404."""
        ticket = self.get_queryset().filter(number=self._number()).first()
        if ticket is None:
            raise Http404
        return ticket

    def list(self, request: Request) -> Response:
        """List tickets, newest first."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([representation(ticket) for ticket in page])

    def create(self, request: Request) -> Response:
        """Create a ticket."""
        ticket = services.create(request.tenant, request.actor, request.data)
        return Response(representation(ticket), status=201)

    def retrieve(self, request: Request, id: str) -> Response:
        """Show one ticket."""
        return Response(representation(self.get_object()))

    def partial_update(self, request: Request, id: str) -> Response:
        """Change what the body has; with `version`, only when the ticket still has that one, else 409."""
        values = dict(request.data)
        version = _version(values.pop("version", None))
        ticket = services.change(request.tenant, self._number(), request.actor, values, version=version)
        return Response(representation(ticket))

    @action(detail=True, filters={}, cursor_ordering="id")
    def log(self, request: Request, id: str) -> Response:
        """Show the ticket's log, oldest first, in the reader's language."""
        return self._entries(request)

    @action(detail=True, filters={}, cursor_ordering="id")
    def comments(self, request: Request, id: str) -> Response:
        """Show the log's comments alone, oldest first."""
        return self._entries(request, kind="comment")

    @comments.mapping.post
    def comment(self, request: Request, id: str) -> Response:
        """Add an internal note or a public reply; answer with its log entry."""
        values = self.values(Comment)
        entry = services.comment(
            request.tenant, self._number(), request.actor, values["text"], public=values["public"]
        )
        return Response(log_entry(entry, request.language), status=201)

    @action(detail=True, methods=["post"])
    def close(self, request: Request, id: str) -> Response:
        """Close the ticket."""
        return Response(representation(services.close(request.tenant, self._number(), request.actor)))

    @action(detail=True, methods=["post"])
    def reopen(self, request: Request, id: str) -> Response:
        """Open the ticket again."""
        return Response(representation(services.reopen(request.tenant, self._number(), request.actor)))

    @action(detail=True, methods=["post"])
    def assign(self, request: Request, id: str) -> Response:
        """Give the ticket to a person, a group, or the least busy person of a group."""
        to = self.values(Assignment)
        place = (request.tenant, self._number(), request.actor)
        if "leastBusy" in to:
            services.assign_least_busy(*place, to["leastBusy"], pointer="/leastBusy")
        elif to.get("person") is None and to.get("group") is None:
            services.change(*place, {"assignee": None})
        else:
            services.assign(*place, person=to.get("person"), group=to.get("group"))
        return Response(representation(self.get_object()))

    @action(detail=False, methods=["post"])
    def bulk(self, request: Request) -> Response:
        """Edit several tickets alike, each by itself; `status` is what a request of its own would answer."""
        asked = self.values(Bulk)
        values = checked(asked["set"], known=BULK_KEYS, place="/set")
        values |= checked({key: asked[key] for key in ("addTags", "removeTags") if key in asked})
        if asked["close"]:
            values["closed"] = True
        # In one order, so that two bulk requests that each run in one transaction cannot wait for each other.
        results = {
            name: _one_of_many(request, name, values)
            for name in sorted(set(asked["numbers"]), key=lambda name: (numbers.read_key(name) or 0, name))
        }
        return Response({"results": [results[name] for name in asked["numbers"]]})

    def _entries(self, request: Request, **narrowed: Any) -> Response:
        entries = TicketEvent.objects.of(request.tenant).filter(ticket=self.get_object(), **narrowed)
        page = self.paginate_queryset(self.filter_queryset(entries))
        return self.get_paginated_response([log_entry(entry, request.language) for entry in page])

    def _number(self) -> int:
        number = numbers.read_key(self.kwargs["id"])
        if number is None:
            raise Http404
        return number


def _version(given: Any) -> int | None:
    if given is not None and (not isinstance(given, int) or isinstance(given, bool)):
        raise serializers.ValidationError({"version": ["Expected a whole number."]})
    return given


def _one_of_many(request: Request, name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return `{"number", "status"}`, with a `message` where the ticket was refused."""
    number = numbers.read_key(name)
    if number is None:
        return {"number": name, "status": 404, "message": f"There is no ticket {name}."}
    try:
        ticket = services.change(request.tenant, number, request.actor, values)
    except RequestRefused as refused:
        return {"number": name, "status": refused.status, "message": refused.message}
    return {"number": ticket.key, "status": 200}


ROUTES = [("tickets", TicketViewSet, "ticket")]
