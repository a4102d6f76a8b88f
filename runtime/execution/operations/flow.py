"""`flow/*`: a line in the log, waiting, and the ends that an automation chooses itself."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.translation import gettext_lazy as _
from pydantic import Field, model_validator

from connectors.catalog import Shape, builtin
from csbot.lib import database_clock
from csbot.lib.errors import TerminalError
from runtime.execution import calls
from runtime.execution.context import RunCall
from runtime.execution.operations.shapes import Message, Nothing, Text
from tickets import services as tickets

# SPEC section 4.
LONGEST_PAUSE_SECONDS = 60
LONGEST_WAIT = timedelta(days=90)


class LogInputs(Shape):
    """A line for the run's and the ticket's log."""

    message: Message = Field(max_length=10_000)
    level: str = Field(default="info", pattern="^(info|warning|error)$")


class MessageInputs(Shape):
    """Why the run ends here."""

    message: Message = Field(default="", max_length=10_000)


class PauseInputs(Shape):
    """Seconds, at most 60."""

    seconds: Decimal = Field(ge=0, le=LONGEST_PAUSE_SECONDS)


class WaitInputs(Shape):
    """For `seconds`, `until` an instant, or for `days` and then until `at` o'clock in the tenant's time zone."""

    seconds: Decimal | None = Field(default=None, ge=0, le=int(LONGEST_WAIT.total_seconds()))
    until: datetime | None = None
    days: int | None = Field(default=None, ge=0, le=LONGEST_WAIT.days)
    at: time | None = None

    @model_validator(mode="after")
    def _is_one_way(self) -> WaitInputs:
        ways = [self.seconds is not None, self.until is not None, self.days is not None]
        if sum(ways) != 1 or (self.at is not None and self.days is None):
            raise ValueError("give exactly one of `seconds`, `until` or `days` (with `at`)")
        return self


class Until(Shape):
    """The instant the run goes on, ISO 8601 in UTC."""

    until: str


class CallInputs(Shape):
    """Another automation of the tenant by name or id; `inputs` are its parameters by name."""

    automation: Text
    inputs: dict[str, Any] = Field(default_factory=dict)
    wait: bool = True


class CallOutputs(Shape):
    """The called run; `outputs` are the names that it set with `data/set`."""

    runId: str
    status: str = "queued"
    outputs: dict[str, Any] = Field(default_factory=dict)


def _is_over(call: RunCall, inputs: Shape, begun: dict[str, Any]) -> dict[str, Any] | None:
    return begun if datetime.fromisoformat(begun["until"]) <= database_clock.now() else None


def _has_answered(call: RunCall, inputs: CallInputs, begun: dict[str, Any]) -> dict[str, Any] | None:
    return calls.outcome(call.run, begun["runId"]) if inputs.wait else begun


@builtin(
    "flow/call",
    title=_("Run another automation"),
    inputs=CallInputs,
    outputs=CallOutputs,
    waits=_has_answered,
)
def call_automation(call: RunCall, inputs: CallInputs) -> CallOutputs:
    """Run another automation; while the caller waits for it, it gives its slot back."""
    return CallOutputs(runId=str(calls.call(call.run, inputs.automation, inputs.inputs).public_id))


@builtin(
    "flow/log",
    title=_("Write into the log"),
    inputs=LogInputs,
    outputs=Nothing,
)
def log(call: RunCall, inputs: LogInputs) -> Nothing:
    """Write a line into the run's log, and into the ticket's when the run has one."""
    call.log("flow.log", level=inputs.level, message=inputs.message)
    if call.ticket is not None:
        tickets.log(call.ticket, "automation", call.actor, "automation.log", {"message": inputs.message})
    return Nothing()


@builtin(
    "flow/pause",
    title=_("Pause briefly"),
    inputs=PauseInputs,
    outputs=Until,
    waits=_is_over,
)
def pause(call: RunCall, inputs: PauseInputs) -> Until:
    """Wait up to a minute; the run holds no worker meanwhile."""
    return Until(until=database_clock.in_seconds(float(inputs.seconds)).isoformat())


@builtin(
    "flow/wait",
    title=_("Wait"),
    inputs=WaitInputs,
    outputs=Until,
    waits=_is_over,
)
def wait(call: RunCall, inputs: WaitInputs) -> Until:
    """Wait until an instant or for up to 90 days; the run holds no worker meanwhile."""
    now = database_clock.now()
    until = _instant(inputs, now, ZoneInfo(call.tenant.timezone))
    if until - now > LONGEST_WAIT:
        raise TerminalError("input.invalid", "flow/wait waits for at most 90 days.")
    return Until(until=until.isoformat())


def _instant(inputs: WaitInputs, now: datetime, zone: ZoneInfo) -> datetime:
    if inputs.seconds is not None:
        return now + timedelta(seconds=float(inputs.seconds))
    if inputs.until is not None:
        return inputs.until if inputs.until.tzinfo else inputs.until.replace(tzinfo=zone)
    # A day is a day of the calendar, which is 23 or 25 hours long twice a year.
    local = now.astimezone(zone) + timedelta(days=inputs.days or 0)
    if inputs.at is not None:
        local = local.replace(hour=inputs.at.hour, minute=inputs.at.minute, second=0, microsecond=0)
    return local


@builtin(
    "flow/stop",
    title=_("End as done"),
    inputs=MessageInputs,
    outputs=Nothing,
)
def stop(call: RunCall, inputs: MessageInputs) -> Nothing:
    """End the run as done; the executor ends it after this step's row is committed."""
    if inputs.message:
        call.log("flow.stop", message=inputs.message)
    return Nothing()


@builtin(
    "flow/fail",
    title=_("End as failed"),
    inputs=MessageInputs,
    outputs=Nothing,
)
def fail(call: RunCall, inputs: MessageInputs) -> Nothing:
    """End the run as failed, terminal. Raises TerminalError `flow.fail` with the message."""
    raise TerminalError("flow.fail", inputs.message or "The automation ended this run as failed.")
