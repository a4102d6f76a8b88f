"""REST of reconciliation: a day, a sender's own ids against ours, starting what is missing (SPEC section 11)."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from django.http import Http404
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from automations.models import Automation
from csbot.lib import api, database_clock
from runtime import late, reconcile, silence
from runtime.models import Reconciliation
from tickets.viewset import TenantViewSet

# A sender's whole day in one body of 1 MiB.
MOST_COMPARED = 20_000
# Length of a ticket's external id.
LONGEST_ID = 500
# As many as a bulk action over runs.
MOST_STARTED = 200
EXPECTED_DAY = "Expected a day such as 2026-11-30."


def _read_day(raw: str) -> date:
    """Return the day of `YYYY-MM-DD`. Raises ValueError, also near the ends of Python's calendar."""
    if not re.fullmatch(r"[12]\d{3}-\d{2}-\d{2}", raw, re.ASCII):
        raise ValueError(raw)
    return date.fromisoformat(raw)


class DayField(serializers.Field):
    """A day `YYYY-MM-DD`."""

    def to_internal_value(self, data: Any) -> date:
        """Return the day. Raises ValidationError."""
        try:
            return _read_day(data)
        except (TypeError, ValueError) as error:
            raise serializers.ValidationError(EXPECTED_DAY) from error


class Compare(api.StrictSerializer):
    """A sender's own ids of what should have arrived on a day."""

    automation = serializers.UUIDField()
    day = DayField()
    ids = serializers.ListField(
        child=serializers.CharField(max_length=LONGEST_ID), min_length=1, max_length=MOST_COMPARED
    )


class Enqueue(api.StrictSerializer):
    """Ids that reconciliation lists as missing."""

    ids = serializers.ListField(child=serializers.UUIDField(), min_length=1, max_length=MOST_STARTED)


class ReconciliationViewSet(TenantViewSet):
    """`/api/reconciliation`: what arrived on a day of the tenant against the runs that exist."""

    model = Reconciliation
    resource = "reconciliation"
    parameters = frozenset({"day"})

    def list(self, request: Request) -> Response:
        """Answer a day (`?day=`, by default the present one), with what is stuck and who is silent now."""
        now = database_clock.now()
        day = reconcile.day_of(request.tenant, _asked_day(request) or reconcile.today(request.tenant, now))
        return Response(
            {
                "day": day.date.isoformat(),
                "results": [tally.representation() for tally in reconcile.compare(request.tenant, day)],
                "stuck": reconcile.stuck(request.tenant).representation(),
                "silent": [silence.representation(one) for one in silence.silent(now, request.tenant)],
            }
        )

    @action(detail=False, methods=["post"])
    def compare(self, request: Request) -> Response:
        """Answer which of the sender's ids have neither a run nor a ticket."""
        values = self.values(Compare)
        automation = Automation.objects.of(request.tenant).filter(public_id=values["automation"]).first()
        if automation is None:
            raise Http404
        return Response({"missing": reconcile.unknown_ids(automation, values["day"], values["ids"])})

    @action(detail=False, methods=["post"])
    def enqueue(self, request: Request) -> Response:
        """Start what is missing; a repeat answers with the same runs."""
        started = late.start(request.tenant, request.actor, self.values(Enqueue)["ids"])
        return Response({"runIds": started.run_ids, "notStarted": started.not_started}, status=202)


def _asked_day(request: Request) -> date | None:
    """Return the day that the query asks for, None where it asks for none. Raises RequestRefused 400."""
    asked = request.query_params.get("day")
    try:
        return None if asked is None else _read_day(asked)
    except ValueError as error:
        raise api.bad_parameter("filter.invalid", "day", EXPECTED_DAY) from error


ROUTES: list[tuple[str, type[TenantViewSet], str]] = [
    ("reconciliation", ReconciliationViewSet, "reconciliation")
]
