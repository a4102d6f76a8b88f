"""What people and programs do with runs: start, retry, rerun, cancel, decide (SPEC sections 5.5 and 5.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef
from pydantic import ValidationError

from automations import contract
from automations.models import Automation
from connectors import catalog
from csbot.lib import json, metrics
from csbot.lib.errors import RequestRefused
from csbot.lib.values import escape
from incidents.models import Incident
from runtime import outcomes
from runtime.execution import calls
from runtime.execution.journal import State
from runtime.models import Run, RunData, RunLog, RunStep
from runtime.queue import states
from runtime.queue.states import Enqueued
from runtime.triggers import ordering
from tickets.events import Actor

OUTSIDE = {
    Run.Status.READY: "queued",
    Run.Status.SCHEDULED: "queued",
    Run.Status.BLOCKED: "queued",
    Run.Status.RUNNING: "running",
    Run.Status.DONE: "done",
    Run.Status.FAILED: "failed",
    Run.Status.CANCELLED: "cancelled",
    Run.Status.UNCERTAIN: "review",
}
"""The state as the API, the portal and the docs call it."""
# Runs that are about a ticket from the beginning; others find or make theirs.
KEEPS_TICKET = (Run.Trigger.TICKET, Run.Trigger.CALL, Run.Trigger.SEND)
ONE_POLL = "Another poll of this automation is queued or running; wait for its end."
# What one call starts of an incident; the caller is told how many are left.
MOST_RERUNS = 1000
RERUNS_PER_SECOND = 20


def status_of(run: Run) -> str:
    """Return the run's state in the words of SPEC section 5."""
    return OUTSIDE[Run.Status(run.status)]


def start(automation: Automation, actor: Actor, body: Any) -> Enqueued:
    """Start a published automation by hand over `body`.

    Raises RequestRefused 409 for one that is not active, 400 with `missing` and `invalid` as a webhook does.
    """
    version = automation.published
    if version is None or automation.state != Automation.State.ACTIVE:
        raise RequestRefused(
            "automation.notActive",
            "Only an active automation can be started; publish or resume it.",
            status=409,
        )
    trigger = version.tree["trigger"]
    values = contract.extract(
        contract.parse_params(trigger.get("params") or []), body, zone=ZoneInfo(automation.tenant.timezone)
    )
    if isinstance(values, contract.Refusal):
        raise RequestRefused(
            "contract",
            "The body does not fit the parameters of this automation.",
            extra={"missing": values.missing, "invalid": values.invalid},
        )
    given = {"body": body, "headers": {}, "params": values.values}
    with transaction.atomic():
        run = states.enqueue(
            tenant_id=automation.tenant_id,
            automation_id=automation.pk,
            version_id=version.pk,
            trigger=Run.Trigger.MANUAL,
            priority=trigger.get("priority", 5),
            input_json=json.dumps(given),
            line=ordering.line_of(trigger, automation.pk, given),
        )
        assert run is not None
        note(automation.tenant_id, run.run_id, "run.started", actor=actor.name)
        for code, params in values.notes:
            note(automation.tenant_id, run.run_id, code, level="warning", **params)
    return run


def retry(run: Run, actor: Actor) -> Run:
    """Go on after the last finished step, attempts beginning at 0 again. Raises RequestRefused 409 unless failed."""
    _refuse_stripped(run)
    with transaction.atomic():
        if not _requeued(run, states.requeue_failed):
            raise _conflict(run, "Only a failed run can be retried")
        note(run.tenant_id, run.pk, "run.retried", actor=actor.name)
    return _again(run)


def rerun(run: Run, actor: Actor, *, on_newest: bool = False, delay_seconds: float = 0.0) -> Enqueued:
    """Start from the beginning as a new run with the same input, on its own version or on the newest published one.

    Raises RequestRefused 409 when the newest is asked for and nothing is published, and for a poll while another one
    of the same automation is queued or running.
    """
    _refuse_stripped(run)
    data = RunData.objects.of(run.tenant_id).get(run=run)
    version_id = run.automation.published_id if on_newest else run.version_id
    if version_id is None:
        raise RequestRefused("automation.notActive", "The automation has no published version.", status=409)
    # The rerun of a rerun is one of the first run: it takes that one's place and makes that one's failure good.
    first = run.rerun_of or run
    with transaction.atomic():
        again = states.enqueue(
            tenant_id=run.tenant_id,
            automation_id=run.automation_id,
            version_id=version_id,
            trigger=run.trigger,
            ticket_id=run.ticket_id if run.trigger in KEEPS_TICKET else None,
            priority=run.priority,
            dedup_key=run.dedup_key,
            input_json=json.dumps(data.input),
            rerun_of=first,
            line=ordering.line_of_rerun(run),
            delay_seconds=delay_seconds,
            raw=bytes(data.raw) if data.raw is not None else None,
            content_type=data.content_type,
        )
        if again is None:
            raise RequestRefused("run.twice", ONE_POLL, status=409)
        note(run.tenant_id, again.run_id, "run.rerun", actor=actor.name, run=str(run.public_id))
    return again


def rerun_incident(incident: Incident, actor: Actor) -> tuple[list[Enqueued], int]:
    """Start the failed runs of an incident again, a few in a second; return the new runs and how many are left.

    Each event once: a run whose rerun is done or under way is left alone.
    """
    reruns = Run.objects.filter(rerun_of=OuterRef("pk")).exclude(
        status__in=[Run.Status.FAILED, Run.Status.CANCELLED]
    )
    failed = (
        Run.objects.of(incident.tenant_id)
        .filter(incident=incident, status=Run.Status.FAILED, rerun_of=None, stripped_at=None)
        .exclude(Exists(reruns))
        .select_related("automation")
        .order_by("id")
    )
    started = []
    for index, run in enumerate(failed[:MOST_RERUNS]):
        started.append(rerun(run, actor, delay_seconds=index / RERUNS_PER_SECOND))
    return started, failed.count()


def cancel(run: Run, actor: Actor) -> Run:
    """Cancel at once what is queued or in review; ask a running run to stop at its next step.

    Raises RequestRefused 409 with its state for one that has ended.
    """
    with transaction.atomic():
        # A run may change from running to queued between the two looks, so the first one is taken again.
        for draw, code in (
            (states.cancel, "run.cancelled"),
            (states.request_cancel, "run.cancelRequested"),
            (states.cancel, "run.cancelled"),
        ):
            if draw(run):
                if draw is states.cancel:
                    calls.cancel_callees(run)
                    outcomes.note_end(run)
                    metrics.runs_ended.labels("cancelled").inc()
                note(run.tenant_id, run.pk, code, actor=actor.name)
                return _again(run)
    raise _conflict(run, "Only a run that has not ended can be cancelled")


def resolve(run: Run, actor: Actor, decision: str, outputs: dict[str, Any] | None = None) -> Run:
    """Let a person decide about a run in review: `happened` (with outputs), `again` or `giveUp` (SPEC section 5.5).

    Raises RequestRefused 409 when it is not in review, 400 for outputs that the step's operation cannot have.
    """
    with transaction.atomic():
        moved = states.give_up(run) if decision == "giveUp" else _requeued(run, states.requeue_reviewed)
        if not moved:
            raise _conflict(run, "Only a run in review can be resolved")
        unknown = RunStep.objects.of(run.tenant_id).filter(run=run, state=State.UNKNOWN)
        if decision == "happened":
            for op in unknown.values_list("op", flat=True).distinct():
                _check_outputs(op, outputs or {})
            unknown.update(state=State.DONE, output=outputs or {})
        elif decision == "again":
            # A failed step is executed at the next attempt; after `giveUp` it stays unknown, so that a later retry
            # asks again instead of sending.
            unknown.update(state=State.FAILED)
        if decision == "giveUp":
            outcomes.note_end(run)
            metrics.runs_ended.labels("failed").inc()
        note(run.tenant_id, run.pk, f"run.resolved.{decision}", actor=actor.name)
    return _again(run)


def _check_outputs(op: str, outputs: dict[str, Any]) -> None:
    """Raise RequestRefused 400 for a key that operation `op` has not among its outputs, or a value of another type.

    Not all have to be given. An operation that is gone from the catalogue can refuse nothing.
    """
    operation = catalog.find(op)
    if operation is None:
        return
    try:
        # Strict as JSON: a text is no number, but is an instant where one is declared.
        operation.outputs.model_validate_json(json.dumps(outputs), strict=True)
    except ValidationError as error:
        there_are = ", ".join(operation.outputs.model_fields) or "none"
        faults: dict[str, dict[str, str]] = {}
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            key, *inner = (str(part) for part in fault["loc"] or ("",))
            if fault["type"] == "missing" and not inner:
                continue
            told = ".".join(inner) + ": " + fault["msg"] if inner else fault["msg"]
            if fault["type"] == "extra_forbidden" and not inner:
                told = f"{op} has no output `{key}`; it has {there_are}."
            pointer = f"/outputs/{escape(key)}" if key else "/outputs"
            faults.setdefault(pointer, {"pointer": pointer, "message": told})
        if faults:
            message = "Some outputs cannot be taken."
            raise RequestRefused("invalid", message, errors=list(faults.values())) from error


def note(tenant_id: int, run_id: int, code: str, *, level: str = "info", **params: Any) -> None:
    """Write a line into a run's log; its text comes from `runtime.messages` in the reader's language."""
    RunLog.objects.create(tenant_id=tenant_id, run_id=run_id, code=code, level=level, params=params)


def _refuse_stripped(run: Run) -> None:
    """Raise RequestRefused 409 for a run whose input retention has taken: there is nothing to start it with."""
    if run.stripped_at is not None:
        message = "The input of this run is not kept any more; start the automation anew."
        raise RequestRefused("run.stripped", message, status=409, extra={"runStatus": status_of(run)})


def _requeued(run: Run, draw: Callable[[Run], bool]) -> bool:
    """Draw an arrow back into the queue. Raises RequestRefused 409 for a poll while a later one lives."""
    try:
        with transaction.atomic():
            return draw(run)
    except IntegrityError as error:
        raise RequestRefused("run.twice", ONE_POLL, status=409) from error


def _conflict(run: Run, message: str) -> RequestRefused:
    status = status_of(_again(run))
    return RequestRefused(
        "run.state", f"{message}; this one is {status}.", status=409, extra={"runStatus": status}
    )


def _again(run: Run) -> Run:
    return (
        Run.objects.of(run.tenant_id)
        .select_related("automation", "version", "ticket", "caused_by", "rerun_of")
        .get(pk=run.pk)
    )
