"""Staff's view of tenants, people and tickets. What it writes goes through `tickets.people`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import models, transaction
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import get_language

from csbot.lib.admin import NEWEST, ReadOnlyAdmin, StaffAdmin, as_json, exact, link, table
from tickets import filters, numbers, people
from tickets import messages as log_texts
from tickets.events import Actor
from tickets.login_admin import LoginAdmin
from tickets.models import (
    ApiToken,
    AuditEntry,
    Group,
    Login,
    Membership,
    Person,
    Tenant,
    Ticket,
    TicketEvent,
    TicketType,
)

admin.site.register(Login, LoginAdmin)


def actor_of(request: HttpRequest) -> Actor:
    """Return the member of staff who acts."""
    return Actor("person", request.user.get_full_name() or request.user.get_username())


class AuditedAdmin(StaffAdmin):
    """An admin whose writes are the services': they keep the rules and write the audit log.

    `create_one(tenant, actor, values)`, `change_one(row, actor, values)`, `delete_one(row, actor)`.
    """

    create_one: Callable[..., Any]
    change_one: Callable[..., Any]
    delete_one: Callable[..., Any]

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm, change: bool) -> None:
        """Create or change `obj` through the service and take over what it stored."""
        actor = actor_of(request)
        if change:
            self.change_one(obj, actor, {name: form.cleaned_data[name] for name in form.changed_data})
        else:
            values = {name: form.cleaned_data[name] for name in form.fields if name != "tenant"}
            obj.pk = self.create_one(form.cleaned_data.get("tenant"), actor, values).pk
        obj._state.adding = False
        obj.refresh_from_db()

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete `obj` through the service."""
        self.delete_one(obj, actor_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet) -> None:
        """Delete all rows through the service, or none when one is refused."""
        with transaction.atomic():
            for row in queryset:
                self.delete_model(request, row)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        """Return the read-only fields: nothing moves from one tenant to another."""
        fixed = super().get_readonly_fields(request, obj)
        return fixed if obj is None or not hasattr(obj, "tenant_id") else [*fixed, "tenant"]


@admin.register(Tenant)
class TenantAdmin(AuditedAdmin):
    """Tenants; founding one (with its token) and deleting one are the API's."""

    list_display = ("slug", "name", "language", "timezone", "max_parallel_runs", "suspended_at", "created_at")
    list_filter = ("language", ("suspended_at", admin.EmptyFieldListFilter))
    search_fields = ("slug", "name")
    ordering = ("-id",)
    fields = (
        *("slug", "name", "public_id", "language", "timezone", "max_parallel_runs", "retention_days"),
        *("suspended_at", "created_at"),
    )
    readonly_fields = ("slug", "public_id", "suspended_at", "created_at")
    actions = ("suspend", "resume")
    change_one = staticmethod(people.change_tenant)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Founding a tenant shows its first token once, which only the API can."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Tenant | None = None) -> bool:
        """Deleting everything of a company takes more than a click in a list."""
        return False

    @admin.action(description="Suspend", permissions=["change"])
    def suspend(self, request: HttpRequest, queryset: models.QuerySet[Tenant]) -> None:
        """Stop the chosen tenants."""
        self._switch(request, queryset.filter(suspended_at__isnull=True), people.suspend_tenant, "Suspended")

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, queryset: models.QuerySet[Tenant]) -> None:
        """Let the chosen tenants go on."""
        self._switch(request, queryset.filter(suspended_at__isnull=False), people.resume_tenant, "Resumed")

    def _switch(
        self,
        request: HttpRequest,
        queryset: models.QuerySet[Tenant],
        switch: Callable[[Tenant, Actor], Tenant],
        done: str,
    ) -> None:
        """Switch each tenant that does not stand so yet, and say which they were."""
        slugs = [switch(tenant, actor_of(request)).slug for tenant in queryset.order_by("slug")]
        if slugs:
            self.message_user(request, f"{done}: {', '.join(slugs)}.", messages.SUCCESS)
        else:
            self.message_user(request, f"{done}: none, all of them were so before.", messages.WARNING)


@admin.register(Person)
class PersonAdmin(AuditedAdmin):
    """People. A login is linked by an invitation that its owner accepts, never here (SPEC section 13)."""

    list_display = ("name", "email", "tenant", "role", "away_until", "login")
    list_filter = ("role",)
    list_select_related = ("tenant", "login")
    search_fields = ("name", "email", "tenant__slug")
    ordering = ("-id",)
    autocomplete_fields = ("tenant",)
    readonly_fields = ("login", "public_id", "last_assigned_at", "created_at")
    fields = ("tenant", "name", "email", "role", "away_until", *readonly_fields)
    create_one = staticmethod(people.create_person)
    change_one = staticmethod(people.change_person)
    delete_one = staticmethod(people.delete_person)


class MembershipFormSet(forms.BaseInlineFormSet):
    """Places in a group, for people of the group's tenant."""

    def clean(self) -> None:
        """Refuse people of another tenant, each at its row."""
        super().clean()
        for form in self.forms:
            person = getattr(form, "cleaned_data", {}).get("person")
            if person is not None and person.tenant_id != self.instance.tenant_id:
                form.add_error("person", "This person belongs to another tenant.")


class MembershipInline(admin.TabularInline):
    """The people of a group."""

    model = Membership
    formset = MembershipFormSet
    fields = ("person", "capacity")
    extra = 0
    autocomplete_fields = ("person",)


@admin.register(Group)
class GroupAdmin(AuditedAdmin):
    """Groups with their members."""

    list_display = ("key", "name", "tenant", "created_at")
    list_select_related = ("tenant",)
    search_fields = ("key", "name", "tenant__slug")
    ordering = ("-id",)
    autocomplete_fields = ("tenant",)
    fields = ("tenant", "key", "name", "public_id", "created_at")
    readonly_fields = ("public_id", "created_at")
    inlines = (MembershipInline,)
    create_one = staticmethod(people.create_group)
    change_one = staticmethod(people.change_group)
    delete_one = staticmethod(people.delete_group)

    def save_formset(self, request: HttpRequest, form: forms.ModelForm, formset: Any, change: bool) -> None:
        """Replace the members by those of the page, through the service."""
        rows = [row.cleaned_data for row in formset.forms if row.cleaned_data]
        members = [
            {"person": str(row["person"].public_id), "capacity": row["capacity"]}
            for row in rows
            if not row.get("DELETE")
        ]
        formset.new_objects, formset.changed_objects, formset.deleted_objects = [], [], []
        people.change_group(form.instance, actor_of(request), {"members": members})


@admin.register(TicketType)
class TicketTypeAdmin(ReadOnlyAdmin):
    """Ticket types; their definitions are written where they are checked, in the API and the portal."""

    list_display = ("key", "name", "tenant", "created_at")
    list_select_related = ("tenant",)
    search_fields = ("key", "name", "tenant__slug")
    fields = ("tenant", "key", "name", "public_id", "statuses", "fields_shown", "created_at")
    readonly_fields = fields

    @admin.display(description="fields")
    def fields_shown(self, kind: TicketType) -> str:
        """Return the definitions as indented JSON."""
        return as_json(kind.fields)


@admin.register(Ticket)
class TicketAdmin(ReadOnlyAdmin):
    """Tickets with their log. Their changes are people's and automations', each with its log entry."""

    list_display = ("key", "tenant", "title", "type", "status", "closed", "assignee", "group", "created_at")
    list_filter = ("closed",)
    list_select_related = ("tenant", "type", "assignee", "group")
    # Without a field the admin shows no box to search in; `get_search_results` says what is searched.
    search_fields = ("number",)
    search_help_text = "TK-1, or words of title, description, external id and requester"
    fields: tuple[str, ...] = (
        "key", "tenant", "title", "description", "type", "status", "closed", "closed_at", "tags", "assignee",
        "group", "in_line_since", "fields_shown", "external_id", "requester_name", "requester_email", "created_at",
        "updated_at", "version", "log_shown",
    )  # fmt: skip
    readonly_fields: tuple[str, ...] = fields

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[Ticket], search_term: str
    ) -> tuple[models.QuerySet[Ticket], bool]:
        """Find as the list of the API does."""
        return filters.FILTERS["q"](queryset, search_term), False

    @admin.display(description="number", ordering="number")
    def key(self, ticket: Ticket) -> str:
        """Return the number people use."""
        return ticket.key

    @admin.display(description="custom fields")
    def fields_shown(self, ticket: Ticket) -> SafeString:
        """Return the custom fields as indented JSON."""
        return as_json(ticket.fields or None)

    @admin.display(description="log")
    def log_shown(self, ticket: Ticket) -> SafeString:
        """Return the newest entries in the language of the page, oldest first."""
        newest = list(TicketEvent.objects.of(ticket.tenant_id).filter(ticket=ticket).order_by("-pk")[:NEWEST])
        titles = ("At (UTC)", "Kind", "Who", "Message", "Run")
        return table(titles, (_line(event) for event in reversed(newest)))


def _line(event: TicketEvent) -> Sequence[Any]:
    who = f"{event.actor_kind} {event.actor_name}"
    at = link("tickets_ticketevent", event.pk, exact(event.at))
    return at, event.kind, who, log_texts.rendered(event, get_language()), _run_of(event)


def _run_of(event: TicketEvent) -> str:
    """Return a link to the run that wrote the entry; its page opens by the public id as well."""
    return link("runtime_run", event.run_id, str(event.run_id)[:8]) if event.run_id else ""


@admin.register(TicketEvent)
class TicketEventAdmin(ReadOnlyAdmin):
    """The log of tickets."""

    list_display = ("at", "tenant", "ticket", "kind", "code", "actor_kind", "actor_name", "run_shown")
    list_filter = ("kind",)
    list_select_related = ("tenant", "ticket")
    search_fields = ("run_id",)
    search_help_text = "TK-1 or a run's id"
    fields = (
        "at", "tenant", "ticket", "kind", "actor_kind", "actor_name", "code", "message_shown", "params_shown",
        "data_shown", "run_shown", "public_id",
    )  # fmt: skip
    readonly_fields = fields

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[TicketEvent], search_term: str
    ) -> tuple[models.QuerySet[TicketEvent], bool]:
        """Find the log of a ticket, or what a run wrote."""
        if not search_term.strip():
            return queryset, False
        number = numbers.read_key(search_term)
        if number is not None:
            return queryset.filter(ticket__number=number), False
        try:
            return queryset.filter(run_id=uuid.UUID(search_term.strip())), False
        except ValueError:
            return queryset.none(), False

    @admin.display(description="run")
    def run_shown(self, event: TicketEvent) -> str:
        """Return a link to the run that wrote it."""
        return _run_of(event)

    @admin.display(description="message")
    def message_shown(self, event: TicketEvent) -> str:
        """Return the sentence in the language of the page."""
        return log_texts.rendered(event, get_language())

    @admin.display(description="parameters")
    def params_shown(self, event: TicketEvent) -> SafeString:
        """Return what the sentence is made of."""
        return as_json(event.params)

    @admin.display(description="data")
    def data_shown(self, event: TicketEvent) -> SafeString:
        """Return what programs read of it."""
        return as_json(event.data)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Tokens of programs, without what was stored of their text. Deleting one revokes it."""

    list_display = ("name", "prefix", "tenant", "role", "expires_at", "last_used_at", "created_at")
    list_filter = ("role",)
    list_select_related = ("tenant",)
    search_fields = ("name", "=prefix", "tenant__slug")
    fields = ("name", "prefix", "public_id", "tenant", "role", "expires_at", "last_used_at", "created_at")
    readonly_fields = fields

    def has_delete_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        """Whether staff may revoke."""
        return bool(request.user.has_perm("tickets.delete_apitoken"))

    def delete_model(self, request: HttpRequest, obj: ApiToken) -> None:
        """Revoke the token, with its audit entry."""
        people.revoke_token(obj, actor_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet[ApiToken]) -> None:
        """Revoke each."""
        for token in queryset:
            self.delete_model(request, token)


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """Who changed what; append-only."""

    list_display = ("at", "tenant", "action", "object", "who")
    list_filter = ("action",)
    list_select_related = ("tenant",)
    search_fields = ("=object", "tenant__slug")
    fields = ("at", "tenant", "action", "object", "who", "before_shown", "after_shown", "public_id")
    readonly_fields = fields

    @admin.display(description="actor")
    def who(self, entry: AuditEntry) -> str:
        """Return kind and name of the actor."""
        return f"{entry.actor.get('kind')} {entry.actor.get('name')}"

    @admin.display(description="before")
    def before_shown(self, entry: AuditEntry) -> str:
        """Return the state before as indented JSON."""
        return as_json(entry.before)

    @admin.display(description="after")
    def after_shown(self, entry: AuditEntry) -> str:
        """Return the state after as indented JSON."""
        return as_json(entry.after)
