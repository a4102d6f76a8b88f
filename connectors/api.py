"""REST of connections and of the catalogue of operations (SPEC section 13)."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import catalog, providers, services
from connectors.catalog import Call
from connectors.models import Connection
from csbot.lib import api
from csbot.lib.errors import RequestRefused
from tickets.viewset import TenantViewSet


class ConnectionBody(api.StrictSerializer):
    """What of a connection can be changed; the provider knows the shapes of `config` and `credentials`."""

    name = serializers.CharField(max_length=200)
    config = api.DataField(required=False)
    credentials = api.DataField(required=False, allow_null=True)
    limits = api.DataField(required=False, allow_null=True)


class NewConnectionBody(ConnectionBody):
    """What a connection is made of."""

    provider = serializers.CharField(max_length=40)


def represent(account: Connection) -> dict[str, Any]:
    """Return a connection as the API answers it, with its state."""
    return {**services.connection_shape(account), "state": services.state_shape(account, datetime.now(UTC))}


class ConnectionSerializer(serializers.BaseSerializer):
    """A connection in a list."""

    def to_representation(self, instance: Connection) -> dict[str, Any]:
        """Return what the API shows."""
        return represent(instance)


class ConnectionViewSet(mixins.ListModelMixin, TenantViewSet):
    """`/api/connections`: a tenant's accounts at providers."""

    model = Connection
    resource = "connections"
    serializer_class = ConnectionSerializer
    filters = {"provider": api.text("provider"), "name": api.text("name")}
    actions_calling_out = frozenset({"check"})

    def create(self, request: Request) -> Response:
        """Add a connection: 201."""
        account = services.create(request.tenant, request.actor, self.values(NewConnectionBody))
        return Response(represent(account), status=201)

    def retrieve(self, request: Request, id: str) -> Response:
        """Answer one connection."""
        return Response(represent(self.get_object()))

    def partial_update(self, request: Request, id: str) -> Response:
        """Change what is given."""
        values = self.values(ConnectionBody, partial=True)
        return Response(represent(services.change(self.get_object(), request.actor, values)))

    def destroy(self, request: Request, id: str) -> Response:
        """Delete: 204, or 409 with `usedBy`."""
        services.delete(self.get_object(), request.actor)
        return Response(status=204)

    @action(detail=True, methods=["get"])
    def state(self, request: Request, id: str) -> Response:
        """Answer whether calls go out, and if not, why and until when."""
        return Response(services.state_shape(self.get_object(), datetime.now(UTC)))

    @action(detail=True, methods=["post"])
    def check(self, request: Request, id: str) -> Response:
        """Try the connection now, without changing anything, and answer what happened."""
        account = self.get_object()
        provider = providers.find(account.provider)
        if provider is None:
            raise RequestRefused("provider.unknown", f"There is no provider {account.provider}.", status=409)
        begun = time.monotonic()
        checked = provider.check(
            Call(
                tenant=request.tenant,
                connection=account,
                actor=request.actor,
                idempotency_key="check",
                has_given_key=False,
                deadline=begun + providers.CHECK_SECONDS,
                log=lambda code, **params: None,
            )
        )
        account.refresh_from_db()
        return Response(
            {
                "ok": checked.is_ok,
                "code": checked.code,
                "status": checked.status,
                "message": checked.message,
                "durationMs": round((time.monotonic() - begun) * 1000),
                "state": services.state_shape(account, datetime.now(UTC)),
            }
        )


_documented: dict[str, Callable[[], list[dict[str, Any]]]] = {}


def document(key: str, told: Callable[[], list[dict[str, Any]]]) -> None:
    """Let the catalogue answer more under `key`: the apps above tell what the language has, such as filters."""
    _documented[key] = told


class CatalogViewSet(TenantViewSet):
    """`/api/catalog`: everything that a step can do, in the reader's language."""

    resource = "catalog"
    needs_tenant = False

    def list(self, request: Request) -> Response:
        """Answer every operation with JSON Schema of its inputs and outputs, and what else is documented."""
        results = [_operation_shape(operation) for operation in catalog.every()]
        return Response({"results": results, **{key: told() for key, told in _documented.items()}})


def _operation_shape(operation: catalog.Operation) -> dict[str, Any]:
    return {
        "op": operation.op,
        "title": operation.title,
        "provider": operation.provider,
        "idempotent": operation.idempotent,
        "inputs": _schema(operation.inputs, "validation"),
        "outputs": _schema(operation.outputs, "serialization"),
    }


def _schema(shape: type[catalog.Shape], mode: Literal["validation", "serialization"]) -> dict[str, Any]:
    """Return the JSON Schema of `shape`; its docstring is for engineers and stays out."""
    schema = shape.model_json_schema(mode=mode)
    for part in (schema, *schema.get("$defs", {}).values()):
        part.pop("description", None)
    return schema


ROUTES: list[tuple[str, type[viewsets.ViewSetMixin], str]] = [
    ("connections", ConnectionViewSet, "connection"),
    ("catalog", CatalogViewSet, "catalog"),
]
