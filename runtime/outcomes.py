"""What follows from the outcome of a run: its error, its incident, and who was waiting for its end."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from csbot.lib.errors import RunError, UncertainError
from incidents import services as incidents
from incidents.models import Incident
from runtime.execution.journal import Place
from runtime.models import Run, RunLog, RunStep
from runtime.queue import states
from tickets import services as tickets
from tickets.events import Actor

# What has to be loaded with a run to tell people about it.
TOLD = ("tenant", "automation", "version", "ticket", "data", "incident", "rerun_of__incident")
# The code of an incident that a step of the tree opened.
OPENED_BY_STEP = "incident.created"


def record_of(error: RunError, place: Place | None, *, is_retried: bool) -> dict[str, Any]:
    """Return the `error` object of a run (SPEC section 13). `retryable` says whether csbot repeats it by itself."""
    return {
        "code": error.code,
        "message": error.detail,
        "stepId": place.step_id if place else None,
        "retryable": is_retried,
    }


def found_incident(run: Run, error: RunError, place: Place | None) -> Incident:
    """Open the incident of a run that failed or went to review, or count it onto the one that is open.

    The cause is tenant, automation, step and kind of error (SPEC section 9). Call it in the transaction that writes
    the run's state.
    """
    step_id = place.step_id if place else ""
    is_uncertain = isinstance(error, UncertainError)
    _log(run, error, "review" if is_uncertain else "failed")
    connection = place.connection if place else None
    return incidents.open_incident(
        run.tenant,
        cause=f"{run.automation.public_id}/{step_id}/{error.code}",
        code=error.code,
        params={
            "ticket": run.ticket.key if run.ticket else None,
            "automation": run.automation.name,
            "uncertain": is_uncertain,
            "connection": connection.name if connection else None,
            "message": error.detail if error.code == "flow.fail" else None,
        },
        detail=_detail(run, error, place),
        ticket=run.ticket,
        connection=connection,
        automation={"id": str(run.automation.public_id), "name": run.automation.name},
    )


def _log(run: Run, error: RunError, outcome: str) -> None:
    """Tell in the run's log and in its ticket's that the run did not come to its end."""
    params = {"code": error.code, "message": error.detail}
    RunLog.objects.create(tenant=run.tenant, run=run, level="error", code=f"run.{outcome}", params=params)
    if run.ticket is not None:
        actor = Actor("automation", run.automation.name, run.public_id)
        params = {"automation": run.automation.name, "message": error.detail}
        tickets.log(run.ticket, "automation", actor, f"automation.{outcome}", params)


def note_passed(run: Run) -> None:
    """Resolve the incident of a run that has passed, when every run of it has, itself or by a rerun (SPEC section 9).

    An incident that the automation opened itself (`incident/create`) is nobody's failure and stays.
    """
    first = run.rerun_of or run
    incident = first.incident
    if incident is None or incident.code == OPENED_BY_STEP:
        return
    runs = Run.objects.of(run.tenant)
    passed = runs.filter(status=Run.Status.DONE, rerun_of__incident=incident).values("rerun_of")
    not_passed = (
        runs.filter(incident=incident)
        .exclude(status__in=[Run.Status.DONE, Run.Status.CANCELLED])
        .exclude(pk__in=passed)
        .exclude(rerun_of__in=passed)
    )
    incidents.resolve_if_passed(incident.pk, lambda: not not_passed.exists())


def note_end(run: Run) -> None:
    """Let those who waited for the end of this run go on, once the end is committed: its caller and its line.

    After the commit, so that either the caller's own look sees the end or this statement finds the caller blocked.
    """
    if run.trigger == Run.Trigger.CALL and run.caused_by_id is not None:
        caller = run.caused_by_id
        transaction.on_commit(lambda: states.unblock_caller(caller))
    states.call_line(run.order_key)


def _detail(run: Run, error: RunError, place: Place | None) -> dict[str, Any]:
    steps = RunStep.objects.of(run.tenant).filter(run=run).order_by("seq")
    return {
        "automation": {
            "id": str(run.automation.public_id),
            "name": run.automation.name,
            "version": run.version.number,
        },
        "run": str(run.public_id),
        "attempts": run.attempts,
        "step": {"id": place.step_id, "path": place.path, "op": place.op} if place else None,
        "code": error.code,
        "message": error.detail,
        "trace": error.trace,
        "steps": [
            {"path": path, "op": op, "status": state, "message": message}
            for path, op, state, message in steps.values_list("path", "op", "state", "message")[:1000]
        ],
        "input": run.data.input,
    }
