"""Templates: texts with `{{path | filter}}` in them, rendered from data and nothing else (SPEC section 3.1).

Pure. A placeholder looks up a dotted path and applies named filters; there is no other construct, so no code
can be reached. What is put in is never looked at again, so `{{` inside data stays text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from automations import paths, values
from automations.filters import FILTERS, Argument, FilterError, Reader
from automations.values import MISSING

__all__ = [
    "FILTERS",
    "MISSING",
    "Placeholder",
    "TemplateError",
    "is_lone",
    "placeholders",
    "render",
    "render_path",
    "rendered_segment",
    "resolve",
]

Lookup: TypeAlias = Callable[[str], Any]
"""Returns what a dotted path leads to, or MISSING."""

# Longer texts are rare, and a cache of them would be large.
_MAX_CACHED = 2_000


class TemplateError(ValueError):
    """A template with bad syntax, or a value that a filter cannot take. `position` counts from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


@dataclass(frozen=True, slots=True)
class FilterCall:
    """One filter of a placeholder with its arguments."""

    name: str
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One `{{path | filter: argument}}` and where its braces begin."""

    path: str
    filters: tuple[FilterCall, ...]
    position: int


def placeholders(template: str) -> list[Placeholder]:
    """Return the placeholders of a text in their order. Raises TemplateError for bad syntax."""
    return [part for part in _parts(template) if isinstance(part, Placeholder)]


def is_lone(template: str) -> bool:
    """Say whether a text is exactly one placeholder, whose value keeps its type. Raises TemplateError."""
    parts = _parts(template)
    return len(parts) == 1 and isinstance(parts[0], Placeholder)


def render(template: Any, lookup: Lookup, *, zone: tzinfo | None = None, language: str = "en") -> Any:
    """Return the template with values in place of its placeholders, at every depth of objects and arrays.

    A text that is exactly one placeholder becomes the value itself (the same object: do not change it), or
    MISSING; a member or item of which nothing arrived is left out. Keys are never templates. Dates are
    printed in `zone` and `language`. Raises TemplateError.
    """
    return _rendered(template, lookup, Reader(zone, language))


def resolve(root: Mapping[str, Any], path: str) -> Any:
    """Return what a dotted path leads to inside the names of `root`, or MISSING.

    Only members of objects and items of arrays are reached, never an attribute.
    """
    keys = paths.split(path)
    return paths.find(root, keys) if keys else MISSING


def render_path(template: str, lookup: Lookup, *, zone: tzinfo | None = None, language: str = "en") -> str:
    """Return the path of an HTTP address, each placeholder percent-encoded as one segment (SPEC section 10).

    Raises TemplateError when a segment comes out as `.` or `..`, however it is spelled.
    """
    reader = Reader(zone, language)
    text = "".join(
        part if isinstance(part, str) else rendered_segment(_value(part, lookup, reader))
        for part in _parts(template)
    )
    for segment in re.split(r"[?#]", text, maxsplit=1)[0].replace("\\", "/").split("/"):
        if unquote(segment) in (".", ".."):
            raise TemplateError(f"The path has a segment {unquote(segment)!r}.", 0)
    return text


def rendered_segment(value: Any) -> str:
    """Return a value percent-encoded as one segment of a path. Raises TemplateError for `.` and `..`."""
    text = values.text_of(value)
    if text in (".", ".."):
        raise TemplateError(f"A value in the path is {text!r}.", 0)
    return quote(text, safe="", errors="replace")


def _rendered(template: Any, lookup: Lookup, reader: Reader) -> Any:
    if isinstance(template, str):
        return _rendered_text(template, lookup, reader) if "{{" in template else template
    if isinstance(template, dict):
        members = {}
        for key, part in template.items():
            value = _rendered(part, lookup, reader)
            if value is not MISSING:
                members[key] = value
        return members
    if isinstance(template, list):
        items = []
        for part in template:
            value = _rendered(part, lookup, reader)
            if value is not MISSING:
                items.append(value)
        return items
    return template


def _rendered_text(template: str, lookup: Lookup, reader: Reader) -> Any:
    parts = _parts(template)
    if len(parts) == 1 and isinstance(parts[0], Placeholder):
        return _value(parts[0], lookup, reader)
    return "".join(
        part if isinstance(part, str) else values.text_of(_value(part, lookup, reader)) for part in parts
    )


def _value(placeholder: Placeholder, lookup: Lookup, reader: Reader) -> Any:
    value = lookup(placeholder.path)
    for call in placeholder.filters:
        try:
            value = FILTERS[call.name].apply(value, call.arguments, reader)
        except FilterError as error:
            message = f"{{{{{placeholder.path} | {call.name}}}}}: {error}."
            raise TemplateError(message, placeholder.position) from None
    return value


# --- syntax -------------------------------------------------------------------------------------------------

_PATH = re.compile(r"[^|{}]*")
_FILTER = re.compile(r"\s*\|\s*([A-Za-z][A-Za-z0-9_]*)\s*(:)?")
_ARGUMENT = re.compile(
    r"\s*(?:\"((?:[^\"\\]|\\.)*+)\"|'((?:[^'\\]|\\.)*+)'|(-?[0-9]{1,20}(?:\.[0-9]{1,20})?)|(true|false)\b)\s*(,)?",
    re.DOTALL,
)
_END = re.compile(r"\s*\}\}")


def _parts(template: str) -> tuple[str | Placeholder, ...]:
    """Return the plain texts and placeholders that a template is made of. Raises TemplateError."""
    return _cached_parts(template) if len(template) <= _MAX_CACHED else _parsed(template)


def _parsed(template: str) -> tuple[str | Placeholder, ...]:
    parts: list[str | Placeholder] = []
    position = 0
    while (begin := template.find("{{", position)) >= 0:
        if begin > position:
            parts.append(template[position:begin])
        placeholder, position = _placeholder(template, begin)
        parts.append(placeholder)
    if position < len(template) or not parts:
        parts.append(template[position:])
    return tuple(parts)


_cached_parts = lru_cache(maxsize=4096)(_parsed)


def _placeholder(template: str, begin: int) -> tuple[Placeholder, int]:
    """Return the placeholder that begins at `begin`, and where the text goes on."""
    found = _PATH.match(template, begin + 2)
    assert found is not None, "the pattern fits the empty text as well"
    path = found[0].strip()
    position = found.end()
    _check_path(path, begin)
    calls: list[FilterCall] = []
    while called := _FILTER.match(template, position):
        arguments, position = _arguments(template, called.end(), begin) if called[2] else ((), called.end())
        calls.append(_call(called[1], arguments, begin))
    end = _END.match(template, position)
    if end is None:
        raise TemplateError("A placeholder is not closed: expected `}}` or a filter after `|`.", begin)
    return Placeholder(path, tuple(calls), begin), end.end()


def _check_path(path: str, begin: int) -> None:
    keys = paths.split(path)
    if not path or not all(key.strip() for key in keys):
        raise TemplateError("A placeholder needs a name, such as {{orderId}} or {{_body.order.id}}.", begin)
    if len(keys) > paths.MAX_KEYS:
        raise TemplateError(f"A placeholder has more than {paths.MAX_KEYS} keys.", begin)


def _arguments(template: str, position: int, begin: int) -> tuple[tuple[Argument, ...], int]:
    arguments: list[Argument] = []
    while True:
        found = _ARGUMENT.match(template, position)
        if found is None:
            raise TemplateError(
                'A filter needs arguments in quotes or a number, such as | default: "x".', begin
            )
        position = found.end()
        arguments.append(_argument(found))
        if not found[5]:
            return tuple(arguments), position


def _argument(found: re.Match[str]) -> Argument:
    if found[4]:
        return found[4] == "true"
    if found[3]:
        return Decimal(found[3]) if "." in found[3] else int(found[3])
    # Only the quote and the backslash are escaped: other backslashes belong to date formats.
    return re.sub(r"\\([\"'\\])", r"\1", found[1] if found[1] is not None else found[2])


def _call(name: str, arguments: tuple[Argument, ...], begin: int) -> FilterCall:
    known = FILTERS.get(name)
    if known is None:
        raise TemplateError(f"There is no filter `{name}`; there are {', '.join(FILTERS)}.", begin)
    try:
        known.check(arguments)
    except FilterError as error:
        raise TemplateError(f"Filter `{name}`: {error}.", begin) from None
    return FilterCall(name, arguments)
