"""REST of automations: drafts, versions, states and webhook addresses (SPEC section 13).

What needs the engine (`run`, `test`, `rejected`, `contract/check`, `reach`) is served by `runtime.api`.
"""

from __future__ import annotations

import re
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from automations import diff, exchange, services, tokens, webhook
from automations.check import line_of
from automations.models import Automation, AutomationVersion
from csbot.lib.api import AnyJSON, DataField, SecretResponse, StrictSerializer
from csbot.lib.filters import bad_parameter, choice, text
from tickets.viewset import TenantViewSet


class AutomationBody(StrictSerializer):
    """Body of a new automation, and of a change of one."""

    name = serializers.CharField(max_length=services.MAX_NAME)
    trigger = DataField()
    steps = serializers.ListField(child=AnyJSON())


class DraftBody(StrictSerializer):
    """Body of an unfinished tree."""

    trigger = DataField()
    steps = serializers.ListField(child=AnyJSON())


class ImportBody(AutomationBody):
    """What an export holds; `connections` is for people and is not read."""

    format = serializers.CharField(required=False)
    connections = serializers.ListField(child=AnyJSON(), required=False)


class RotateBody(StrictSerializer):
    """How long the older address goes on working."""

    overlapSec = serializers.IntegerField(
        source="overlap_seconds",
        min_value=0,
        max_value=services.MAX_OVERLAP_SECONDS,
        default=services.OVERLAP_SECONDS,
    )


def representation(automation: Automation) -> dict[str, Any]:
    """Return an automation as the API shows it; secrets of the trigger are marks."""
    return {
        "id": automation.public_id,
        "name": automation.name,
        "state": automation.state,
        "version": automation.published.number if automation.published else None,
        "trigger": automation.draft["trigger"],
        "steps": automation.draft["steps"],
        "unpublishedChanges": services.has_unpublished_changes(automation),
        "createdAt": automation.created_at,
        "updatedAt": automation.updated_at,
    }


class AutomationViewSet(TenantViewSet):
    """Automations of the tenant, newest first."""

    model = Automation
    resource = "automations"
    serializer_class = AutomationBody
    filters = {"state": choice("state", list(Automation.State.values)), "name": text("name")}

    def get_queryset(self) -> QuerySet:
        """Return the tenant's automations with their published versions."""
        return super().get_queryset().select_related("tenant", "published")

    def list(self, request: Request) -> Response:
        """Answer a page of automations."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([representation(automation) for automation in page])

    def create(self, request: Request) -> Response:
        """Make a draft; 400 lists every fault."""
        saved = services.create(request.tenant, request.actor, self.values())
        return _answer_saved(saved, status.HTTP_201_CREATED)

    def retrieve(self, request: Request, id: str) -> Response:
        """Answer one automation with faults and warnings of its draft."""
        return _answer_saved(services.look(self.get_object()))

    def partial_update(self, request: Request, id: str) -> Response:
        """Change name, trigger or steps; 400 lists every fault."""
        values = self.values(partial=True)
        return _answer_saved(
            services.save(self.get_object(), request.actor, values, if_match=revisions_of(request))
        )

    def destroy(self, request: Request, id: str) -> Response:
        """Delete an automation that never ran."""
        services.delete(self.get_object(), request.actor)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @action(detail=True, methods=["put"])
    def draft(self, request: Request, id: str) -> Response:
        """Keep an unfinished tree and tell its faults."""
        saved = services.save_draft(
            self.get_object(), request.actor, self.values(DraftBody), if_match=revisions_of(request)
        )
        return _tagged(Response(_findings(saved)), saved.automation)

    @action(detail=True, methods=["post"])
    def publish(self, request: Request, id: str) -> Response:
        """Make the draft the version that runs; 400 lists every fault."""
        automation = services.publish(self.get_object(), request.actor, if_match=revisions_of(request))
        return _tagged(Response(representation(automation)), automation)

    @action(detail=True, methods=["post"])
    def pause(self, request: Request, id: str) -> Response:
        """Stop a published automation."""
        automation = services.pause(self.get_object(), request.actor)
        return _tagged(Response(representation(automation)), automation)

    @action(detail=True, methods=["post"])
    def resume(self, request: Request, id: str) -> Response:
        """Let a paused automation go on."""
        automation = services.resume(self.get_object(), request.actor)
        return _tagged(Response(representation(automation)), automation)

    @action(detail=True, methods=["get"], filters={})
    def versions(self, request: Request, id: str) -> Response:
        """Answer a page of the versions, newest first, without their trees."""
        automation = self.get_object()
        page = self.paginate_queryset(
            AutomationVersion.objects.of(request.tenant).filter(automation=automation)
        )
        return self.get_paginated_response([_version(automation, version) for version in page])

    @action(detail=True, methods=["get"], url_path=r"versions/(?P<number>[0-9]{1,9})")
    def version(self, request: Request, id: str, number: str) -> Response:
        """Answer one version with its tree."""
        automation = self.get_object()
        version = _of_number(automation, int(number))
        return Response({**_version(automation, version), **version.tree})

    @action(
        detail=True,
        methods=["get"],
        url_path=r"versions/(?P<number>[0-9]{1,9})/diff",
        parameters=frozenset({"against"}),
    )
    def version_diff(self, request: Request, id: str, number: str) -> Response:
        """Answer what a version changed against the one before, or against `?against=<number>|draft`."""
        automation = self.get_object()
        version = _of_number(automation, int(number))
        against = request.query_params.get("against", str(version.number - 1))
        changes = diff.changes(_document_of(automation, against), version.tree)
        earlier = against if against == "draft" else int(against) or None
        return Response({"from": earlier, "to": version.number, "changes": changes})

    @action(detail=True, methods=["post"], url_path=r"versions/(?P<number>[0-9]{1,9})/restore")
    def version_restore(self, request: Request, id: str, number: str) -> Response:
        """Make a version's tree the draft again."""
        version = _of_number(self.get_object(), int(number))
        return _answer_saved(services.restore(version, request.actor, if_match=revisions_of(request)))

    @action(detail=True, methods=["get"])
    def webhook(self, request: Request, id: str) -> Response:
        """Answer how the webhook is reached; who only reads does not see its token."""
        automation = self.get_object()
        return Response(_description(automation, _shown_token(request, automation)))

    @action(detail=True, methods=["post"], url_path="webhook/rotate")
    def webhook_rotate(self, request: Request, id: str) -> Response:
        """Make a new address; the older one works on for `overlapSec`."""
        automation = self.get_object()
        token = services.rotate_token(automation, request.actor, **self.values(RotateBody))
        return SecretResponse(_description(automation, token), secrets=("url", "curl"))

    @action(detail=True, methods=["get"])
    def export(self, request: Request, id: str) -> Response:
        """Answer the draft as a file that another tenant can import."""
        return Response(exchange.exported(self.get_object()))

    @action(detail=False, methods=["post"], url_path="import")
    def import_(self, request: Request) -> Response:
        """Make a draft of an export; its faults are told, not refused."""
        saved = services.import_(request.tenant, request.actor, self.values(ImportBody))
        return _answer_saved(saved, status.HTTP_201_CREATED)


def revisions_of(request: Request) -> frozenset[int] | None:
    """Return the revisions that `If-Match` names, or None for no condition (RFC 9110 section 13.1.1).

    Weak and foreign tags match nothing.
    """
    written = request.headers.get("If-Match")
    if written is None or written.strip() == "*":
        return None
    tags = (tag.strip() for tag in written.split(","))
    return frozenset(int(tag[1:-1]) for tag in tags if re.fullmatch(r'"[0-9]{1,9}"', tag))


def _findings(saved: services.Saved) -> dict[str, Any]:
    return {
        "faults": [line_of(one) for one in saved.faults],
        "warnings": [line_of(one) for one in saved.warnings],
    }


def _answer_saved(saved: services.Saved, code: int = status.HTTP_200_OK) -> Response:
    answer = {**representation(saved.automation), **_findings(saved)}
    return _tagged(Response(answer, status=code), saved.automation)


def _tagged(response: Response, automation: Automation) -> Response:
    response.headers["ETag"] = f'"{automation.revision}"'
    return response


def _version(automation: Automation, version: AutomationVersion) -> dict[str, Any]:
    return {
        "number": version.number,
        "createdAt": version.created_at,
        "createdBy": version.created_by,
        "published": version.pk == automation.published_id,
    }


def _of_number(automation: Automation, number: int) -> AutomationVersion:
    versions = AutomationVersion.objects.of(automation.tenant_id).select_related("automation")
    version = versions.filter(automation=automation, number=number).first()
    if version is None:
        raise Http404
    return version


def _document_of(automation: Automation, against: str) -> dict[str, Any]:
    """Return the document that a version is compared with; before version 1 there was nothing."""
    if against == "draft":
        return automation.draft
    if not re.fullmatch(r"[0-9]{1,9}", against):
        raise bad_parameter("filter.invalid", "against", "Expected `draft` or the number of a version.")
    return _of_number(automation, int(against)).tree if int(against) else {"trigger": {}, "steps": []}


def _shown_token(request: Request, automation: Automation) -> str:
    if request.role == "viewer":
        return webhook.HIDDEN_TOKEN
    token = tokens.current(automation)
    if token is None:
        raise webhook.none()
    return token


def _description(automation: Automation, token: str) -> dict[str, Any]:
    trigger = webhook.trigger_of(automation)
    if trigger is None:
        raise webhook.none()
    return webhook.description(webhook.address(token), trigger)


ROUTES: list[tuple[str, type[TenantViewSet], str]] = [("automations", AutomationViewSet, "automation")]
