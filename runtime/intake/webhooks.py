"""The door: POST and GET /webhook/<token> (SPEC section 2), below two thin edges, Django's and bare WSGI's.

The web process comes in by `serve`, past every middleware: nothing here has a session, a language of the portal's or a
form to protect. The token is in no log line, no metric and no answer but the help for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from automations import services as automations
from automations.services import WebhookTarget
from automations.tokens import digest_of
from csbot.lib import metrics
from csbot.lib.errors import RequestRefused
from runtime.intake import answers, demands, help, rate, taking
from runtime.intake.answers import Answer
from runtime.intake.arrival import Arrival
from runtime.intake.database import Patience, Unavailable
from runtime.intake.offer import Offer

PREFIX = "/webhook/"
buckets = rate.Buckets()


def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a WSGI request whose path is /webhook or below it."""
    token = environ["PATH_INFO"].removeprefix(PREFIX)
    answer = respond(Arrival(environ, environ["wsgi.input"]), token)
    start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", answer.all_headers())
    return [answer.body]


@csrf_exempt
def receive(request: HttpRequest, token: str) -> HttpResponse:
    """Answer a request that came through Django's URLs."""
    answer = respond(Arrival(request.META, request.META.get("wsgi.input") or request), token)
    response = HttpResponse(answer.body, status=answer.status)
    # Django gives every answer a type and logs refused ones with their path, in which the token is.
    del response["Content-Type"]
    response._has_been_logged = True
    for name, value in answer.all_headers():
        response[name] = value
    return response


def respond(arrival: Arrival, token: str) -> Answer:
    """Return the answer to a request for the webhook with this token."""
    began = time.perf_counter()
    try:
        answer = _METHODS.get(arrival.method, _not_allowed)(arrival, token)
    except RequestRefused as refusal:
        answer = answers.refused(refusal)
    except Unavailable:
        answer = answers.refused(answers.unavailable())
    if arrival.method == "HEAD":
        answer = answers.without_body(answer)
    metrics.ingest_requests.labels(code=str(answer.status)).inc()
    metrics.ingest_seconds.observe(time.perf_counter() - began)
    return answer


def _post(arrival: Arrival, token: str) -> Answer:
    """Take an event in; the checks and their order are those of SPEC section 2."""
    patience = Patience()
    target = _target(token, patience)
    wait_seconds = buckets.take(digest_of(token), rate.rate_of(target.trigger, settings.CSBOT_WEBHOOK_RATE))
    if wait_seconds:
        raise answers.too_many(wait_seconds)
    raw = arrival.read_body(settings.CSBOT_MAX_BODY)
    if demands.is_ping(arrival, target, raw):
        return Answer(200)
    demands.check_signature(arrival, target, raw)
    offer = Offer(target, raw, arrival.content_type, arrival.kept_headers())
    taken = taking.take(offer, arrival, patience)
    return answers.accepted(target.trigger, taken.run_id, is_duplicate=taken.is_duplicate)


def _get(arrival: Arrival, token: str) -> Answer:
    return help.answer(arrival, _target(token, Patience()), token)


def _options(arrival: Arrival, token: str) -> Answer:
    _target(token, Patience())
    return Answer(200, headers={"Allow": answers.ALLOWED})


def _not_allowed(arrival: Arrival, token: str) -> Answer:
    raise answers.not_allowed()


_METHODS = {"POST": _post, "GET": _get, "HEAD": _get, "OPTIONS": _options}


def _target(token: str, patience: Patience) -> WebhookTarget:
    target = patience.read(lambda: automations.webhook_of(token))
    if target is None:
        raise answers.unknown()
    return target
