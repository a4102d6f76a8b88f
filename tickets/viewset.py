"""The one scoped viewset: every resource of a tenant is served by a subclass of it."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import Http404
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from csbot.lib import api
from tickets import idempotency


class TenantViewSet(viewsets.GenericViewSet):
    """A resource of one tenant. Another tenant's object is 404, as if it did not exist.

    Subclasses set `model`, `resource` (row of RIGHTS), `serializer_class` and `filters`, and add REST
    framework's mixins or actions of their own; one that answers a list has `@action(filters={…})`. What an
    action reads from the query by itself stands in `parameters`; every other parameter is refused (SPEC
    section 13). `needs_tenant = False` is for what needs no tenant. Actions named in `actions_calling_out`
    reach foreign services, so they never run in a transaction.
    """

    model: type[Model]
    resource: str
    # None for a method that is not there.
    action: Any
    filters: dict[str, api.Filter] = {}
    needs_tenant = True
    parameters: frozenset[str] = frozenset()
    cursor_ordering = "-id"
    actions_calling_out: frozenset[str] = frozenset()
    lookup_field = "public_id"
    lookup_url_kwarg = "id"
    lookup_value_regex = "[^/]+"
    content_negotiation_class = api.AlwaysJSON
    http_method_names = ["get", "post", "put", "patch", "delete", "head"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate, find the tenant, check rights and parameters; let `Idempotency-Key` guard a POST."""
        if request.method == "OPTIONS":
            # REST framework calls it `metadata`; nobody answers it, as no other method that is not there.
            self.action = None
        super().initial(request, *args, **kwargs)
        if request.method in ("GET", "HEAD"):
            api.check_names(request.query_params, self._parameters())
        if request.method == "POST" and "Idempotency-Key" in request.headers:
            self._guard_post()

    def _parameters(self) -> set[str]:
        """Return the query parameters that this action reads; pages and filters are for lists of rows alone."""
        is_of_rows = self.action == "list" and hasattr(self, "model") and not self.parameters
        if is_of_rows or "filters" in getattr(getattr(self, self.action), "kwargs", {}):
            return {*self.filters, *api.OF_PAGES}
        return set(self.parameters)

    def _guard_post(self) -> None:
        """Put the key's check around the handler; REST framework binds handlers to the instance."""
        handler: Any = getattr(self, "post", self.http_method_not_allowed)
        in_transaction = self.action not in self.actions_calling_out

        def guarded(request: Request, *args: Any, **kwargs: Any) -> Response:
            return idempotency.answer(
                request, lambda: handler(request, *args, **kwargs), in_transaction=in_transaction
            )

        self.post = guarded

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        """Keep every answer out of caches: it belongs to one caller."""
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def get_queryset(self) -> QuerySet:
        """Return the rows of the request's tenant."""
        return self.model.objects.of(self.request.tenant)

    def filter_queryset(self, queryset: QuerySet) -> QuerySet:
        """Return the rows that the query parameters ask for. Raises RequestRefused 400."""
        return api.filtered(queryset, self.request.query_params, self.filters)

    def get_object(self) -> Any:
        """Return the object that the address names, of this tenant. Raises Http404 for any other."""
        named = self.kwargs[self.lookup_url_kwarg or self.lookup_field]
        # Every name is ASCII; a UUID would be read with the digits of any script.
        if not (named.isascii() and api.is_storable(named)):
            raise Http404
        try:
            return self.get_queryset().get(**{self.lookup_field: named})
        except (self.model.DoesNotExist, ValidationError, ValueError) as error:
            raise Http404 from error

    def values(
        self, serializer_class: type[serializers.Serializer] | None = None, *, partial: bool = False
    ) -> dict[str, Any]:
        """Return the body's values by `source` name. Raises ValidationError with every fault."""
        chosen = serializer_class or self.get_serializer_class()
        serializer = chosen(data=self.request.data, partial=partial, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)
