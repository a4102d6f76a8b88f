"""Logins for platform staff. Nobody but its owner sets or resets the password of a company's person (SPEC section 13).

Of such a login staff can see the facts and lock it; staff's own logins are a superuser's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserCreationForm
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from csbot.lib.admin import StaffAdmin
from tickets.models import Login

FACTS = ("username", "email", "first_name", "last_name", "last_login", "date_joined")


class LoginAdmin(StaffAdmin, UserAdmin):
    """Accounts that sign in: staff's can be made and changed by superusers, others only locked."""

    list_display = ("username", "is_staff", "is_superuser", "is_active", "last_login", "date_joined")
    list_filter = ("is_staff", "is_superuser", "is_active")
    filter_horizontal = ("user_permissions",)
    readonly_fields = ("last_login", "date_joined")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Rights", {"fields": ("is_active", "is_staff", "is_superuser", "user_permissions")}),
        ("Times", {"fields": ("last_login", "date_joined")}),
    )
    add_form = UserCreationForm
    add_fieldsets = (
        (None, {"classes": ("wide",), "fields": ("username", "email", "password1", "password2")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Login | None = None) -> Sequence[Any]:
        """Return the whole form for a login of staff; of a company's person the facts and whether it is active."""
        if obj is None or obj.is_staff:
            return super().get_fieldsets(request, obj)
        return [(None, {"fields": ["is_active", *self.get_readonly_fields(request, obj)]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Login | None = None) -> Sequence[Any]:
        """Return the facts of a company's login: a changed address would be a way to its password."""
        if obj is None or obj.is_staff:
            return super().get_readonly_fields(request, obj)
        return [self._exact(name) for name in FACTS]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whether the user may make logins, which are staff's: superusers alone."""
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Login | None = None) -> bool:
        """Whether the user may change `obj`: a login of staff takes a superuser."""
        if obj is not None and obj.is_staff:
            return bool(request.user.is_superuser)
        return super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Login | None = None) -> bool:
        """Whether the user may delete `obj`: a superuser, and only a login of staff."""
        return bool(request.user.is_superuser) and (obj is None or obj.is_staff)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Set the password of a login of staff. Raises PermissionDenied for any other, and for all but superusers."""
        login = self.get_object(request, id)
        if login is None or not login.is_staff or not request.user.is_superuser:
            raise PermissionDenied
        return super().user_change_password(request, id, form_url)

    def save_model(self, request: HttpRequest, obj: Login, form: forms.ModelForm, change: bool) -> None:
        """Store what was changed. A new login is staff's: people of companies get theirs by an invitation."""
        if not change:
            obj.is_staff = True
            obj.save(force_insert=True)
        elif form.changed_data:
            own = {field.name for field in Login._meta.concrete_fields}
            obj.save(update_fields=[name for name in form.changed_data if name in own])
