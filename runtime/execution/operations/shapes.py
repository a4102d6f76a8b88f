"""What the inputs and outputs of built-in operations are made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from automations import values
from connectors.catalog import Shape


def as_text(value: Any) -> Any:
    """Return the text of a number or a boolean: a lone placeholder keeps its type, and its text is meant."""
    return values.text_of(value) if isinstance(value, bool) or values.is_number(value) else value


Text = Annotated[str, BeforeValidator(as_text)]
# What people read: an object or array in it is its JSON, as it is inside a longer text.
Message = Annotated[str, BeforeValidator(values.text_of)]


class Nothing(Shape):
    """No outputs."""
