"""What every page of the admin over large or untouchable tables shares: no changes, no counting."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from csbot.lib import json

# Ten pages of the admin. Who looks for something older narrows the list by a filter or searches for an id.
NEWEST = 1000


class NewestPaginator(Paginator):
    """Pages over the newest `NEWEST` rows alone: counting millions takes longer than showing a page."""

    @cached_property
    def count(self) -> int:
        """Return how many rows there are to page through, at most `NEWEST`."""
        return self.object_list.order_by().values("pk")[:NEWEST].count()


class ReadOnlyAdmin(admin.ModelAdmin):
    """History: staff look at it and cannot add, change or delete. Actions need the right to change."""

    paginator = NewestPaginator
    show_full_result_count = False
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


def as_json(value: Any, *, limit: int = 20_000) -> SafeString:
    """Return `value` as readable JSON for a page, cut off after `limit` characters; a dash for None."""
    if value is None:
        return SafeString("–")
    text = json.dumps(value, indent=2)
    shown = text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit} more characters"
    return format_html("<pre>{}</pre>", shown)
