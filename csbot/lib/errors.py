"""The five errors of csbot and what each means for the run that meets it.

An outcome is classified once, at the edge that knows it; whether to repeat is decided in
`runtime.execution.retry` alone. Only what says of itself that it may pass is repeated.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any


class RunError(Exception):
    """Base of the three ways a step can fail. Not retryable.

    `code` is one of the codes of SPEC section 13 (`http.404`, `net.dns`, `input.invalid`, …); `detail` is a
    sentence that says what was expected and what came, without secrets; `trace` is for staff only.
    """

    retryable = False

    def __init__(self, code: str, detail: str, *, trace: dict[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.trace = trace or {}


class RetryableError(RunError):
    """May pass by itself: the attempt counts and the run waits for its backoff.

    `retry_after` is what the service itself asked for, in seconds from now; it wins when it is longer than
    the backoff.
    """

    retryable = True

    def __init__(
        self, code: str, detail: str, *, retry_after: float | None = None, trace: dict[str, Any] | None = None
    ) -> None:
        super().__init__(code, detail, trace=trace)
        self.retry_after = retry_after


class TerminalError(RunError):
    """Repeating cannot help: the run fails at once with an incident."""


class UncertainError(RunError):
    """The call was sent, its outcome is unknown and it may not be repeated: the run goes to review."""


class Snooze(Exception):
    """The run has to wait for something of ours or for a limit of the service; no attempt is used up.

    `until` is an aware UTC datetime or None when only an event can tell; `seconds` may be given instead and
    is counted on the database's clock. `reason` is a word of SPEC section 5.9 (`rate`, `wait`, `order`, …).
    """

    def __init__(self, reason: str, *, until: datetime | None = None, seconds: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.until = until
        self.seconds = seconds


class RequestRefused(Exception):
    """A caller asked for something that cannot be done; one handler makes problem+json of it (RFC 9457).

    `status` is the HTTP status; `code` a stable word; `message` a sentence for the caller; `errors` a list of
    `{"pointer": "/steps/0/op", "message": "…"}`; `extra` goes into the document as it is; `headers` into the answer.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 400,
        errors: list[dict[str, Any]] | None = None,
        extra: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.errors = errors or []
        self.extra = extra or {}
        self.headers = headers or {}
