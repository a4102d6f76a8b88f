"""Staff's view of incidents: read-only, the client's texts beside the admin level."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from csbot.lib.admin import ReadOnlyAdmin, as_json
from csbot.lib.errors import RequestRefused
from incidents import services
from incidents.models import Incident
from tickets import audit
from tickets.events import Actor


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin):
    """Every tenant's incidents, newest first."""

    list_display = ("title_shown", "tenant", "status", "code", "count", "first_at", "last_at")
    list_filter = ("status", "tenant")
    list_select_related = ("tenant", "ticket", "connection")
    search_fields = ("cause__startswith",)
    fields = (
        "title_shown", "impact_shown", "tenant", "status", "count", "first_at", "last_at", "resolved_at",
        "notified_at", "code", "cause", "ticket", "automation", "connection", "runs_shown", "detail_shown",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("acknowledge", "resolve")

    @admin.display(description="title")
    def title_shown(self, incident: Incident) -> str:
        """Return the client's title in the language of the page."""
        return str(services.representation(incident, get_language())["title"])

    @admin.display(description="impact")
    def impact_shown(self, incident: Incident) -> str:
        """Return the client's impact in the language of the page."""
        return str(services.representation(incident, get_language())["impact"])

    @admin.display(description="runs")
    def runs_shown(self, incident: Incident) -> str:
        """Return the public ids of the newest runs, one on each line."""
        return "\n".join(services.newest_runs(incident))

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
                self.message_user(request, f"{incident.public_id}: {refused.message}", messages.WARNING)
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
