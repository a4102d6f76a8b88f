"""Staff's view of the engine: runs with steps, log and error; deliveries; worker processes. History is read-only."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from csbot.lib.admin import (
    NEWEST,
    NOTHING,
    SHOWN_CHARACTERS,
    ReadOnlyAdmin,
    as_json,
    exact,
    folded,
    link,
    table,
)
from csbot.lib.errors import RequestRefused
from runtime import messages as log_texts
from runtime import services
from runtime.models import Delivery, Run, RunData, RunLog, RunStep, WorkerProcess
from tickets import audit, numbers
from tickets.admin import TicketAdmin
from tickets.events import Actor
from tickets.models import Ticket

# Of a ticket; the list has all of them.
SHOWN_RUNS = 50
WHOLE_ID = 32
# Eight digits and more: the short id of a list, or as much as somebody copied.
BEGINNING_OF_ID = re.compile(r"(?=(?:-?[0-9a-fA-F]){8,32}\Z)[0-9a-fA-F][0-9a-fA-F-]*")
Deed = Callable[[Run, Actor], Any]


class StatusFilter(admin.SimpleListFilter):
    """The state in the words of SPEC section 5; inside, a queued run stands in one of three."""

    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        """Return the words."""
        return [(word, word) for word in dict.fromkeys(services.OUTSIDE.values())]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        """Return the runs in the chosen state."""
        if self.value() is None:
            return queryset
        inside = [status for status, word in services.OUTSIDE.items() if word == self.value()]
        return queryset.filter(status__in=inside)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Every tenant's runs, newest first; one run with all that happened in it."""

    list_display = (
        "created_at", "id_shown", "tenant", "automation", "status_shown", "attempts", "trigger", "ticket_shown",
        "error_line",
    )  # fmt: skip
    list_display_links = ("id_shown",)
    list_filter = (StatusFilter, "trigger", "tenant")
    list_select_related = ("tenant", "automation", "version__automation", "ticket", "incident")
    # Without a field the admin shows no box to search in; `get_search_results` says what is searched.
    search_fields = ("public_id",)
    search_help_text = "A run's id or the beginning of it, TK-1, or a tenant's slug"
    fields = (
        "public_id", "tenant", "automation", "version", "trigger", "status_shown", "wait_reason", "due_at", "ticket",
        "error_shown", "incident", "attempts", "rescues", "actions", "priority", "depth", "caused_by", "rerun_of",
        "cancel_requested", "worker", "claim_no", "lease_until", "created_at", "started_at", "finished_at",
        "steps_shown", "log_shown", "input_shown",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("retry", "rerun", "cancel", "happened", "again", "give_up")

    def get_fields(self, request: HttpRequest, obj: Run | None = None) -> Sequence[Any]:
        """Return the fields; that somebody asked to cancel is told where somebody did."""
        is_asked = obj is not None and obj.cancel_requested
        return [name for name in self.fields if name != "cancel_requested" or is_asked]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Run | None:
        """Return the run of a page's address: by its inner number, or by its public id, which logs name."""
        try:
            public_id = uuid.UUID(object_id)
        except ValueError:
            return super().get_object(request, object_id, from_field)
        return self.get_queryset(request).filter(public_id=public_id).first()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Run], search_term: str
    ) -> tuple[QuerySet[Run], bool]:
        """Find by id or its beginning, by ticket, by exact slug: a text inside of something has no index."""
        term = search_term.strip()
        number = numbers.read_key(term)
        if number is not None:
            return queryset.filter(ticket__number=number), False
        found = Q(tenant__slug=term)
        if BEGINNING_OF_ID.fullmatch(term):
            digits = term.replace("-", "")
            found |= Q(public_id__range=(uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f"))))
        return (queryset.filter(found) if term else queryset), False

    @admin.display(description="id", ordering="public_id")
    def id_shown(self, run: Run) -> SafeString:
        """Return the beginning of the id, the whole under the mouse."""
        return _short(run)

    @admin.display(description="status", ordering="status")
    def status_shown(self, run: Run) -> str:
        """Return the state in the words of SPEC section 5."""
        return services.status_of(run)

    @admin.display(description="ticket")
    def ticket_shown(self, run: Run) -> SafeString:
        """Return a link to the ticket."""
        return link("tickets_ticket", run.ticket_id, run.ticket.key) if run.ticket else NOTHING

    @admin.display(description="error")
    def error_line(self, run: Run) -> str:
        """Return the code of the last failure."""
        return run.error["code"] if run.error else NOTHING

    @admin.display(description="error")
    def error_shown(self, run: Run) -> SafeString:
        """Return the error in one line; folded, all of it and, of its incident, the admin level."""
        if not run.error:
            return NOTHING
        step = f" (step {run.error['stepId']})" if run.error.get("stepId") else ""
        line = f"{run.error.get('code')}: {run.error.get('message')}{step}"
        detail = run.incident.detail if run.incident else None
        return format_html("{}{}{}", line, folded("JSON", run.error), folded("detail for staff", detail))

    @admin.display(description="input")
    def input_shown(self, run: Run) -> SafeString:
        """Return what the run was given; a dash when retention has taken it."""
        data = RunData.objects.of(run.tenant_id).filter(run=run).first()
        return as_json(data.input if data else None)

    @admin.display(description="steps")
    def steps_shown(self, run: Run) -> SafeString:
        """Return the executed steps, oldest first."""
        steps = RunStep.objects.of(run.tenant_id).filter(run=run).order_by("seq")[:NEWEST]
        titles = ("#", "Step", "Operation", "Status", "Attempt", "Started (UTC)", "Took", "Message", "Data")
        return table(titles, (self._step(step) for step in steps))

    def _step(self, step: RunStep) -> Sequence[Any]:
        took = NOTHING if step.duration_ms is None else f"{step.duration_ms} ms"
        data = format_html(
            "{}{}",
            folded("input", step.input, limit=SHOWN_CHARACTERS),
            folded("output", step.output, limit=SHOWN_CHARACTERS),
        )
        what, at = step.op or step.type, exact(step.started_at)
        return step.seq, step.path, what, step.state, step.attempt, at, took, step.message, data

    @admin.display(description="log")
    def log_shown(self, run: Run) -> SafeString:
        """Return the log in the language of the page, oldest first."""
        lines = RunLog.objects.of(run.tenant_id).filter(run=run).order_by("id")[:NEWEST]
        language = get_language()
        return table(
            ("At (UTC)", "Level", "Message"),
            (
                (exact(line.at), line.level, log_texts.rendered(line.code, line.params, language))
                for line in lines
            ),
        )

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
                self.message_user(request, f"Run {run.public_id}: {refused.message}", messages.WARNING)
            else:
                acted += 1
        self.message_user(request, _("Changed: %(count)s") % {"count": acted})


admin.site.unregister(Ticket)


@admin.register(Ticket)
class TicketWithRunsAdmin(TicketAdmin):
    """The desk's page of tickets, with what only the engine knows: the runs of each."""

    fields = (*TicketAdmin.fields[:-1], "runs_shown", TicketAdmin.fields[-1])
    readonly_fields = fields

    @admin.display(description="runs")
    def runs_shown(self, ticket: Ticket) -> SafeString:
        """Return the newest runs, newest first, and a link to the list of all."""
        runs = Run.objects.of(ticket.tenant_id).filter(ticket=ticket).select_related("automation")
        newest = list(runs.order_by("-pk")[:SHOWN_RUNS])
        titles = ("Created (UTC)", "Id", "Automation", "Trigger", "Status", "Attempts", "Error")
        shown = table(titles, (_line(run) for run in newest))
        if not newest:
            return shown
        every = f"{reverse('admin:runtime_run_changelist')}?ticket__id__exact={ticket.pk}"
        return format_html('{}<a href="{}">All runs of this ticket</a>', shown, every)


def _line(run: Run) -> Sequence[Any]:
    at, status = exact(run.created_at), services.status_of(run)
    error = run.error["code"] if run.error else NOTHING
    return (
        at,
        link("runtime_run", run.pk, _short(run)),
        run.automation,
        run.trigger,
        status,
        run.attempts,
        error,
    )


def _short(run: Run) -> SafeString:
    return format_html('<span title="{}">{}</span>', run.public_id, run.short_id)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """What senders delivered: taken, parked or refused."""

    list_display = ("at", "tenant", "automation", "outcome", "key", "run_shown")
    list_filter = ("outcome", "tenant")
    list_select_related = ("tenant", "automation", "run")
    # Without a field the admin shows no box to search in; `get_search_results` says what is searched.
    search_fields = ("key",)
    search_help_text = "A delivery's key, its id, or its run's id"
    fields = (
        *("public_id", "at", "tenant", "automation", "outcome", "key", "run", "refusal_shown", "body_shown"),
    )
    readonly_fields = fields

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Delivery], search_term: str
    ) -> tuple[QuerySet[Delivery], bool]:
        """Find by exact key, which a sender may make of a UUID as well, or by an id."""
        term = search_term.strip()
        found = Q(key=term)
        if BEGINNING_OF_ID.fullmatch(term) and len(term.replace("-", "")) == WHOLE_ID:
            found |= Q(public_id=uuid.UUID(term)) | Q(run__public_id=uuid.UUID(term))
        return (queryset.filter(found) if term else queryset), False

    @admin.display(description="run")
    def run_shown(self, delivery: Delivery) -> SafeString:
        """Return a link to the run that it made."""
        return link("runtime_run", delivery.run_id, _short(delivery.run)) if delivery.run else NOTHING

    @admin.display(description="refusal")
    def refusal_shown(self, delivery: Delivery) -> SafeString:
        """Return why it was refused."""
        return as_json(delivery.refusal)

    @admin.display(description="body")
    def body_shown(self, delivery: Delivery) -> SafeString:
        """Return the beginning of a refused body as text."""
        if delivery.raw is None:
            return NOTHING
        return format_html("<pre>{}</pre>", bytes(delivery.raw[:SHOWN_CHARACTERS]).decode("utf-8", "replace"))


@admin.register(WorkerProcess)
class WorkerProcessAdmin(ReadOnlyAdmin):
    """Who executes runs at present."""

    list_display = ("id", "host", "pid", "slots", "seen_at")
    ordering = ("-seen_at",)
