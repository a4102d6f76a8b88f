"""From a request to its tenant, its actor and its rights: the one door of every view under /api.

After authentication and before the view each request has `tenant`, `actor`, `role`, `language`, `person` and
`token`. REST framework loads these classes while it defines its views, so this module imports no view.
"""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.utils import translation
from django.utils.translation import trans_real
from rest_framework import authentication, exceptions, permissions
from rest_framework.request import Request

from csbot.lib.errors import RequestRefused
from tickets import audit as audit_log
from tickets import tokens
from tickets.events import Actor
from tickets.models import ApiToken, Person, Tenant
from tickets.rights import RIGHTS, has_right

__all__ = ["RIGHTS", "PortalSession", "TenantPermission", "TokenAuthentication", "audit", "enter"]


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer csb_…` of a program."""

    def authenticate(self, request: Request) -> tuple[None, ApiToken] | None:
        """Return the token, or None when no Bearer was sent. Raises AuthenticationFailed for a bad one."""
        scheme, _, written = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = tokens.find(written.strip())
        if token is None:
            raise exceptions.AuthenticationFailed("The token is unknown, revoked or expired.")
        tokens.note_use(token)
        return None, token

    def authenticate_header(self, request: Request) -> str:
        """Return what `WWW-Authenticate` says with a 401."""
        return 'Bearer realm="csbot"'


class PortalSession(authentication.SessionAuthentication):
    """The session of the portal; writing needs the CSRF token."""

    def enforce_csrf(self, request: Request) -> None:
        """Raise RequestRefused 403 when the CSRF token is missing or wrong."""
        try:
            super().enforce_csrf(request)
        except exceptions.PermissionDenied as error:
            raise RequestRefused("csrf", "The CSRF token is missing or wrong.", status=403) from error


class TenantPermission(permissions.BasePermission):
    """Finds the tenant, sets what every view relies on, and asks RIGHTS."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether the caller's role may do this. Raises what `enter` raises."""
        if request.successful_authenticator is None:
            return False
        if view.action is None:
            raise exceptions.MethodNotAllowed(request.method)
        enter(request, needs_tenant=getattr(view, "needs_tenant", True))
        return has_right(request.role, view.resource, view.action, request.method)


def enter(request: Request, *, needs_tenant: bool) -> None:
    """Set tenant, actor, role, language, person and token of an authenticated request.

    Raises RequestRefused 400 `tenant.missing`, 403 `tenant.suspended` or `tenant.none`, and Http404 for a
    tenant that is not the caller's (SPEC section 13).
    """
    asked = request.headers.get("X-Tenant") or None
    request.token = request.auth if isinstance(request.auth, ApiToken) else None
    request.person = None
    if request.token is not None:
        _enter_by_token(request, request.token, asked)
    elif request.user.is_staff:
        name = request.user.get_full_name() or request.user.get_username()
        _enter_as_staff(request, Actor("person", name), asked)
    else:
        _enter_as_person(request, asked)
    if request.tenant is not None and request.tenant.suspended_at is not None and request.role != "staff":
        raise RequestRefused("tenant.suspended", "This tenant is suspended.", status=403)
    if request.tenant is None and needs_tenant:
        raise RequestRefused("tenant.missing", "Name the tenant with the header X-Tenant.")
    request.language = _language_of(request)
    translation.activate(request.language)


def _enter_by_token(request: Request, token: ApiToken, asked: str | None) -> None:
    actor = Actor("token", token.name)
    if token.tenant is None:
        _enter_as_staff(request, actor, asked)
        return
    if asked is not None and asked != token.tenant.slug:
        raise Http404
    request.tenant, request.actor, request.role = token.tenant, actor, token.role


def _enter_as_staff(request: Request, actor: Actor, asked: str | None) -> None:
    request.actor, request.role = actor, "staff"
    request.tenant = None if asked is None else _tenant_of(Tenant.objects.filter(slug=asked))


def _enter_as_person(request: Request, asked: str | None) -> None:
    people = list(Person.objects.filter(login=request.user).select_related("tenant").order_by("pk"))
    if asked is not None:
        people = [person for person in people if person.tenant.slug == asked]
        if not people:
            raise Http404
    if len(people) == 1:
        person = request.person = people[0]
        request.tenant, request.role = person.tenant, person.role
        request.actor = Actor("person", person.name)
        return
    request.tenant = None
    # A login of several tenants that names none has no role in any; it may only ask who it is.
    request.role = "viewer"
    request.actor = Actor("person", request.user.get_full_name() or request.user.get_username())
    if not people and getattr(request.parser_context["view"], "needs_tenant", True):
        raise RequestRefused("tenant.none", "You belong to no tenant.", status=403)


def _tenant_of(matching: QuerySet[Tenant]) -> Tenant:
    tenant = matching.first()
    if tenant is None:
        raise Http404
    return tenant


def _language_of(request: Request) -> str:
    for accepted, _quality in trans_real.parse_accept_lang_header(request.headers.get("Accept-Language", "")):
        language = accepted.split("-")[0]
        if language in {"cs", "en"}:
            return language
    return request.tenant.language if request.tenant is not None else "en"


def audit(request: Request, action: str, obj_label: str, before: Any, after: Any) -> None:
    """Write an audit entry of the request's tenant and actor; secrets are masked by the caller."""
    audit_log.record(request.tenant, request.actor, action, obj_label, before, after)
