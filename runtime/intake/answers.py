"""What the door answers (SPEC section 2): one value for both edges, with the headers that everything here carries.

Invariant: no answer repeats the token, and no success answer repeats anything of the request.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from csbot.lib import json
from csbot.lib.errors import RequestRefused
from csbot.lib.problems import PROBLEM_TYPE, problem_document

ALLOWED = "GET, HEAD, OPTIONS, POST"
# Nothing under /webhook may run as a page on our origin, nor be guessed to be one (SPEC section 2.5).
SANDBOX = "sandbox; default-src 'none'"
# A sender may come back as soon as a restart of the database takes.
RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; `policy` is its Content-Security-Policy, `headers` come beside those of every answer."""

    status: int
    body: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] | None = None
    policy: str = SANDBOX

    def all_headers(self) -> list[tuple[str, str]]:
        """Return every header of the answer; Content-Length is the server's to write, but for HEAD."""
        fixed = [
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", self.policy),
        ]
        if self.content_type is not None:
            fixed.append(("Content-Type", self.content_type))
        return [*fixed, *self.headers.items()] if self.headers else fixed


def accepted(trigger: Mapping[str, Any], run_id: uuid.UUID | None, *, is_duplicate: bool = False) -> Answer:
    """Return the success: 202 with the run's id (None for a parked delivery), or what the trigger's `answer` says."""
    told = trigger.get("answer") or {}
    status = int(told.get("status", 202))
    if status == 204:
        return Answer(status)
    if "body" in told:
        return Answer(status, told["body"].encode(), _typed(told.get("contentType", "text/plain")))
    document = {
        "status": "accepted",
        "runId": str(run_id) if run_id is not None else None,
        "duplicate": is_duplicate,
    }
    content_type = _typed(told.get("contentType", "application/json"))
    return Answer(status, json.dumps(document).encode(), content_type)


def refused(refusal: RequestRefused) -> Answer:
    """Return a refusal as problem+json (RFC 9457); `instance` is null, since the path holds the token."""
    document = problem_document(
        refusal.status, refusal.code, refusal.message, errors=refusal.errors, extra=refusal.extra
    )
    return Answer(refusal.status, json.dumps(document).encode(), PROBLEM_TYPE, refusal.headers)


def without_body(answer: Answer) -> Answer:
    """Return the answer to HEAD where `answer` is the one to GET: its headers, and the length that its body has."""
    length = {"Content-Length": str(len(answer.body))}
    return replace(answer, body=b"", headers={**(answer.headers or {}), **length})


def unknown() -> RequestRefused:
    """Return the one 404 for unknown, revoked, not published and suspended."""
    return RequestRefused("webhook.unknown", "There is no such webhook.", status=404)


def unavailable() -> RequestRefused:
    """Return the 503: nothing of the event was taken over, as far as anybody may rely on it."""
    return RequestRefused(
        "storage.unavailable",
        "The event cannot be taken over now; please send it again.",
        status=503,
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


def not_allowed() -> RequestRefused:
    """Return the 405 with the methods that a webhook knows."""
    return RequestRefused("method", f"A webhook knows {ALLOWED}.", status=405, headers={"Allow": ALLOWED})


def too_many(wait_seconds: int) -> RequestRefused:
    """Return the 429 with the whole seconds after which there is room again."""
    return RequestRefused(
        "rate",
        "This webhook was sent more than its rate allows.",
        status=429,
        headers={"Retry-After": str(max(1, wait_seconds))},
    )


def _typed(content_type: str) -> str:
    return f"{content_type}; charset=utf-8" if content_type.startswith("text/") else content_type
