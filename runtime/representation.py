"""A run as the API shows it (SPEC section 13)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection

from automations.conditions import RuleResult
from automations.values import MISSING
from csbot.lib.api import instant_text
from runtime import messages, services
from runtime.models import Run, RunData, RunLog, RunStep
from runtime.queue import claim

# `ahead` counts no further (SPEC section 5.9).
MOST_AHEAD = 1000
SHOWN_OF_RULE = ("fieldId", "operator", "value", "actual", "arrived", "met")

OTHERS_DUE = "SELECT EXISTS (SELECT 1 FROM runtime_run WHERE status = 0 AND tenant_id <> %s)"
AHEAD = """
SELECT count(*) FROM (
  SELECT 1 FROM runtime_run WHERE tenant_id = %s AND status = 0 AND (priority, id) < (%s, %s) LIMIT %s
) AS ahead
"""


def brief(run: Run) -> dict[str, Any]:
    """Return a run of a list. Load it with automation, version and ticket."""
    return {
        "id": str(run.public_id),
        "automation": {
            "id": str(run.automation.public_id),
            "name": run.automation.name,
            "version": run.version.number,
        },
        "trigger": run.trigger,
        "status": services.status_of(run),
        "attempts": run.attempts,
        "dueAt": instant_text(run.due_at) if run.due_at else None,
        "createdAt": instant_text(run.created_at),
        "startedAt": instant_text(run.started_at) if run.started_at else None,
        "finishedAt": instant_text(run.finished_at) if run.finished_at else None,
        "ticket": run.ticket.key if run.ticket else None,
        "error": run.error,
        "actions": run.actions,
    }


def whole(run: Run, language: str) -> dict[str, Any]:
    """Return one run with its input, steps, log, cause and reason of waiting. Load `caused_by__ticket` as well."""
    data = RunData.objects.of(run.tenant_id).filter(run=run).first()
    steps = RunStep.objects.of(run.tenant_id).filter(run=run).order_by("seq")
    log = RunLog.objects.of(run.tenant_id).filter(run=run).order_by("id")
    return {
        **brief(run),
        "input": data.input if data else None,
        "steps": [_step(step, language) for step in steps],
        "log": _log(steps, log, language),
        "causedBy": _cause(run),
        "depth": run.depth,
        "waiting": _waiting(run),
        "cancelRequested": run.cancel_requested,
    }


def _log(steps: Iterable[RunStep], log: Iterable[RunLog], language: str) -> list[dict[str, Any]]:
    """Return the run's lines, those of its conditions among them, oldest first."""
    lines = [(line.at, line.level, messages.rendered(line.code, line.params, language)) for line in log]
    for step in steps:
        lines += [(step.started_at, "info", text) for text in _condition_lines(step, language)]
    lines.sort(key=lambda line: line[0])
    return [{"at": instant_text(at), "level": level, "message": message} for at, level, message in lines]


def _condition_lines(step: RunStep, language: str) -> list[str]:
    """Return for each rule what was compared with what (SPEC section 3.2), in the reader's language."""
    return [
        RuleResult(
            field_id=rule["fieldId"],
            operator=rule["operator"],
            value=rule["value"],
            actual=rule["actual"] if rule["arrived"] else MISSING,
            arrived=rule["arrived"],
            met=rule["met"],
            reason=rule["reason"],
            name=rule["name"],
        ).line(language)
        for rule in step.rules or []
    ]


def _step(step: RunStep, language: str) -> dict[str, Any]:
    return {
        "seq": step.seq,
        "stepId": step.step_id,
        "path": step.path,
        "op": step.op or None,
        "type": step.type,
        # A call under way has no outcome yet; for a reader it is still being waited for.
        "status": RunStep.State.WAITING if step.state == RunStep.State.STARTED else step.state,
        "attempt": step.attempt,
        "startedAt": instant_text(step.started_at),
        "durationMs": step.duration_ms,
        "input": step.input,
        "output": step.output,
        "message": "\n".join(_condition_lines(step, language)) or step.message or None,
        "rules": [{key: rule[key] for key in SHOWN_OF_RULE} for rule in step.rules] if step.rules else None,
    }


def _cause(run: Run) -> dict[str, Any] | None:
    cause = run.caused_by
    if cause is None:
        return None
    return {"run": str(cause.public_id), "ticket": cause.ticket.key if cause.ticket else None}


def _waiting(run: Run) -> dict[str, Any] | None:
    """Say why a queued run waits (SPEC section 5.9); None for one that is not queued."""
    if services.status_of(run) != "queued":
        return None
    if run.tenant.suspended_at is not None:
        return {"reason": "suspended", "until": None, "ahead": None}
    if run.status == Run.Status.READY:
        return {"reason": _reason_of_ready(run), "until": None, "ahead": _ahead(run)}
    return {
        "reason": run.wait_reason,
        "until": instant_text(run.due_at) if run.due_at else None,
        "ahead": None,
    }


def _reason_of_ready(run: Run) -> str:
    """Say whether the tenant is at its own cap, at its share beside others, or just waits for a slot."""
    running = Run.objects.of(run.tenant).filter(status=Run.Status.RUNNING).count()
    with connection.cursor() as cursor:
        cursor.execute(OTHERS_DUE, [run.tenant_id])
        is_alone = not cursor.fetchone()[0]
    if running < claim.cap_of(run.tenant.max_parallel_runs, claim.all_slots(), is_alone=is_alone):
        return "due"
    return "tenantCap" if run.tenant.max_parallel_runs is not None or is_alone else "fairness"


def _ahead(run: Run) -> int:
    with connection.cursor() as cursor:
        cursor.execute(AHEAD, [run.tenant_id, run.priority, run.pk, MOST_AHEAD])
        return int(cursor.fetchone()[0])
