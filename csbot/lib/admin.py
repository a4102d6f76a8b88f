"""What the pages of the admin share: exact times, links, refusals said on the page; history without changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from csbot.lib import json
from csbot.lib.errors import RequestRefused

# Ten pages of the admin. Who looks for something older narrows the list by a filter or searches for an id.
NEWEST = 1000
# Of one text inside a table; the page of the thing itself has the whole.
SHOWN_CHARACTERS = 2000
NOTHING = SafeString("–")


class NewestPaginator(Paginator):
    """Pages over the newest `NEWEST` rows alone: counting millions takes longer than showing a page."""

    @cached_property
    def count(self) -> int:
        """Return how many rows there are to page through, at most `NEWEST`."""
        return self.object_list.order_by().values("pk")[:NEWEST].count()


class StaffAdmin(admin.ModelAdmin):
    """A page for staff: instants to the second in UTC, and what a service refuses is said, never an error 500."""

    show_full_result_count = False

    class Media:
        css = {"all": ["csbot/admin.css"]}

    def get_list_display(self, request: HttpRequest) -> Sequence[Any]:
        """Return the columns, instants to the second."""
        return [self._exact(name) for name in super().get_list_display(request)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        """Return what is shown only, instants to the second."""
        return [self._exact(name) for name in super().get_readonly_fields(request, obj)]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        """Return the fields by section, instants that are shown only to the second."""
        shown_only = set(self.get_readonly_fields(request, obj))
        return [
            (title, {**options, "fields": [self._shown_or(name, shown_only) for name in options["fields"]]})
            for title, options in super().get_fieldsets(request, obj)
        ]

    def _shown_or(self, name: Any, shown_only: set[Any]) -> Any:
        exact = self._exact(name)
        return exact if exact in shown_only else name

    def _exact(self, name: Any) -> Any:
        """Return a column in the place of an instant's name; anything else as it is."""
        fields = self.opts._forward_fields_map
        is_instant = isinstance(name, str) and isinstance(fields.get(name), models.DateTimeField)
        return _column(self.model, name) if is_instant else name

    def get_queryset(self, request: HttpRequest) -> models.QuerySet:
        """Return the rows with what they name, for the page of one as well as for the list."""
        rows = super().get_queryset(request)
        return rows.select_related(*self.list_select_related) if self.list_select_related else rows

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> HttpResponse:
        """Answer the form; what the service refused is said at its field, with nothing stored."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except RequestRefused as refused:
            # The second pass finds the form invalid, because `get_form` tells it of the refusal.
            request.refused = refused
            return super().changeform_view(request, object_id, form_url, extra_context)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **options: Any
    ) -> type[forms.ModelForm]:
        """Return the form; after a refusal one that says it."""
        form = super().get_form(request, obj, change=change, **options)
        refused = getattr(request, "refused", None)
        return form if refused is None else _telling(form, refused)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Delete one, or go back to its page and say why not."""
        try:
            return super().delete_view(request, object_id, extra_context)
        except RequestRefused as refused:
            self.message_user(request, refused.message, messages.ERROR)
            return HttpResponseRedirect(
                reverse(f"admin:{self.opts.label_lower.replace('.', '_')}_changelist")
            )

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Answer the list; an action that was refused changed nothing, and the list says why."""
        try:
            return super().changelist_view(request, extra_context)
        except RequestRefused as refused:
            self.message_user(request, refused.message, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())


class ReadOnlyAdmin(StaffAdmin):
    """History: staff look at it and cannot add, change or delete. Actions need the right to change."""

    paginator = NewestPaginator
    ordering = ("-pk",)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No: rows come from the services alone."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No: the admin has no form for it."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No: retention deletes."""
        return False

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Whether the user may use actions marked `permissions=["act"]`: those who may change the model."""
        meta = self.opts
        return bool(request.user.has_perm(f"{meta.app_label}.change_{meta.model_name}"))


def exact(at: datetime | None) -> SafeString:
    """Return an instant as `2026-11-30 18:05:00` in UTC; a dash for None."""
    if at is None:
        return NOTHING
    return format_html('<span class="instant">{}</span>', f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}")


def as_json(value: Any, *, limit: int = 20_000) -> SafeString:
    """Return `value` as readable JSON for a page, cut off after `limit` characters; a dash for None."""
    if value is None:
        return NOTHING
    text = json.dumps(value, indent=2)
    shown = text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit} more characters"
    return format_html('<pre style="white-space: pre-wrap; overflow-wrap: anywhere">{}</pre>', shown)


def folded(title: str, value: Any, *, limit: int = 20_000) -> SafeString:
    """Return `value` as JSON that opens by a click on `title`; nothing when there is none."""
    if value is None:
        return SafeString("")
    return format_html("<details><summary>{}</summary>{}</details>", title, as_json(value, limit=limit))


def link(page: str, key: Any, text: Any) -> SafeString:
    """Return a link to the admin's page of one row: `link("runtime_run", run.pk, "run 1")`.

    Pages are named and not imported, so that a ticket may point to its runs without knowing the engine.
    """
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{page}_change", args=[key]), text)


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> SafeString:
    """Return a table; texts are escaped. A dash when there are no rows."""
    lines = [format_html_join("", "<td>{}</td>", ((cell,) for cell in row)) for row in rows]
    if not lines:
        return NOTHING
    return format_html(
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>",
        format_html_join("", "<th>{}</th>", ((title,) for title in titles)),
        format_html_join("", "<tr>{}</tr>", ((line,) for line in lines)),
    )


@cache
def _column(model: type[models.Model], name: str) -> Callable[[Any], SafeString]:
    """Return the one column of an instant, for lists to sort by and pages to show."""

    @admin.display(description=f"{model._meta.get_field(name).verbose_name} (UTC)", ordering=name)
    def column(row: models.Model) -> SafeString:
        return exact(getattr(row, name))

    column.__name__ = name
    return column


def _telling(form: type[forms.ModelForm], refused: RequestRefused) -> type[forms.ModelForm]:
    """Return `form` with a `clean` that adds the refusal to the fields that it points to."""

    class Telling(form):
        def clean(self) -> dict[str, Any] | None:
            cleaned: dict[str, Any] | None = super().clean()
            for fault in refused.errors or [{"pointer": "", "message": refused.message}]:
                name = fault["pointer"].lstrip("/")
                self.add_error(name if name in self.fields else None, fault["message"])
            return cleaned

    return Telling
