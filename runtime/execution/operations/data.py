"""`data/set`: names a value for the steps that follow."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from connectors.catalog import Repeat, Shape, operation
from runtime.execution.context import RunCall


class SetInputs(Shape):
    """`name` becomes a name that templates and conditions can use; `value` is kept with its type."""

    name: str
    value: Any = None


class SetOutputs(Shape):
    """What was named."""

    name: str
    value: Any = None


@operation(
    "data/set",
    title=_("Name a value"),
    inputs=SetInputs,
    outputs=SetOutputs,
    repeat=Repeat.SAFE,
    builtin=True,
)
def set_value(call: RunCall, inputs: SetInputs) -> SetOutputs:
    """Give `value` a name (SPEC section 4)."""
    return SetOutputs(name=inputs.name, value=inputs.value)
