"""The admin as a whole: its name, and what of foreign packages staff see there.

Registered apps are read in the order of the settings, so what this page takes away is there by now.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group as PermissionGroup
from django.http import HttpRequest
from django_celery_beat.admin import CrontabScheduleAdmin, IntervalScheduleAdmin, PeriodicTaskAdmin
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)

from csbot.lib.admin import NOTHING, StaffAdmin

admin.site.site_header = admin.site.site_title = "csbot"
admin.site.index_title = "Platform staff"
admin.site.empty_value_display = NOTHING
# A group is a company's team here; staff have their rights each, and beat uses neither clock nor sun.
admin.site.unregister([PermissionGroup, ClockedSchedule, SolarSchedule])
admin.site.unregister([PeriodicTask, CrontabSchedule, IntervalSchedule])


class BeatAdmin(StaffAdmin):
    """A table of Celery beat. A wrong change stops the installation's clock, so superusers alone make one."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whether the user is a superuser."""
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user is a superuser."""
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user is a superuser."""
        return bool(request.user.is_superuser)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return the package's actions, which ask for no right themselves, to superusers alone."""
        return super().get_actions(request) if request.user.is_superuser else {}


@admin.register(PeriodicTask)
class BeatTaskAdmin(BeatAdmin, PeriodicTaskAdmin):
    """What beat starts, and when it last did."""


@admin.register(CrontabSchedule)
class BeatCrontabAdmin(BeatAdmin, CrontabScheduleAdmin):
    """Times of the day and the week."""


@admin.register(IntervalSchedule)
class BeatIntervalAdmin(BeatAdmin, IntervalScheduleAdmin):
    """Intervals."""
