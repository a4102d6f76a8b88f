"""REST of the engine: runs and what people do with them, and starting an automation by hand (SPEC section 13)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from automations.filters import FILTERS
from automations.models import Automation
from connectors import api as connectors
from csbot.lib import api
from csbot.lib.errors import RequestRefused
from incidents.models import Incident
from runtime import reach, representation, services, trial
from runtime.intake import contract_check, rejected
from runtime.models import Run
from tickets import numbers
from tickets.viewset import TenantViewSet

STATUS_WORDS: dict[str, list[int]] = {}
for _inside, _outside in services.OUTSIDE.items():
    STATUS_WORDS.setdefault(_outside, []).append(int(_inside))
MOST_IDS = 200


def _by_status(queryset: QuerySet, value: str) -> QuerySet:
    if value not in STATUS_WORDS:
        raise api.BadFilter(f"expected one of {', '.join(STATUS_WORDS)}")
    return queryset.filter(status__in=STATUS_WORDS[value])


def _by_ticket(queryset: QuerySet, value: str) -> QuerySet:
    number = numbers.read_key(value)
    if number is None:
        raise api.BadFilter("expected a ticket number such as TK-1")
    return queryset.filter(ticket__number=number)


class Rerun(api.StrictSerializer):
    """`{"version": "newest"}` starts on the newest published version instead of the run's own."""

    version = serializers.ChoiceField(choices=["own", "newest"], default="own")


class Resolve(api.StrictSerializer):
    """What a person decided about a run in review."""

    decision = serializers.ChoiceField(choices=["happened", "again", "giveUp"])
    outputs = api.DataField(required=False)


class Bulk(api.StrictSerializer):
    """One action over several runs."""

    ids = serializers.ListField(child=serializers.UUIDField(), min_length=1, max_length=MOST_IDS)
    action = serializers.ChoiceField(choices=["retry", "rerun", "cancel"])


class Start(api.StrictSerializer):
    """The body that an automation is started over."""

    body = api.AnyJSON(required=False, default=dict)


class Replay(api.StrictSerializer):
    """Which kept bodies; without `ids` all of them."""

    ids = serializers.ListField(child=serializers.UUIDField(), min_length=1, max_length=1000, required=False)


class ContractCheck(api.StrictSerializer):
    """An edited contract and over how many of the last bodies it is laid."""

    params = api.AnyJSON()
    last = serializers.IntegerField(default=100, min_value=1, max_value=contract_check.MAX_LAST)


class Test(api.StrictSerializer):
    """What a draft is tried over, one of three, and whether beside the published version."""

    body = api.AnyJSON(required=False, allow_null=True)
    runId = serializers.UUIDField(required=False)
    last = serializers.IntegerField(required=False, min_value=1, max_value=trial.MOST_RUNS)
    against = serializers.ChoiceField(choices=["published"], required=False)

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values. Raises ValidationError unless exactly one way is given."""
        if len(values.keys() & {"body", "runId", "last"}) != 1:
            raise serializers.ValidationError("Expected exactly one of body, runId and last.")
        return values


class RunViewSet(mixins.ListModelMixin, TenantViewSet):
    """`/api/runs` and, as the same list, `/api/dashboard/runs`."""

    model = Run
    resource = "runs"
    filters = {
        "status": _by_status,
        "trigger": api.choice("trigger", Run.Trigger.values),
        "automation": api.uuid_of("automation__public_id"),
        "ticket": _by_ticket,
        "createdAfter": api.instant_after("created_at"),
        "createdBefore": api.instant_before("created_at"),
    }

    def get_queryset(self) -> QuerySet:
        """Return the tenant's runs with what their representation needs."""
        return (
            super()
            .get_queryset()
            .select_related("tenant", "automation", "version", "ticket", "caused_by__ticket")
        )

    def list(self, request: Request) -> Response:
        """Answer the newest runs first."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([representation.brief(run) for run in page])

    def retrieve(self, request: Request, id: str) -> Response:
        """Answer one run with steps, log and reason of waiting."""
        return Response(representation.whole(self.get_object(), request.language))

    @action(detail=True, methods=["post"])
    def retry(self, request: Request, id: str) -> Response:
        """Continue a failed run after its last finished step."""
        return self._answer(request, services.retry(self.get_object(), request.actor))

    @action(detail=True, methods=["post"])
    def rerun(self, request: Request, id: str) -> Response:
        """Start a new run with the same input."""
        on_newest = self.values(Rerun)["version"] == "newest"
        again = services.rerun(self.get_object(), request.actor, on_newest=on_newest)
        return Response({"runId": str(again.public_id)}, status=202)

    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, id: str) -> Response:
        """Cancel a run, or ask a running one to stop."""
        return self._answer(request, services.cancel(self.get_object(), request.actor))

    @action(detail=True, methods=["post"])
    def resolve(self, request: Request, id: str) -> Response:
        """Decide about a run in review."""
        values = self.values(Resolve)
        run = services.resolve(self.get_object(), request.actor, values["decision"], values.get("outputs"))
        return self._answer(request, run)

    @action(detail=False, methods=["post"])
    def bulk(self, request: Request) -> Response:
        """Do one thing with several runs and say for each what became of it."""
        values = self.values(Bulk)
        return Response(
            {"results": [self._one(request, values["action"], id) for id in dict.fromkeys(values["ids"])]}
        )

    def _one(self, request: Request, deed: str, public_id: Any) -> dict[str, Any]:
        run = self.get_queryset().filter(public_id=public_id).first()
        if run is None:
            return {"id": str(public_id), "status": 404}
        try:
            if deed == "rerun":
                again = services.rerun(run, request.actor)
                return {"id": str(public_id), "status": 202, "runId": str(again.public_id)}
            changed = (
                services.retry(run, request.actor) if deed == "retry" else services.cancel(run, request.actor)
            )
        except RequestRefused as refused:
            return {"id": str(public_id), "status": refused.status, "message": refused.message}
        return {"id": str(public_id), "status": 200, "runStatus": services.status_of(changed)}

    def _answer(self, request: Request, run: Run) -> Response:
        return Response(representation.whole(self.get_queryset().get(pk=run.pk), request.language))


class AutomationRunViewSet(TenantViewSet):
    """What automations need the engine for: starting one by hand, trying a draft before it acts."""

    model = Automation
    resource = "automations"

    @action(detail=True, methods=["post"])
    def run(self, request: Request, id: str) -> Response:
        """Start the automation over a body."""
        run = services.start(self.get_object(), request.actor, self.values(Start)["body"])
        return Response({"runId": str(run.public_id)}, status=202)

    @action(detail=True, methods=["post"])
    def test(self, request: Request, id: str) -> Response:
        """Try the draft: what it would do with a body, a run's event or the last ones. Changes and calls nothing."""
        automation = self.get_object()
        values = self.values(Test)
        samples: Iterable[trial.Sample]
        if "last" in values:
            samples = trial.of_last(automation, values["last"])
        elif "runId" in values:
            samples = [trial.of_run(automation, values["runId"])]
        else:
            samples = [trial.of_body(automation, values["body"])]
        answer = trial.test(
            automation,
            request.language,
            samples,
            is_compared="against" in values,
            tells_never_taken="last" in values,
        )
        return Response(answer)

    @action(detail=True, methods=["post"])
    def reach(self, request: Request, id: str) -> Response:
        """Tell how often the draft's trigger would have fired in the last 30 days."""
        return Response(reach.of(self.get_object()))

    @action(detail=True, methods=["get"], filters={})
    def rejected(self, request: Request, id: str) -> Response:
        """Answer the bodies that were refused and kept, newest first."""
        page = self.paginate_queryset(self.filter_queryset(rejected.list_for(self.get_object())))
        return self.get_paginated_response([rejected.representation(kept) for kept in page])

    @action(detail=True, methods=["post"], url_path="rejected/replay")
    def replay(self, request: Request, id: str) -> Response:
        """Make runs of kept bodies by the contract of today: of those named, or of all."""
        replayed = rejected.replay(self.get_object(), self.values(Replay).get("ids"))
        results = [
            {
                "id": str(one.id),
                "status": one.status,
                "runId": str(one.run_id) if one.run_id else None,
                "reason": one.reason or None,
                "missing": one.missing,
                "invalid": one.invalid,
            }
            for one in replayed
        ]
        return Response({"results": results}, status=202)

    @action(detail=True, methods=["post"], url_path="contract/check")
    def contract_check(self, request: Request, id: str) -> Response:
        """Tell what an edited contract would refuse of the last stored bodies."""
        values = self.values(ContractCheck)
        return Response(contract_check.check(self.get_object(), values["params"], values["last"]))


class IncidentRerunViewSet(TenantViewSet):
    """`POST /api/incidents/{id}/rerun`: all runs of an incident again."""

    model = Incident
    resource = "incidents"

    @action(detail=True, methods=["post"])
    def rerun(self, request: Request, id: str) -> Response:
        """Start the runs of the incident that have not passed again, paced; answers their ids and how many are left."""
        started, left = services.rerun_incident(self.get_object(), request.actor)
        ids = [str(run.public_id) for run in started]
        return Response({"runIds": ids, "remaining": left}, status=202)


connectors.document(
    "filters",
    lambda: [
        {"name": one.name, "signature": one.signature, "doc": one.doc, "example": one.example}
        for one in FILTERS.values()
    ],
)

ROUTES: list[tuple[str, type[TenantViewSet], str]] = [
    ("runs", RunViewSet, "run"),
    ("dashboard/runs", RunViewSet, "dashboard-run"),
    ("automations", AutomationRunViewSet, "automation-run"),
    ("incidents", IncidentRerunViewSet, "incident-rerun"),
]
