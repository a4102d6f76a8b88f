"""Trying a draft before it acts: over a body, over one run's event or over the last ones, beside the published version.

It walks the draft as `runtime.execution.dryrun` does and answers the JSON of `POST /api/automations/{id}/test`
(SPEC section 13). Nothing is changed and nothing is called.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import OperationalError

from automations import contract, paths, steps, tree
from automations.check import refuse
from automations.contract import Refusal
from automations.models import Automation, AutomationVersion
from automations.tree import Tree, TreeError
from connectors import catalog
from csbot.lib import database_clock
from csbot.lib.errors import RequestRefused
from runtime.execution.dryrun import DryRun, Row
from runtime.execution.effects import TicketChange
from runtime.models import Run, RunData, RunStep
from runtime.triggers.tickets import joined
from tickets import numbers
from tickets.models import Ticket

# SPEC section 13: `last` of one test.
MOST_RUNS = 200
# One caller waits for the answer and holds a thread of the web server meanwhile.
LONGEST_SECONDS = 30.0
# Steps of one answer; a step is about a kilobyte.
MOST_STEPS = 20_000
# A ticket that a worker holds for a moment is free again at the next try.
TRIES = 3


@dataclass(frozen=True)
class Sample:
    """One event to try a tree over: the run's input, and of a stored run the outputs that its calls got, by path."""

    trigger: str
    given: dict[str, Any]
    ticket: Ticket | None = None
    run_id: str | None = None
    recorded: Mapping[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What came of one sample: the steps' rows and the edits of tickets, or the refusal of the contract."""

    rows: dict[str, Row] = field(default_factory=dict)
    edits: Sequence[TicketChange] = ()
    taken: frozenset[str] = frozenset()
    refusal: Refusal | None = None


def test(
    automation: Automation,
    language: str,
    samples: Iterable[Sample],
    *,
    is_compared: bool = False,
    tells_never_taken: bool = False,
) -> dict[str, Any]:
    """Return what the draft would do with each sample, in `language`, and where the published version would not.

    `neverTaken` are pointers of the branches that no sample goes into. What does not fit into one test is counted as
    `notTried`. Raises RequestRefused: 400 with every fault when the draft is no tree, 400 `contract` with `missing` and
    `invalid` for a body that the draft refuses (a stored one is told in its run instead), 409 when there is nothing
    published to compare with, 503 when tickets stay locked.
    """
    draft = draft_of(automation)
    published = _published_of(automation) if is_compared else None
    at, end_at = database_clock.now(), time.monotonic() + LONGEST_SECONDS
    answer: dict[str, Any] = {"runs": [], "differences": []}
    taken: set[str] = set()
    told = not_tried = 0
    for sample in samples:
        if time.monotonic() > end_at or told > MOST_STEPS:
            not_tried += 1
            continue
        outcome = _tried(automation, draft, sample, at)
        _refuse_body(sample, outcome)
        told += len(outcome.rows)
        taken |= outcome.taken
        answer["runs"].append(_shown(sample, outcome, language))
        if published is not None:
            other = _tried(automation, published, sample, at)
            answer["differences"] += _differences(sample, other, outcome, language)
    if tells_never_taken:
        branches = _branches(draft.steps) if answer["runs"] else []
        answer["neverTaken"] = [pointer for pointer in branches if pointer not in taken]
    return {**answer, "notTried": not_tried} if not_tried else answer


def _refuse_body(sample: Sample, outcome: Outcome) -> None:
    """Raise RequestRefused 400 for a body that was sent to be tried and that the contract refuses."""
    if outcome.refusal is not None and sample.run_id is None:
        raise RequestRefused(
            "contract",
            "The body does not fit the parameters of the draft.",
            extra={"missing": outcome.refusal.missing, "invalid": outcome.refusal.invalid},
        )


# --- samples ------------------------------------------------------------------------------------------------


def of_body(automation: Automation, body: Any) -> Sample:
    """Return the sample of a body; a ticket trigger's is `{"ticket": "TK-1", "event"?, "changes"?}`.

    Raises RequestRefused 400 for a ticket that does not exist.
    """
    kind = (automation.draft.get("trigger") or {}).get("kind")
    if kind != "ticket":
        return Sample(kind or Run.Trigger.MANUAL, {"body": body, "headers": {}, "params": {}})
    number = numbers.read_key(str(body.get("ticket"))) if isinstance(body, dict) else None
    ticket = Ticket.objects.of(automation.tenant_id).filter(number=number).first() if number else None
    if ticket is None or not isinstance(body.get("changes", {}), dict):
        message = 'A ticket trigger is tested with {"ticket": "TK-1", "event": "changed", "changes": {}}.'
        raise RequestRefused(
            "body.invalid", message, errors=[{"pointer": "/body/ticket", "message": message}]
        )
    given = {"ticket": ticket.key, "event": body.get("event", "changed"), "changes": body.get("changes", {})}
    return Sample(kind, given, ticket)


def of_run(automation: Automation, run_id: Any) -> Sample:
    """Return the sample of one run of this automation. Raises RequestRefused 400 when it has none to try."""
    run = _runs_of(automation).filter(public_id=run_id).first()
    if run is None:
        message = "This automation has no run of this id whose event is still kept."
        raise RequestRefused("run.unknown", message, errors=[{"pointer": "/runId", "message": message}])
    return _sample_of(run)


def of_last(automation: Automation, count: int) -> Iterator[Sample]:
    """Yield the samples of the last events of this automation that are kept, newest first; reruns are none.

    One at a time is read, because an event and its answers may be large.
    """
    runs = _runs_of(automation).filter(rerun_of=None).order_by("-created_at", "-id")
    for key in list(runs.values_list("pk", flat=True)[:count]):
        run = _runs_of(automation).filter(pk=key).first()
        if run is not None:
            yield _sample_of(run)


def _runs_of(automation: Automation) -> Any:
    """Return the runs whose input is kept; a send has none but the inputs of its step."""
    return (
        Run.objects.of(automation.tenant_id)
        .filter(automation=automation, data__isnull=False)
        .exclude(trigger=Run.Trigger.SEND)
        .select_related("data", "ticket")
    )


def _sample_of(run: Run) -> Sample:
    """Return a run's event with the answers that its calls got; built-in steps are executed anew."""
    anew = [one.op for one in catalog.every() if one.builtin and one.waits is None]
    rows = RunStep.objects.of(run.tenant_id).filter(run=run, type="action", state=RunStep.State.DONE)
    answers = rows.exclude(op__in=anew).values_list("path", "op", "output")
    return Sample(
        run.trigger,
        run.data.input,
        run.ticket if "event" in run.data.input else None,
        str(run.public_id),
        {path: (op, output) for path, op, output in answers if output is not None},
    )


# --- trying -------------------------------------------------------------------------------------------------


def draft_of(automation: Automation) -> Tree:
    """Return the draft's tree. What it names and does not exist fails in the step, as it would in a run.

    Raises RequestRefused 400 with every fault for what is no tree.
    """
    try:
        return tree.parse_stored(automation.draft)
    except TreeError as error:
        refuse(error.faults, "The draft has faults; testing needs a tree.")
        raise


def _published_of(automation: Automation) -> Tree:
    if automation.published is None:
        message = "Nothing is published yet that the draft could be compared with."
        raise RequestRefused("automation.draft", message, status=409)
    return tree.parse_stored(automation.published.tree)


def _tried(automation: Automation, of_tree: Tree, sample: Sample, at: datetime) -> Outcome:
    given = _given(automation, of_tree, sample)
    if isinstance(given, Refusal):
        return Outcome(refusal=given)
    for remaining in reversed(range(TRIES)):
        dry = DryRun(_run(automation, sample, given), of_tree, sample.recorded, at)
        try:
            dry.execute()
        except OperationalError as error:
            if remaining:
                continue
            raise RequestRefused(
                "test.busy",
                "The tickets that the draft would change are busy; try again in a moment.",
                status=503,
                headers={"Retry-After": "1"},
            ) from error
        break
    return Outcome(dry.notes.rows, dry.edits, frozenset(dry.taken))


def _given(automation: Automation, of_tree: Tree, sample: Sample) -> dict[str, Any] | Refusal:
    """Return the run's input with the parameters that this tree takes out of the body, or why it refuses it."""
    if "body" not in sample.given:
        return sample.given
    params: Iterable[contract.Parameter] = of_tree.trigger.params
    if sample.trigger == Run.Trigger.CALL:
        # A caller gives parameters by name.
        params = [
            contract.Parameter(one.id, one.name, paths.join((one.name,)), one.type, one.required)
            for one in params
        ]
    values = contract.extract(list(params), sample.given["body"], zone=ZoneInfo(automation.tenant.timezone))
    return values if isinstance(values, Refusal) else {**sample.given, "params": values.values}


def _run(automation: Automation, sample: Sample, given: dict[str, Any]) -> Run:
    """Return a run that is no row: what the operations ask of one is there."""
    number = automation.published.number if automation.published else 0
    ticket = Ticket.objects.of(automation.tenant_id).get(pk=sample.ticket.pk) if sample.ticket else None
    run = Run(
        tenant=automation.tenant,
        automation=automation,
        version=AutomationVersion(automation=automation, number=number),
        trigger=sample.trigger,
        ticket=ticket,
    )
    RunData(run=run, tenant=automation.tenant, input=given)
    return run


# --- telling ------------------------------------------------------------------------------------------------


def _shown(sample: Sample, outcome: Outcome, language: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"runId": sample.run_id} if sample.run_id else {}
    shown["steps"] = [row.shown(language) for row in outcome.rows.values()]
    shown["tickets"] = _tickets(outcome.edits)
    if outcome.refusal is not None:
        shown |= {"missing": outcome.refusal.missing, "invalid": outcome.refusal.invalid}
    return shown


def _tickets(edits: Sequence[TicketChange]) -> list[dict[str, Any]]:
    """Return what would change of each ticket from first to last; a new one has no number yet."""
    changed: dict[int, dict[str, Any]] = {}
    fresh = {edit.ticket_id for edit in edits if edit.is_new}
    keys = {edit.ticket_id: edit.key for edit in edits}
    for edit in edits:
        changed[edit.ticket_id] = joined(changed.get(edit.ticket_id, {}), edit.changes)
    return [
        {
            "number": None if ticket in fresh else keys[ticket],
            "changes": {name: one for name, one in changes.items() if one.get("from") != one.get("to")},
        }
        for ticket, changes in changed.items()
    ]


def _differences(sample: Sample, published: Outcome, draft: Outcome, language: str) -> list[dict[str, Any]]:
    """Return the steps that one of two outcomes has alone, or that act otherwise, in the order of the draft."""
    if published.refusal is not None or draft.refusal is not None:
        sides = [_refused(published), _refused(draft)]
        return [] if sides[0] == sides[1] else [_difference(sample, "", *sides)]
    return [
        _difference(sample, path, *(side.shown(language) if side else None for side in pair))
        for path in {**draft.rows, **published.rows}
        if _deed((pair := (published.rows.get(path), draft.rows.get(path)))[0]) != _deed(pair[1])
    ]


def _deed(row: Row | None) -> Any:
    """Return what a step does; one that is skipped does what one that is not there does: nothing."""
    return None if row is None or row.is_skipped else row.deed


def _refused(outcome: Outcome) -> dict[str, Any] | None:
    refusal = outcome.refusal
    return None if refusal is None else {"missing": refusal.missing, "invalid": refusal.invalid}


def _difference(sample: Sample, path: str, published: Any, draft: Any) -> dict[str, Any]:
    return {"runId": sample.run_id, "path": path, "published": published, "draft": draft}


def _branches(of_steps: tuple[steps.Step, ...]) -> list[str]:
    """Return the pointers of all branches and loop bodies that have steps; what `onError` holds is no branch."""
    return [
        step.pointer + below
        for step in steps.walk(of_steps)
        if not isinstance(step, steps.ActionStep)
        for below, inner in steps.branches(step)
        if inner
    ]
