"""`Idempotency-Key`: a repeated POST is answered with the first answer (SPEC section 13).

The effect and its answer commit together, so a repeat after a crash finds both or neither. A refusal has
changed nothing and is not kept: a mended body may come with the same key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now
from rest_framework.request import Request
from rest_framework.response import Response

from csbot.lib.api import SecretResponse, plain
from csbot.lib.errors import RequestRefused
from csbot.lib.json import dumps, loads
from tickets.models import IdempotentAnswer

KEPT = timedelta(hours=24)
# Each answer that is kept clears more than one, so old ones never pile up.
FORGOTTEN_AT_ONCE = 20
# Headers that belong to the answer itself; the rest is made anew with each answer.
KEPT_HEADERS = ("ETag", "Location")


def answer(request: Request, handle: Callable[[], Response], *, in_transaction: bool = True) -> Response:
    """Return the kept answer for the request's key, or what `handle` answers, which is then kept.

    `in_transaction=False` is for a handler that calls foreign services: there the answer is kept after the
    effect. Raises RequestRefused 400 for a bad key, 409 while the first is running, 422 for another body.
    """
    identity = _identity(request)
    body = hashlib.sha256(request.body).digest()
    with _alone(identity):
        kept = IdempotentAnswer.objects.filter(identity=identity, created_at__gt=Now() - KEPT).first()
        if kept is not None:
            return _repeated(kept, body)
        if not in_transaction:
            response = handle()
            with transaction.atomic():
                _keep(request, identity, body, response)
            return response
        with transaction.atomic():
            response = handle()
            if response.status_code >= 400:
                transaction.set_rollback(True)
            _keep(request, identity, body, response)
        return response


def _identity(request: Request) -> bytes:
    """Return the digest of tenant, caller, method, path and key. Raises RequestRefused 400."""
    key = request.headers["Idempotency-Key"]
    if not re.fullmatch(r"[\x21-\x7e]{1,255}", key):
        message = "Expected 1 to 255 visible ASCII characters."
        raise RequestRefused("idempotencyKey.invalid", f"Idempotency-Key: {message}")
    tenant = request.tenant.pk if request.tenant is not None else 0
    caller = f"token {request.token.pk}" if request.token is not None else f"login {request.user.pk}"
    parts = [str(tenant), caller, request.method or "", request.path.rstrip("/"), key]
    return hashlib.sha256("\n".join(parts).encode()).digest()


@contextmanager
def _alone(identity: bytes) -> Iterator[None]:
    """Hold the lock of this key; it falls with the connection. Raises RequestRefused 409 while it is held."""
    number = int.from_bytes(identity[:8], signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [number])
        is_mine = cursor.fetchone()[0]
    if not is_mine:
        message = "The first request with this Idempotency-Key is still running."
        raise RequestRefused("idempotencyKey.running", message, status=409, headers={"Retry-After": "1"})
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [number])


def _repeated(kept: IdempotentAnswer, body: bytes) -> Response:
    if bytes(kept.body_digest) != body:
        message = "This Idempotency-Key came before with another body."
        raise RequestRefused("idempotencyKey.otherBody", message, status=422)
    data = None if kept.answer is None else loads(kept.answer)
    return Response(data, status=kept.status, headers=kept.headers)


def _keep(request: Request, identity: bytes, body: bytes, response: Response) -> None:
    if response.status_code >= 400:
        return
    data: Any = response.without_secrets() if isinstance(response, SecretResponse) else response.data
    forget_old()
    values = {
        "tenant": request.tenant,
        "body_digest": body,
        "status": response.status_code,
        "headers": {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers},
        "answer": None if data is None else dumps(plain(data)),
        "created_at": Now(),
    }
    IdempotentAnswer.objects.update_or_create(identity=identity, defaults=values)


def forget_old() -> int:
    """Delete some answers older than 24 hours and return how many; never waits for who deletes others."""
    old = IdempotentAnswer.objects.filter(created_at__lte=Now() - KEPT).order_by("pk")
    chosen = list(old.select_for_update(skip_locked=True).values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])
    deleted, _ = IdempotentAnswer.objects.filter(pk__in=chosen).delete()
    return int(deleted)
