"""`data/set`: names a value for the steps that follow."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from automations.names import name_fault
from connectors.catalog import Shape, builtin
from csbot.lib.errors import TerminalError
from runtime.execution.context import RunCall
from runtime.execution.operations.shapes import Text


class SetInputs(Shape):
    """`name` becomes a name that templates and conditions can use; `value` is kept with its type."""

    name: Text
    value: Any = None


class SetOutputs(Shape):
    """What was named."""

    name: str
    value: Any = None


@builtin(
    "data/set",
    title=_("Name a value"),
    inputs=SetInputs,
    outputs=SetOutputs,
)
def set_value(call: RunCall, inputs: SetInputs) -> SetOutputs:
    """Give `value` a name (SPEC section 4). Raises TerminalError for one that the language refuses when it is saved."""
    fault = name_fault(inputs.name)
    if fault:
        raise TerminalError("input.invalid", f"`name`: {fault}")
    return SetOutputs(name=inputs.name, value=inputs.value)
