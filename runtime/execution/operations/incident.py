"""`incident/create`: an automation tells people about something itself."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _
from pydantic import Field

from connectors.catalog import Shape, builtin
from incidents import services as incidents
from runtime import outcomes
from runtime.execution.context import RunCall
from runtime.execution.operations.shapes import Message, Text
from runtime.queue import states


class CreateInputs(Shape):
    """`title` and `impact` are for the client; `detail` for platform staff only; the same `cause` counts on."""

    title: Message = Field(min_length=1, max_length=500)
    impact: Message = Field(default="", max_length=10_000)
    detail: Any = None
    cause: Text = ""


class CreateOutputs(Shape):
    """The public id of the incident, new or counted on, and how often it has happened."""

    incident: str
    count: int


@builtin(
    "incident/create",
    title=_("Open an incident"),
    inputs=CreateInputs,
    outputs=CreateOutputs,
)
def create(call: RunCall, inputs: CreateInputs) -> CreateOutputs:
    """Open an incident of this run's tenant (SPEC sections 4 and 9)."""
    run = call.run
    if inputs.detail is None:
        detail: dict[str, Any] = {}
    else:
        detail = inputs.detail if isinstance(inputs.detail, dict) else {"detail": inputs.detail}
    incident = incidents.open_incident(
        run.tenant,
        cause=f"{run.automation.public_id}/incident/{inputs.cause or inputs.title}",
        code=outcomes.OPENED_BY_STEP,
        params={},
        title=inputs.title,
        impact=inputs.impact,
        detail={
            **detail,
            "automation": {
                "id": str(run.automation.public_id),
                "name": run.automation.name,
                "version": run.version.number,
            },
            "run": str(run.public_id),
            "input": run.data.input,
        },
        ticket=call.ticket,
        automation={"id": str(run.automation.public_id), "name": run.automation.name},
    )
    states.point_to_incident(run.pk, incident)
    return CreateOutputs(incident=str(incident.public_id), count=incident.count)
