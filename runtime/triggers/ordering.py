"""Which line a new run stands in: runs of one automation with the same key go one at a time (SPEC section 5.8)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from django.dispatch import receiver

from automations import contract, expressions, values
from automations.expressions import TemplateError
from automations.values import MISSING
from incidents.events import incident_resolved
from runtime.models import Run
from runtime.queue import states
from runtime.queue.states import Line

# Length of the column.
MAX_KEY = 200


def line_of(trigger: Mapping[str, Any], automation_id: int, given: Mapping[str, Any]) -> Line | None:
    """Return the line of a run with this input, None where the trigger names no key or the key did not arrive.

    `given` is the run's input: `{"body", "params", …}`, of a ticket run `{"ticket", "event", "changes"}` with the whole
    ticket. `orderKey` is a path into the body, a name, or a template.
    """
    order_key = trigger.get("orderKey")
    if order_key is None:
        return None
    text = values.text_of(_value(order_key, given)).strip()
    if not text:
        return None
    key = f"{automation_id}:{text}"
    if len(key) > MAX_KEY:
        key = f"{automation_id}:sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"
    return Line(key, holds=trigger.get("onEarlierFailed", "hold") == "hold")


def line_of_rerun(run: Run) -> Line | None:
    """Return the place in the line that a rerun of `run` takes: that of the run itself."""
    return Line(run.order_key, run.order_holds, run.order_place) if run.order_key is not None else None


@receiver(incident_resolved)
def _on_incident_resolved(incident_id: int, **_kwargs: Any) -> None:
    """Call the lines of the runs whose failure a person has dealt with."""
    failed = Run.objects.filter(
        incident_id=incident_id, status__in=[Run.Status.FAILED, Run.Status.UNCERTAIN], order_key__isnull=False
    )
    for key in failed.values_list("order_key", flat=True).distinct():
        states.call_line(key)


def _value(order_key: str, given: Mapping[str, Any]) -> Any:
    names = {**(given.get("params") or {}), **given, "_body": given.get("body")}
    if "{{" in order_key:
        try:
            return expressions.render(order_key, lambda path: expressions.resolve(names, path))
        except TemplateError:
            # A filter that cannot take what came: such events stand in no line.
            return MISSING
    found = contract.lookup_path(order_key, given["body"]) if "body" in given else MISSING
    return expressions.resolve(names, order_key) if found is MISSING else found
