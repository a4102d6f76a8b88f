"""Texts of a run's log: a line keeps a code and parameters; the sentence is made in the reader's language.

Codes come from `runtime.services.note`, from `call.log` of operations and from the notes of `automations`; a test
collects them from the source, so none is without a text.
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
    "run.cancelRequested": gettext_lazy("%(actor)s asked to cancel; it stops before its next step."),
    "run.resolved.happened": gettext_lazy("%(actor)s decided that the call happened; the run goes on."),
    "run.resolved.again": gettext_lazy("%(actor)s decided to make the call again."),
    "run.resolved.giveUp": gettext_lazy("%(actor)s gave the run up."),
}
"""Code -> sentence with named parameters."""


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
