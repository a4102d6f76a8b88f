"""Connections for platform staff: what is set, never a secret; they are made by their tenants."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString

from connectors import credentials, services
from connectors.models import Connection
from csbot.lib import json
from csbot.lib.admin import as_json
from tickets.admin import AuditedAdmin


@admin.register(Connection)
class ConnectionAdmin(AuditedAdmin):
    """Looking at connections; their name can be changed, and one that nothing uses deleted."""

    list_display = ["name", "tenant", "provider", "closed_until", "refusals", "created_at"]
    list_filter = ["provider"]
    list_select_related = ["tenant"]
    search_fields = ["name", "tenant__slug"]
    ordering = ["-id"]
    fields = [
        "public_id", "tenant", "provider", "name", "config_shown", "credentials_set", "limits_shown",
        "closed_until", "refusals", "created_at",
    ]  # fmt: skip
    readonly_fields = [name for name in fields if name != "name"]
    change_one = staticmethod(services.change)
    delete_one = staticmethod(services.delete)

    @admin.display(description="config")
    def config_shown(self, account: Connection) -> SafeString:
        """Return the configuration as indented JSON."""
        return as_json(account.config)

    @admin.display(description="limits")
    def limits_shown(self, account: Connection) -> SafeString:
        """Return the limits as indented JSON; a dash where the provider's own hold."""
        return as_json(account.limits or None)

    @admin.display(description="Credentials")
    def credentials_set(self, account: Connection) -> str:
        """Say which credentials are set."""
        return json.dumps(credentials.marks(account))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody here knows a tenant's credentials."""
        return False
