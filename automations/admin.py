"""Staff's view of automations: read-only, without tokens and secrets."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from automations.models import Automation, AutomationVersion
from csbot.lib.admin import ReadOnlyAdmin, as_json


@admin.register(Automation)
class AutomationAdmin(ReadOnlyAdmin):
    """Automations with their drafts, secrets as marks."""

    list_display = ("name", "tenant", "state", "published", "updated_at")
    list_filter = ("state",)
    list_select_related = ("tenant", "published__automation")
    search_fields = ("name", "public_id", "tenant__slug")
    fields = (
        *("tenant", "name", "public_id", "state", "published"),
        *("revision", "created_at", "updated_at", "draft_as_json"),
    )
    readonly_fields = fields

    @admin.display(description="draft")
    def draft_as_json(self, automation: Automation) -> SafeString:
        """Return the draft as indented JSON."""
        return as_json(automation.draft)


@admin.register(AutomationVersion)
class AutomationVersionAdmin(ReadOnlyAdmin):
    """Published versions with their trees, secrets as marks."""

    list_display = ("automation", "number", "tenant", "created_by", "created_at")
    list_select_related = ("automation", "tenant")
    search_fields = ("automation__name", "automation__public_id", "tenant__slug")
    fields = ("tenant", "automation", "number", "created_by", "created_at", "tree_as_json")
    readonly_fields = fields

    @admin.display(description="tree")
    def tree_as_json(self, version: AutomationVersion) -> SafeString:
        """Return the tree as indented JSON."""
        return as_json(version.tree)
