"""Texts of a run's log: a line keeps a code and parameters; the sentence is made in the reader's language.

Codes come from `runtime.services.note`, from `call.log` of operations and from the notes of `automations`; a test
collects them from the source, so none is without a text. What a dry run would do is told in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy, ngettext_lazy, override

TEXTS: dict[str, Any] = {
    "body.replaced": ngettext_lazy(
        "%(count)s character that cannot be stored was replaced in the body.",
        "%(count)s characters that cannot be stored were replaced in the body.",
        "count",
    ),
    "body.files": ngettext_lazy(
        "%(count)s uploaded file was left out: %(names)s",
        "%(count)s uploaded files were left out: %(names)s",
        "count",
    ),
    "param.notArrived": gettext_lazy(
        "Parameter %(param)s counts as not arrived: at %(path)s %(type)s was expected and %(got)s came."
    ),
    "flow.log": gettext_lazy("%(message)s"),
    "flow.stop": gettext_lazy("Ended as done: %(message)s"),
    "run.started": gettext_lazy("Started by %(actor)s."),
    "run.retried": gettext_lazy("Retried by %(actor)s; it goes on after its last finished step."),
    "run.rerun": gettext_lazy("Started again from the beginning by %(actor)s, as run %(run)s was."),
    "run.cancelled": gettext_lazy("Cancelled by %(actor)s."),
    "run.failed": gettext_lazy("Failed (%(code)s): %(message)s"),
    "run.review": gettext_lazy("Waits for a decision (%(code)s): %(message)s"),
    "run.cancelRequested": gettext_lazy("%(actor)s asked to cancel; it stops before its next step."),
    "run.resolved.happened": gettext_lazy("%(actor)s decided that the call happened; the run goes on."),
    "run.resolved.again": gettext_lazy("%(actor)s decided to make the call again."),
    "run.resolved.giveUp": gettext_lazy("%(actor)s gave the run up."),
    "test.call": gettext_lazy("Calls %(op)s over the connection %(connection)s; the test calls nothing."),
    "test.send": gettext_lazy(
        "Puts a call of %(op)s over %(connection)s into the queue as a run of its own; the test sends nothing."
    ),
    "test.condition.met": gettext_lazy("The condition is met."),
    "test.condition.notMet": gettext_lazy("The condition is not met."),
    "test.condition.unknown": gettext_lazy(
        "Whether the condition is met is not known in a test; both ways are shown."
    ),
    "test.rule.unknown": gettext_lazy("%(rule)s: not known in a test | it depends on %(paths)s"),
    "test.loop": ngettext_lazy(
        "Repeats its steps for %(count)s item.", "Repeats its steps for %(count)s items.", "count"
    ),
    "test.loop.unknown": gettext_lazy(
        "Repeats its steps for each item of %(paths)s, which is not known in a test; one pass is shown."
    ),
    "test.skipped": gettext_lazy("Is not executed."),
    "test.fails": gettext_lazy("The step fails: %(message)s"),
    "test.depends": gettext_lazy("It depends on %(paths)s, which is not known in a test."),
    "test.notTried": gettext_lazy(
        "%(op)s depends on %(paths)s, which is not known in a test; it was not tried."
    ),
    "test.recorded": gettext_lazy("The answer recorded in the run was used."),
    "test.ifMet": gettext_lazy("Only if the condition %(step)s is met."),
    "test.ifNotMet": gettext_lazy("Only if the condition %(step)s is not met."),
    "test.ifPassed": gettext_lazy("Once for each item of the loop %(step)s."),
    "test.ifGoesOn": gettext_lazy("Only if the run does not end in %(step)s."),
    "test.tooLong": gettext_lazy("The test of this event was stopped after %(seconds)s seconds."),
    "test.does": gettext_lazy("Executes %(op)s."),
    "test.ticket.created": gettext_lazy("Creates a ticket: %(changes)s."),
    "test.ticket.event": gettext_lazy("Writes the event into the log of %(ticket)s."),
    "test.ticket.changed": gettext_lazy("Changes %(ticket)s: %(changes)s."),
    "test.ticket.unchanged": gettext_lazy("Changes nothing of %(ticket)s."),
    "test.ticket.note": gettext_lazy("Writes an internal note to %(ticket)s: %(text)s"),
    "test.ticket.reply": gettext_lazy("Writes a public reply to %(ticket)s: %(text)s"),
    "test.ticket.found": gettext_lazy("Finds %(ticket)s."),
    "test.ticket.notFound": gettext_lazy("Finds no ticket."),
    "test.incident": gettext_lazy("Opens an incident: %(title)s"),
    "test.flow.log": gettext_lazy("Writes into the log: %(message)s"),
    "test.flow.wait": gettext_lazy("Waits until %(until)s; the test does not wait."),
    "test.flow.stop": gettext_lazy("Ends the run as done."),
    "test.flow.call": gettext_lazy("Starts the automation %(automation)s; the test starts nothing."),
    "test.data.set": gettext_lazy("Names a value: %(name)s = %(value)s"),
}
"""Code -> sentence with named parameters; `test.…` are the effects of a dry run."""


class _Parameters(dict[str, Any]):
    """A parameter that a line does not have reads as nothing: an old line never breaks a log."""

    def __missing__(self, key: str) -> str:
        return ""


def rendered(code: str, params: Mapping[str, Any], language: str) -> str:
    """Return the sentence of a log line in `language`; an unknown code reads as the code itself."""
    sentence = TEXTS.get(code)
    if sentence is None:
        return code
    shown = _Parameters({name: _shown(value) for name, value in params.items()})
    with override(language):
        return str(sentence % shown)


def _shown(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
