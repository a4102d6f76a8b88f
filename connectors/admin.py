"""Connections for platform staff: what is set, never a secret; they are made by their tenants."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from connectors import credentials
from connectors.models import Connection
from csbot.lib import json


@admin.register(Connection)
class ConnectionAdmin(admin.ModelAdmin):
    """Looking at connections; their name and limits can be changed."""

    list_display = ["name", "tenant", "provider", "closed_until", "refusals", "created_at"]
    list_filter = ["provider"]
    list_select_related = ["tenant"]
    search_fields = ["name", "tenant__slug"]
    show_full_result_count = False
    fields = [
        "public_id", "tenant", "provider", "name", "config", "credentials_set", "limits", "closed_until",
        "refusals", "created_at",
    ]  # fmt: skip
    readonly_fields = [name for name in fields if name != "name"]

    @admin.display(description="Credentials")
    def credentials_set(self, account: Connection) -> str:
        """Say which credentials are set."""
        return json.dumps(credentials.marks(account))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody here knows a tenant's credentials."""
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save the name only: whether a connection is closed is written elsewhere."""
        obj.save(update_fields=["name"])
