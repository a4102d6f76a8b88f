"""REST of tenants, people, groups, ticket types, tokens, the audit log and `/api/me` (SPEC section 13)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from csbot.lib import api
from tickets import fields, limits, people
from tickets.filters import named
from tickets.models import ApiToken, AuditEntry, Group, Person, Role, Tenant, TicketType
from tickets.viewset import TenantViewSet

# Screens and queries stay quick with so many; nobody reads more.
MAX_MEMBERS = 500
MAX_STATUSES = 100
MAX_FIELDS = 100
MAX_OPTIONS = 500


class Key(serializers.RegexField):
    """A key that automations and programs name a thing by."""

    def __init__(self, **options: Any) -> None:
        messages = {"invalid": limits.KEY_MESSAGE}
        super().__init__(limits.KEY_PATTERN, max_length=100, error_messages=messages, **options)


class Name(serializers.CharField):
    """What people read."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=200, **options)


class TenantBody(api.StrictSerializer):
    """What of a tenant can be changed."""

    name = Name()
    language = serializers.ChoiceField(choices=["cs", "en"], required=False)
    timezone = serializers.CharField(max_length=64, required=False, validators=[limits.validate_timezone])
    maxParallelRuns = serializers.IntegerField(
        source="max_parallel_runs",
        min_value=1,
        max_value=limits.MOST_PARALLEL_RUNS,
        allow_null=True,
        required=False,
    )
    retentionDays = serializers.IntegerField(
        source="retention_days", min_value=1, max_value=limits.MOST_RETENTION_DAYS, required=False
    )


class NewTenantBody(TenantBody):
    """What founds a tenant."""

    slug = serializers.RegexField(
        r"\A[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z",
        max_length=63,
        error_messages={"invalid": "Expected small letters, digits and hyphens, no hyphen at either end."},
    )


class PersonBody(api.StrictSerializer):
    """A person as a program sends it."""

    name = Name()
    email = serializers.EmailField(max_length=254)
    role = serializers.ChoiceField(choices=Role.values, required=False)
    awayUntil = api.Instant(source="away_until", allow_null=True, required=False)


class MemberBody(api.StrictSerializer):
    """One place in a group."""

    person = serializers.CharField(max_length=254)
    capacity = serializers.IntegerField(min_value=1, max_value=limits.MOST_CAPACITY, default=10)


class GroupBody(api.StrictSerializer):
    """A group as a program sends it; a PATCH with `members` replaces them all."""

    key = Key()
    name = Name()
    members = api.ListOf(MemberBody, max_length=MAX_MEMBERS, required=False)


class FieldBody(api.StrictSerializer):
    """The definition of one custom field."""

    id = Key(required=False)
    key = Key()
    label = serializers.CharField(max_length=200, required=False)
    type = serializers.ChoiceField(choices=fields.TYPES)
    required = serializers.BooleanField(default=False)
    options = serializers.ListField(
        child=serializers.CharField(max_length=200), max_length=MAX_OPTIONS, allow_null=True, required=False
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Fill in id and label; options are for a choice, and a choice has some."""
        is_choice = attrs["type"] in {"select", "multiselect"}
        options = attrs.pop("options", None) or []
        if is_choice and not options:
            raise serializers.ValidationError({"options": "A choice needs at least one option."})
        if options and not is_choice:
            raise serializers.ValidationError({"options": "Only a select or multiselect has options."})
        if len(set(options)) < len(options):
            raise serializers.ValidationError({"options": "An option is in the list twice."})
        defaults = {"id": f"f_{attrs['key']}", "label": attrs["key"]}
        return {**defaults, **attrs, **({"options": options} if is_choice else {})}


class TypeBody(api.StrictSerializer):
    """A ticket type as a program sends it."""

    key = Key()
    name = Name()
    statuses = serializers.ListField(
        child=serializers.CharField(max_length=200), max_length=MAX_STATUSES, required=False
    )
    fields = api.ListOf(FieldBody, max_length=MAX_FIELDS, required=False)

    def validate_statuses(self, value: list[str]) -> list[str]:
        """Refuse a status that is offered twice."""
        _refuse_repeated(value, lambda index: {str(index): ["This status is in the list twice."]})
        return value

    def validate_fields(self, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Refuse two fields of one id or key."""
        for name in ("id", "key"):
            _refuse_repeated(
                [field[name] for field in value],
                lambda index, name=name: {str(index): {name: [f"Two fields have this {name}."]}},
            )
        return value


def _refuse_repeated(values: list[str], fault_at: Any) -> None:
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            raise serializers.ValidationError(fault_at(index))
        seen.add(value)


class TokenBody(api.StrictSerializer):
    """What a new token is made of."""

    name = Name()
    role = serializers.ChoiceField(choices=Role.values)
    expiresAt = api.Instant(source="expires_at", allow_null=True, required=False)

    def validate_expiresAt(self, value: datetime | None) -> datetime | None:
        """Refuse a token that would be expired at once."""
        if value is not None and value <= datetime.now(UTC):
            raise serializers.ValidationError("Expected an instant to come.")
        return value


class MeViewSet(TenantViewSet):
    """`/api/me`: who asks, in which tenant, and in which others."""

    resource = "me"
    needs_tenant = False

    def list(self, request: Request) -> Response:
        """Answer who the caller is."""
        return Response(
            {
                "person": None if request.person is None else people.person_shape(request.person),
                "token": None
                if request.token is None
                else {"name": request.token.name, "role": request.token.role},
                "staff": request.role == "staff",
                "tenant": None if request.tenant is None else _named(request.tenant),
                "tenants": _tenants_of(request),
                "language": request.language,
            }
        )


def _tenants_of(request: Request) -> list[dict[str, Any]]:
    """Return the caller's tenants with the role in each; staff belongs to none and lists /api/tenants."""
    if request.token is not None:
        tenant = request.token.tenant
        return [] if tenant is None else [{**_named(tenant), "role": request.token.role}]
    memberships = Person.objects.filter(login=request.user).select_related("tenant").order_by("tenant__slug")
    return [{**_named(person.tenant), "role": person.role} for person in memberships]


def _named(tenant: Tenant) -> dict[str, Any]:
    return {"slug": tenant.slug, "name": tenant.name}


class TenantsViewSet(TenantViewSet):
    """`/api/tenants`: staff founds, changes, suspends and deletes tenants."""

    model = Tenant
    resource = "tenants"
    needs_tenant = False
    serializer_class = TenantBody
    lookup_field = "slug"
    lookup_url_kwarg = "slug"
    filters = {"suspended": lambda rows, word: _suspended(rows, word), "slug": api.text("slug")}

    def get_queryset(self) -> QuerySet[Tenant]:
        """Return all tenants."""
        return Tenant.objects.all()

    def list(self, request: Request) -> Response:
        """Answer a page of tenants, newest first."""
        rows = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([people.tenant_shape(tenant) for tenant in rows])

    def create(self, request: Request) -> Response:
        """Found a tenant; its first admin token is in the answer, once."""
        tenant, written = people.create_tenant(request.actor, self.values(NewTenantBody))
        return api.SecretResponse(
            {**people.tenant_shape(tenant), "token": written}, secrets=("token",), status=201
        )

    def retrieve(self, request: Request, slug: str) -> Response:
        """Answer one tenant."""
        return Response(people.tenant_shape(self.get_object()))

    def partial_update(self, request: Request, slug: str) -> Response:
        """Change what is given."""
        tenant = people.change_tenant(self.get_object(), request.actor, self.values(partial=True))
        return Response(people.tenant_shape(tenant))

    def destroy(self, request: Request, slug: str) -> Response:
        """Delete a suspended tenant with everything of it."""
        people.delete_tenant(self.get_object(), request.actor)
        return Response(status=204)

    @action(detail=True, methods=["post"])
    def suspend(self, request: Request, slug: str) -> Response:
        """Stop a tenant."""
        return Response(people.tenant_shape(people.suspend_tenant(self.get_object(), request.actor)))

    @action(detail=True, methods=["post"])
    def resume(self, request: Request, slug: str) -> Response:
        """Let a tenant go on."""
        return Response(people.tenant_shape(people.resume_tenant(self.get_object(), request.actor)))


def _suspended(rows: QuerySet[Tenant], word: str) -> QuerySet[Tenant]:
    if word not in {"true", "false"}:
        raise api.BadFilter("Expected true or false.")
    return rows.filter(suspended_at__isnull=word == "false")


class DeskViewSet(TenantViewSet):
    """People, groups and types: five verbs each, over the services that the subclass names."""

    shape: Any
    create_one: Any
    change_one: Any
    delete_one: Any

    def list(self, request: Request) -> Response:
        """Answer a page, newest first."""
        rows = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([self.shape(row) for row in rows])

    def create(self, request: Request) -> Response:
        """Add one."""
        return Response(self.shape(self.create_one(request.tenant, request.actor, self.values())), status=201)

    def retrieve(self, request: Request, id: str) -> Response:
        """Answer one."""
        return Response(self.shape(self.get_object()))

    def partial_update(self, request: Request, id: str) -> Response:
        """Change what is given."""
        row = self.change_one(self.get_object(), request.actor, self.values(partial=True))
        return Response(self.shape(row))

    def destroy(self, request: Request, id: str) -> Response:
        """Delete one that nothing uses."""
        self.delete_one(self.get_object(), request.actor)
        return Response(status=204)


class PersonViewSet(DeskViewSet):
    """`/api/people`."""

    model = Person
    resource = "people"
    serializer_class = PersonBody
    shape = staticmethod(people.person_shape)
    create_one = staticmethod(people.create_person)
    change_one = staticmethod(people.change_person)
    delete_one = staticmethod(people.delete_person)
    filters = {
        "role": api.choice("role", Role.values),
        "email": api.text("email__iexact"),
        "group": lambda rows, value: named("memberships__group")(rows, value).distinct(),
    }


class GroupViewSet(DeskViewSet):
    """`/api/groups`."""

    model = Group
    resource = "groups"
    serializer_class = GroupBody
    shape = staticmethod(people.group_shape)
    create_one = staticmethod(people.create_group)
    change_one = staticmethod(people.change_group)
    delete_one = staticmethod(people.delete_group)
    filters = {"key": api.text("key")}

    def get_queryset(self) -> QuerySet:
        """Return the tenant's groups with their members, in three queries however many there are."""
        return super().get_queryset().prefetch_related("memberships__person")


class TicketTypeViewSet(DeskViewSet):
    """`/api/ticket-types`."""

    model = TicketType
    resource = "ticket-types"
    serializer_class = TypeBody
    shape = staticmethod(people.type_shape)
    create_one = staticmethod(people.create_type)
    change_one = staticmethod(people.change_type)
    delete_one = staticmethod(people.delete_type)
    filters = {"key": api.text("key")}


class TokenViewSet(TenantViewSet):
    """`/api/tokens`: a token's text is shown once; DELETE revokes."""

    model = ApiToken
    resource = "tokens"
    serializer_class = TokenBody
    filters = {"role": api.choice("role", Role.values)}

    def list(self, request: Request) -> Response:
        """Answer a page of tokens, newest first."""
        rows = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([people.token_shape(token) for token in rows])

    def create(self, request: Request) -> Response:
        """Issue a token; its text is in this answer alone."""
        token, written = people.create_token(request.tenant, request.actor, self.values())
        return api.SecretResponse(
            {**people.token_shape(token), "token": written}, secrets=("token",), status=201
        )

    def retrieve(self, request: Request, id: str) -> Response:
        """Answer one token without its text."""
        return Response(people.token_shape(self.get_object()))

    def destroy(self, request: Request, id: str) -> Response:
        """Revoke a token."""
        people.revoke_token(self.get_object(), request.actor)
        return Response(status=204)


class AuditViewSet(TenantViewSet):
    """`/api/audit`: who changed which part of the configuration."""

    model = AuditEntry
    resource = "audit"
    filters = {
        "action": api.text("action"),
        "object": api.text("object"),
        "createdAfter": api.instant_after("at"),
        "createdBefore": api.instant_before("at"),
    }

    def list(self, request: Request) -> Response:
        """Answer a page of entries, newest first."""
        rows = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([_audit_shape(entry) for entry in rows])

    def retrieve(self, request: Request, id: str) -> Response:
        """Answer one entry."""
        return Response(_audit_shape(self.get_object()))


def _audit_shape(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": str(entry.public_id),
        "at": api.instant_text(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "object": entry.object,
        "before": entry.before,
        "after": entry.after,
    }


ROUTES: list[tuple[str, type[viewsets.ViewSetMixin], str]] = [
    ("me", MeViewSet, "me"),
    ("tenants", TenantsViewSet, "tenant"),
    ("people", PersonViewSet, "person"),
    ("groups", GroupViewSet, "group"),
    ("ticket-types", TicketTypeViewSet, "ticket-type"),
    ("tokens", TokenViewSet, "token"),
    ("audit", AuditViewSet, "audit"),
]
