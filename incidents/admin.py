"""Staff's view of incidents: read-only, the client's texts beside the admin level."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from csbot.lib.admin import NOTHING, ReadOnlyAdmin, as_json, link
from csbot.lib.errors import RequestRefused
from incidents import services
from incidents.models import Incident
from tickets import audit, numbers
from tickets.events import Actor


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin):
    """Every tenant's incidents, newest first."""

    list_display = ("title_shown", "tenant", "status", "code", "count", "first_at", "last_at")
    list_filter = ("status", "tenant")
    list_select_related = ("tenant", "ticket", "connection")
    # Without a field the admin shows no box to search in; `get_search_results` says what is searched.
    search_fields = ("cause",)
    search_help_text = "TK-1, an incident's id, or the beginning of a cause"
    fields = (
        "title_shown", "impact_shown", "tenant", "status", "count", "first_at", "last_at", "resolved_at",
        "notified_at", "code", "cause", "ticket", "automation_shown", "connection", "runs_shown", "detail_shown",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("acknowledge", "resolve")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Incident], search_term: str
    ) -> tuple[QuerySet[Incident], bool]:
        """Find by ticket, by exact id or by the beginning of the cause."""
        term = search_term.strip()
        number = numbers.read_key(term)
        if number is not None:
            return queryset.filter(ticket__number=number), False
        try:
            return queryset.filter(public_id=uuid.UUID(term)), False
        except ValueError:
            return (queryset.filter(cause__startswith=term) if term else queryset), False

    @admin.display(description="title")
    def title_shown(self, incident: Incident) -> str:
        """Return the client's title in the language of the page."""
        return str(services.representation(incident, get_language())["title"])

    @admin.display(description="impact")
    def impact_shown(self, incident: Incident) -> str:
        """Return the client's impact in the language of the page."""
        return str(services.representation(incident, get_language())["impact"])

    @admin.display(description="automation")
    def automation_shown(self, incident: Incident) -> SafeString | str:
        """Return a link to the automation, which may be gone by now; a dash where there was none."""
        named = incident.automation
        if not named:
            return NOTHING
        list_of = reverse("admin:automations_automation_changelist")
        return format_html('<a href="{}?q={}">{}</a>', list_of, named.get("id"), named.get("name"))

    @admin.display(description="runs")
    def runs_shown(self, incident: Incident) -> SafeString:
        """Return links to the newest runs, newest first, one on each line; their pages open by the public id."""
        runs = services.newest_runs(incident)
        return format_html_join(SafeString("<br>"), "{}", ((link("runtime_run", run, run),) for run in runs))

    @admin.display(description="detail")
    def detail_shown(self, incident: Incident) -> SafeString:
        """Return the admin level, for staff only."""
        return as_json(incident.detail)

    @admin.action(description="Acknowledge", permissions=["act"])
    def acknowledge(self, request: HttpRequest, queryset: QuerySet[Incident]) -> None:
        """Mark the chosen ones as being looked into."""
        self._each(request, queryset, services.acknowledge, "incident.acknowledged")

    @admin.action(description="Resolve", permissions=["act"])
    def resolve(self, request: HttpRequest, queryset: QuerySet[Incident]) -> None:
        """Close the chosen ones."""
        self._each(request, queryset, services.resolve, "incident.resolved")

    def _each(
        self,
        request: HttpRequest,
        queryset: QuerySet[Incident],
        act: Callable[[Incident], Incident],
        done: str,
    ) -> None:
        """Do `act` to each, with an audit entry each; say for each that refused why."""
        acted = 0
        for incident in queryset.select_related("tenant"):
            before = incident.status
            try:
                with transaction.atomic():
                    act(incident)
                    self._audit(request, incident, done, before)
            except RequestRefused as refused:
                self.message_user(
                    request, f"Incident {incident.public_id}: {refused.message}", messages.WARNING
                )
            else:
                acted += 1
        self.message_user(request, _("Changed: %(count)s") % {"count": acted})

    def _audit(self, request: HttpRequest, incident: Incident, action: str, before: str) -> None:
        audit.record(
            incident.tenant,
            Actor("person", request.user.get_username()),
            action,
            f"incidents/{incident.public_id}",
            {"status": before},
            {"status": incident.status},
        )
