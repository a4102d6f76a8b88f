"""Runs that a step starts itself: another automation (`flow/call`), and sends whose answer nobody needs.

A caller that waits gives its slot back: it is blocked until its callee has ended, and goes on from its step row.
"""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from automations import contract, paths
from automations.models import Automation
from csbot.lib import json
from csbot.lib.errors import TerminalError
from runtime import outcomes
from runtime.models import Run, RunStep
from runtime.queue import states
from runtime.queue.states import Enqueued
from runtime.triggers import loopguard


def send(run: Run, step_id: str, rendered: dict[str, Any], connection: str) -> Enqueued:
    """Put one foreign call into the queue as a run of its own, linked to its parent (SPEC section 5.7).

    Call it in the transaction of the step that sends.
    """
    sent = states.enqueue(
        tenant_id=run.tenant_id,
        automation_id=run.automation_id,
        version_id=run.version_id,
        trigger=Run.Trigger.SEND,
        ticket_id=run.ticket_id,
        priority=run.priority,
        input_json=json.dumps({"step": step_id, "inputs": rendered, "connection": connection}),
        caused_by=run,
    )
    assert sent is not None
    return sent


def call(run: Run, reference: str, inputs: dict[str, Any]) -> Enqueued:
    """Start another automation of the tenant, by name or id; `inputs` are its parameters by name.

    Raises TerminalError: `missing.automation`, `automation.paused`, `input.invalid` or `limit.actions`.
    """
    callee = _callee(run, reference)
    if loopguard.is_too_deep(run):
        raise TerminalError(
            "limit.actions",
            f"A chain of runs has at most {loopguard.MAX_DEPTH} links; the next call was refused.",
        )
    version = callee.published
    if version is None:
        raise TerminalError("missing.automation", f"Automation {callee.name!r} has not been published.")
    if callee.state == Automation.State.PAUSED:
        raise TerminalError("automation.paused", f"Automation {callee.name!r} is paused.")
    called = states.enqueue(
        tenant_id=run.tenant_id,
        automation_id=callee.pk,
        version_id=version.pk,
        trigger=Run.Trigger.CALL,
        ticket_id=run.ticket_id,
        priority=run.priority,
        input_json=json.dumps(
            {"body": inputs, "headers": {}, "params": _parameters(run, version.tree, inputs)}
        ),
        caused_by=run,
    )
    assert called is not None
    return called


def outcome(run: Run, public_id: str) -> dict[str, Any] | None:
    """Return `{runId, status, outputs}` of a callee that is done, None while it has not ended.

    Raises TerminalError with the callee's own error when it failed or was cancelled.
    """
    callee = Run.objects.of(run.tenant_id).get(public_id=public_id)
    if callee.status == Run.Status.DONE:
        return {"runId": public_id, "status": "done", "outputs": _named(callee)}
    if callee.status == Run.Status.FAILED:
        error = callee.error or {}
        raise TerminalError(
            error.get("code", "flow.fail"), f"The called automation failed: {error.get('message', '')}"
        )
    if callee.status == Run.Status.CANCELLED:
        raise TerminalError("flow.fail", "The called run was cancelled.")
    return None


def cancel_callees(run: Run) -> None:
    """Cancel the run that a cancelled one waits for, or ask it to stop; what nobody waits for goes on."""
    awaited = RunStep.objects.of(run.tenant_id).filter(run=run, op="flow/call", state=RunStep.State.WAITING)
    for output in awaited.values_list("output", flat=True):
        callee = Run.objects.of(run.tenant_id).get(public_id=output["runId"])
        if states.cancel(callee):
            cancel_callees(callee)
            outcomes.note_end(callee)
        else:
            states.request_cancel(callee)


def _callee(run: Run, reference: str) -> Automation:
    callee: Automation | None = (
        Automation.objects.of(run.tenant_id).select_related("published").named(reference)
    )
    if callee is None:
        raise TerminalError("missing.automation", f"There is no automation {reference!r}.")
    return callee


def _parameters(run: Run, tree: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the callee's parameters out of `inputs` by name, converted as its contract says."""
    named = [
        contract.Parameter(one.id, one.name, paths.join((one.name,)), one.type, one.required)
        for one in contract.parse_params(tree["trigger"].get("params") or [])
    ]
    values = contract.extract(named, inputs, zone=ZoneInfo(run.tenant.timezone))
    if isinstance(values, contract.Refusal):
        wrong = ", ".join(sorted({fault["param"] for fault in [*values.missing, *values.invalid]}))
        raise TerminalError("input.invalid", f"The called automation needs other inputs: {wrong}.")
    return {**inputs, **values.values}


def _named(run: Run) -> dict[str, Any]:
    """Return the names that a run gave with `data/set`, the last value of each."""
    given = RunStep.objects.of(run.tenant_id).filter(run=run, op="data/set", state=RunStep.State.DONE)
    return {
        output["name"]: output["value"] for output in given.order_by("seq").values_list("output", flat=True)
    }
