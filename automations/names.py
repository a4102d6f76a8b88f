"""Which names an author may give to parameters, loop variables, values and steps. Pure."""

from __future__ import annotations

import re

# Letters of any language, digits, `_` and `-`; a leading `_` is kept for the system (`_body`, `_headers`), and digits
# alone would be taken for the pass of a loop in a step's path (`st_3/17/st_4`).
_NAME = re.compile(r"(?!\d+\Z)[^\W_][\w-]{0,99}")
# The run's ticket: a name that a body could fill would shadow it.
RESERVED = frozenset({"ticket"})


def name_fault(name: str) -> str | None:
    """Return why a text can be no name, or None; it is looked up by templates, so it has no dots or blanks."""
    if name in RESERVED:
        return f"`{name}` is a name of the system; choose another one."
    if not _NAME.fullmatch(name):
        return "Expected at most 100 letters, digits, `_` and `-`; not digits alone, no `_` or `-` first."
    return None
