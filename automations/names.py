"""Which names an author may give to parameters, loop variables, values and steps. Pure."""

from __future__ import annotations

import re

# Letters of any language, digits, `_` and `-`; a leading `_` is kept for the system (`_body`, `_headers`).
_NAME = re.compile(r"[^\W\d_][\w-]{0,99}")
# The run's ticket: a name that a body could fill would shadow it.
RESERVED = frozenset({"ticket"})


def name_fault(name: str) -> str | None:
    """Return why a text can be no name, or None; it is looked up by templates, so it has no dots or blanks."""
    if name in RESERVED:
        return f"`{name}` is a name of the system; choose another one."
    if not _NAME.fullmatch(name):
        return "Expected a name of letters, digits, `_` and `-` that begins with a letter, at most 100 long."
    return None
