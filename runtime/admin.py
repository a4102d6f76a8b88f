"""Staff's view of the engine: runs with steps, log and error; deliveries; worker processes. History is read-only."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from csbot.lib.admin import NEWEST, ReadOnlyAdmin, as_json
from csbot.lib.errors import RequestRefused
from runtime import messages as log_texts
from runtime import services
from runtime.models import Delivery, Run, RunData, RunLog, RunStep, WorkerProcess
from tickets import audit
from tickets.events import Actor

# Of one input or output on the page of a run; the row keeps the whole.
SHOWN_CHARACTERS = 2000
Deed = Callable[[Run, Actor], Any]


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Every tenant's runs, newest first; one run with all that happened in it."""

    list_display = (
        "public_id",
        "tenant",
        "automation",
        "trigger",
        "status",
        "ticket",
        "attempts",
        "created_at",
    )
    list_filter = ("status", "trigger", "tenant")
    list_select_related = ("tenant", "automation", "ticket")
    # Without a field the admin shows no box to search in; `get_search_results` says what is searched.
    search_fields = ("public_id",)
    search_help_text = "A run's id or a tenant's slug"
    fields = (
        "public_id", "tenant", "automation", "version", "trigger", "status", "wait_reason", "due_at", "ticket",
        "error_shown", "incident", "attempts", "rescues", "actions", "priority", "depth", "caused_by", "rerun_of",
        "cancel_requested", "worker", "claim_no", "lease_until", "created_at", "started_at", "finished_at",
        "input_shown", "steps_shown", "log_shown",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("retry", "rerun", "cancel", "happened", "again", "give_up")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Run], search_term: str
    ) -> tuple[QuerySet[Run], bool]:
        """Find by exact id or exact slug: both are indexed, a text inside of something is not."""
        term = search_term.strip()
        if not term:
            return queryset, False
        try:
            return queryset.filter(public_id=uuid.UUID(term)), False
        except ValueError:
            return queryset.filter(tenant__slug=term), False

    @admin.display(description="error")
    def error_shown(self, run: Run) -> SafeString:
        """Return the error and, of its incident, the admin level."""
        if run.incident is None:
            return as_json(run.error)
        return format_html("{}{}", as_json(run.error), as_json(run.incident.detail))

    @admin.display(description="input")
    def input_shown(self, run: Run) -> SafeString:
        """Return what the run was given; a dash when retention has taken it."""
        data = RunData.objects.of(run.tenant_id).filter(run=run).first()
        return as_json(data.input if data else None)

    @admin.display(description="steps")
    def steps_shown(self, run: Run) -> SafeString:
        """Return the executed steps, oldest first."""
        steps = RunStep.objects.of(run.tenant_id).filter(run=run).order_by("seq")[:NEWEST]
        rows = format_html_join(
            "",
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}{}</td></tr>",
            (
                (
                    step.seq, step.path, step.op or step.type, step.state, step.attempt,
                    "–" if step.duration_ms is None else f"{step.duration_ms} ms", step.message,
                    _folded("input", step.input), _folded("output", step.output),
                )
                for step in steps
            ),
        )  # fmt: skip
        return format_html("<table>{}</table>", rows)

    @admin.display(description="log")
    def log_shown(self, run: Run) -> SafeString:
        """Return the log in the language of the page, oldest first."""
        lines = RunLog.objects.of(run.tenant_id).filter(run=run).order_by("id")[:NEWEST]
        language = get_language()
        rows = format_html_join(
            "",
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            (
                (
                    f"{line.at:%Y-%m-%d %H:%M:%S}",
                    line.level,
                    log_texts.rendered(line.code, line.params, language),
                )
                for line in lines
            ),
        )
        return format_html("<table>{}</table>", rows)

    @admin.action(description="Retry after the last finished step", permissions=["act"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        """Continue the chosen failed runs."""
        self._each(request, queryset, "retry", services.retry)

    @admin.action(description="Run again from the beginning", permissions=["act"])
    def rerun(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        """Start each of the chosen ones as a new run."""
        self._each(request, queryset, "rerun", services.rerun)

    @admin.action(description="Cancel", permissions=["act"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        """Cancel the chosen ones, or ask them to stop."""
        self._each(request, queryset, "cancel", services.cancel)

    @admin.action(description="In review: it happened, go on", permissions=["act"])
    def happened(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        """Decide that the call of each happened; outputs can be given in the API only."""
        self._each(request, queryset, "resolve", lambda run, actor: services.resolve(run, actor, "happened"))

    @admin.action(description="In review: do it again", permissions=["act"])
    def again(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        """Decide to make the call of each again."""
        self._each(request, queryset, "resolve", lambda run, actor: services.resolve(run, actor, "again"))

    @admin.action(description="In review: give up", permissions=["act"])
    def give_up(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        """Decide that the chosen ones have failed."""
        self._each(request, queryset, "resolve", lambda run, actor: services.resolve(run, actor, "giveUp"))

    def _each(self, request: HttpRequest, queryset: QuerySet[Run], word: str, deed: Deed) -> None:
        """Do `deed` with each, with an audit entry each; say for each that refused why."""
        actor = Actor("person", request.user.get_username())
        acted = 0
        for run in queryset.select_related("tenant", "automation").order_by("pk"):
            before = services.status_of(run)
            try:
                with transaction.atomic():
                    deed(run, actor)
                    audit.record(
                        run.tenant, actor, f"run.{word}", f"runs/{run.public_id}", {"status": before}, None
                    )
            except RequestRefused as refused:
                self.message_user(request, f"{run.public_id}: {refused.message}", messages.WARNING)
            else:
                acted += 1
        self.message_user(request, _("Changed: %(count)s") % {"count": acted})


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """What senders delivered: taken, parked or refused."""

    list_display = ("at", "tenant", "automation", "outcome", "run")
    list_filter = ("outcome", "tenant")
    list_select_related = ("tenant", "automation", "run")
    fields = (
        "public_id",
        "at",
        "tenant",
        "automation",
        "outcome",
        "key",
        "run",
        "refusal_shown",
        "body_shown",
    )
    readonly_fields = fields

    @admin.display(description="refusal")
    def refusal_shown(self, delivery: Delivery) -> SafeString:
        """Return why it was refused."""
        return as_json(delivery.refusal)

    @admin.display(description="body")
    def body_shown(self, delivery: Delivery) -> SafeString:
        """Return the beginning of a refused body as text."""
        if delivery.raw is None:
            return SafeString("–")
        return format_html("<pre>{}</pre>", bytes(delivery.raw[:SHOWN_CHARACTERS]).decode("utf-8", "replace"))


@admin.register(WorkerProcess)
class WorkerProcessAdmin(ReadOnlyAdmin):
    """Who executes runs at present."""

    list_display = ("id", "host", "pid", "slots", "seen_at")
    ordering = ("-seen_at",)


def _folded(title: str, value: Any) -> SafeString:
    """Return a value as JSON that opens by a click; nothing when there is none."""
    if value is None:
        return SafeString("")
    return format_html(
        "<details><summary>{}</summary>{}</details>", title, as_json(value, limit=SHOWN_CHARACTERS)
    )
