"""REST of incidents (SPEC section 13). The action `rerun` needs the engine and lives in `runtime.api`."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from csbot.lib import api
from incidents import services
from incidents.models import Incident
from tickets import numbers
from tickets.viewset import TenantViewSet


def of_ticket(queryset: QuerySet, value: str) -> QuerySet:
    """Incidents of the ticket `TK-1`, or of any run on it. Raises BadFilter."""
    number = numbers.read_key(value)
    if number is None:
        raise api.BadFilter("Expected a ticket's number such as TK-1.")
    of_a_run = queryset.filter(runs__ticket__number=number).values("pk")
    return queryset.filter(Q(ticket__number=number) | Q(pk__in=of_a_run))


def of_automation(queryset: QuerySet, value: str) -> QuerySet:
    """Incidents of the automation with this id. Raises BadFilter."""
    try:
        return queryset.filter(automation__id=str(uuid.UUID(value)))
    except ValueError as error:
        raise api.BadFilter("Expected an id (a UUID).") from error


class NoBody(api.StrictSerializer):
    """An action that takes nothing: a key that somebody believes to matter is refused."""


class IncidentViewSet(TenantViewSet):
    """`/api/incidents`: list, read, acknowledge, resolve. `detail` is shown to platform staff only."""

    model = Incident
    resource = "incidents"
    filters = {
        "status": api.choice("status", list(Incident.Status.values)),
        "automation": of_automation,
        "ticket": of_ticket,
        "connection": api.uuid_of("connection__public_id"),
    }

    def get_queryset(self) -> QuerySet[Incident]:
        """Return the tenant's incidents with what their representation names."""
        return super().get_queryset().select_related("ticket", "connection")

    def list(self, request: Request) -> Response:
        """Answer a page of incidents, newest first."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(
            [services.representation(incident, request.language) for incident in page]
        )

    def retrieve(self, request: Request, id: str) -> Response:
        """Answer one incident with its runs."""
        return Response(self._whole(self.get_object()))

    @action(detail=True, methods=["post"])
    def acknowledge(self, request: Request, id: str) -> Response:
        """Mark it as being looked into; 409 when it is resolved."""
        self.values(NoBody)
        return Response(self._whole(services.acknowledge(self.get_object())))

    @action(detail=True, methods=["post"])
    def resolve(self, request: Request, id: str) -> Response:
        """Close it; the next failure of its cause founds a new one."""
        self.values(NoBody)
        return Response(self._whole(services.resolve(self.get_object())))

    def _whole(self, incident: Incident) -> dict[str, Any]:
        return services.representation(
            incident, self.request.language, with_runs=True, with_detail=self.request.role == "staff"
        )


ROUTES = [("incidents", IncidentViewSet, "incident")]
