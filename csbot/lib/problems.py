"""Every refusal of the REST surface as problem+json (RFC 9457), also those that Django makes under /api."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.views import defaults
from django.views.csrf import csrf_failure as csrf_page
from rest_framework import exceptions
from rest_framework.response import Response

from csbot.lib.errors import RequestRefused
from csbot.lib.json import dumps
from csbot.lib.values import escape, plain

log = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"


def problem_document(
    status: int,
    code: str,
    detail: str,
    *,
    instance: str | None = None,
    errors: list[dict[str, Any]] | None = None,
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the document of RFC 9457; `errors` are `{"pointer", "message"}`, `extra` comes as it is."""
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "instance": instance,
        "errors": errors or [],
        **(extra or {}),
    }


def problem_response(status: int, code: str, detail: str, **parts: Any) -> HttpResponse:
    """Return a problem document as an answer of a view outside REST framework; `parts` as above."""
    document = dumps(plain(problem_document(status, code, detail, **parts)))
    return HttpResponse(document, status=status, content_type=PROBLEM_TYPE)


def problem_of(exc: Exception, context: dict[str, Any]) -> Response | None:
    """Return the problem+json answer for `exc`, or None for our own fault (handler500 answers then)."""
    request = context.get("request")
    refused = _as_refusal(exc)
    if refused is None:
        return None
    document = problem_document(
        refused.status,
        refused.code,
        refused.message,
        instance=request.path if request is not None else None,
        errors=refused.errors,
        extra=refused.extra,
    )
    return Response(document, status=refused.status, headers=refused.headers, content_type=PROBLEM_TYPE)


def _as_refusal(exc: Exception) -> RequestRefused | None:
    if isinstance(exc, RequestRefused):
        return exc
    if isinstance(exc, Http404):
        return RequestRefused("not_found", "There is no such thing here.", status=404)
    if isinstance(exc, PermissionDenied):
        return RequestRefused("forbidden", "You may not do this.", status=403)
    if isinstance(exc, RequestDataTooBig):
        return RequestRefused("body.size", "The body is too large.", status=413)
    if isinstance(exc, OperationalError | InterfaceError):
        log.error("The database refused a request.", exc_info=exc)
        message = "The database cannot answer now; please repeat the request."
        return RequestRefused("storage.unavailable", message, status=503, headers={"Retry-After": "1"})
    if isinstance(exc, exceptions.APIException):
        return _refusal_of_framework(exc)
    return None


def _refusal_of_framework(exc: exceptions.APIException) -> RequestRefused:
    headers = {}
    if getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = exc.auth_header
    if getattr(exc, "wait", None) is not None:
        headers["Retry-After"] = str(max(1, int(exc.wait)))
    if isinstance(exc, exceptions.ValidationError):
        faults = list(_faults(exc.detail))
        return RequestRefused("invalid", summary(faults), errors=faults)
    code = exc.get_codes()
    return RequestRefused(
        code if isinstance(code, str) else exc.default_code,
        str(exc.detail),
        status=exc.status_code,
        headers=headers,
    )


def _faults(detail: Any, pointer: str = "") -> Iterator[dict[str, str]]:
    """Yield `{"pointer", "message"}` for each leaf of a ValidationError's detail."""
    if isinstance(detail, dict):
        for key, value in detail.items():
            is_whole = key == "non_field_errors"
            yield from _faults(value, pointer if is_whole else f"{pointer}/{escape(str(key))}")
    elif isinstance(detail, list):
        for index, item in enumerate(detail):
            if isinstance(item, dict | list):
                yield from _faults(item, f"{pointer}/{index}")
            else:
                yield {"pointer": pointer, "message": str(item)}
    else:
        yield {"pointer": pointer, "message": str(detail)}


def summary(faults: list[dict[str, str]]) -> str:
    """Return one sentence that names the first three faults and how many there are."""
    named = "; ".join(f"{fault['pointer'] or 'body'}: {fault['message']}" for fault in faults[:3])
    return named if len(faults) <= 3 else f"{named}; and {len(faults) - 3} more"


def is_api(request: HttpRequest) -> bool:
    """Whether `request` is answered with problem+json also by Django's own handlers."""
    return request.path == "/api" or request.path.startswith("/api/")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler400."""
    if not is_api(request):
        return defaults.bad_request(request, exception)
    refused = _as_refusal(exception) or RequestRefused("bad_request", "The request cannot be read.")
    return problem_response(refused.status, refused.code, refused.message, instance=request.path)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler403."""
    if not is_api(request):
        return defaults.permission_denied(request, exception)
    return problem_response(403, "forbidden", "You may not do this.", instance=request.path)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler404."""
    if not is_api(request):
        return defaults.page_not_found(request, exception)
    return problem_response(404, "not_found", "There is no such thing here.", instance=request.path)


def server_error(request: HttpRequest) -> HttpResponse:
    """handler500."""
    if not is_api(request):
        return defaults.server_error(request)
    return problem_response(500, "bug", "This is our fault; it has been written down.", instance=request.path)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """CSRF_FAILURE_VIEW: problem+json under /api, Django's page elsewhere."""
    if not is_api(request):
        return csrf_page(request, reason=reason)
    return problem_response(403, "csrf", "The CSRF token is missing or wrong.", instance=request.path)
