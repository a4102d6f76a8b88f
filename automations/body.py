"""Reads the body of a webhook, whatever its sender calls it: JSON, a form, multipart fields, text (SPEC 2.1).

Pure. Raises nothing but BodyError, never recurses deeper than the levels it allows, and takes time in
proportion to the size of the body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from automations import forms, strict_json
from automations.strict_json import Cleaner
from csbot.lib import charsets

MAX_DEPTH = 64
# So many left-out uploads are named in the log.
MAX_NAMES = 10


class Note(NamedTuple):
    """Something the run's log says about its input: a code and what the text of that code needs.

    `body.replaced` {"count"}: characters that cannot be stored were replaced by U+FFFD. `body.files`
    {"count", "names"}: uploads were left out. `param.notArrived` {"param", "path", "type", "got"}: of a wrong
    type.
    """

    code: str
    params: dict[str, Any]


@dataclass(frozen=True)
class Body:
    """A body as data: text, bool, None, exact int, Decimal, list and dict."""

    value: Any
    notes: list[Note] = field(default_factory=list)
    # The JSON text that `value` was read from, where it can be stored as it is.
    text: str | None = None


class BodyError(Exception):
    """A body that cannot be read.

    `status` is the HTTP answer: 400 not parseable, 413 nested too deep, 415 a type that is not read at all.
    `line` and `column` count from 1 and are None where there is no place to name. The message repeats nothing
    of the body.
    """

    def __init__(
        self, status: int, message: str, *, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.line = line
        self.column = column


def read(raw: bytes, content_type: str | None, *, max_depth: int = MAX_DEPTH) -> Body:
    """Return the body as data, with notes for the run's log. Raises BodyError.

    `content_type` is the header as it came, or None. JSON is read under every type; a form or multipart body
    only counts as JSON when it begins like an object or an array. An empty or blank body is `{}`.
    """
    media = _media(content_type)
    if not raw.strip():
        return Body({})
    if media.kind == "multipart" and not raw.lstrip().startswith((b"{", b"[")):
        return _read_multipart(raw, media, max_depth)
    try:
        text = _decode(raw, media.charset)
    except BodyError as error:
        raise _unreadable(media) if media.kind == "other" else error from None
    if not text.strip():
        return Body({})
    if media.kind not in ("form", "multipart") or text.lstrip().startswith(("{", "[")):
        try:
            return read_json(text, max_depth=max_depth)
        except BodyError as error:
            if media.kind == "json" or error.status == 413:
                raise
    if media.kind == "form":
        codec = _codec(media.charset)
        return _nested(forms.urlencoded(text, "utf_8" if codec in _WIDE else codec), max_depth)
    if media.kind == "multipart":
        return _read_multipart(raw, media, max_depth)
    if media.kind == "text":
        cleaner = Cleaner()
        return Body(cleaner(text), _notes(cleaner.count))
    raise _unreadable(media)


def read_json(text: str, *, max_depth: int = MAX_DEPTH) -> Body:
    """Return a text that is one JSON document as data. Raises BodyError 400 with the place, or 413."""
    try:
        value, replaced = strict_json.cleaned(strict_json.parse(text, max_depth), text)
    except strict_json.TooDeep:
        raise _too_deep(max_depth) from None
    except strict_json.TooMany:
        limit = strict_json.MAX_CONTAINERS
        raise BodyError(413, f"The body has more than {limit} objects and arrays.") from None
    except strict_json.NotJson as error:
        message = f"The body is not JSON: {error.message}."
        raise BodyError(400, message, line=error.line, column=error.column) from None
    return Body(value, _notes(replaced), None if replaced else text)


# --- content type and charset -------------------------------------------------------------------------------


class _Media(NamedTuple):
    """What a Content-Type header says: how to read the body, its charset and its boundary."""

    kind: str
    name: str
    charset: str | None = None
    boundary: str | None = None


# Nobody's header is longer, and the last ones are remembered.
_MAX_HEADER = 1_000


@lru_cache(maxsize=256)
def _media(header: str | None) -> _Media:
    if header is None or not header.strip():
        return _Media("text", "")
    if len(header) > _MAX_HEADER:
        return _Media("other", "")
    found = charsets.content_type(header)
    return _Media(_kind(found.name), *found)


def _kind(name: str) -> str:
    main, _, sub = name.partition("/")
    if name == "application/x-www-form-urlencoded":
        return "form"
    if name == "multipart/form-data":
        return "multipart"
    if sub in ("json", "x-json") or sub.endswith("+json"):
        return "json"
    if main == "text" and sub != "xml" and not sub.endswith("+xml"):
        return "text"
    return "other"


# In these a percent-encoded byte is not one letter, so a form's escapes are read as UTF-8.
_WIDE = {"utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be"}


def _decode(raw: bytes, charset: str | None) -> str:
    """Return the text of a body; a BOM goes before the header's charset, UTF-8 is the default."""
    try:
        return _strict(*charsets.opened(raw, charset))
    except charsets.UnknownCharset:
        raise _unknown_charset() from None


def _codec(charset: str | None) -> str:
    try:
        return charsets.codec_of(charset)
    except charsets.UnknownCharset:
        raise _unknown_charset() from None


def _unknown_charset() -> BodyError:
    return BodyError(415, "The charset of the content type is not known.")


def _strict(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        message = f"The body is not {_label(encoding)} text: the byte at {error.start} cannot be decoded."
        raise BodyError(400, message) from None


def _label(codec: str) -> str:
    return codec.replace("_", "-")


def _unreadable(media: _Media) -> BodyError:
    name = (
        media.name
        if re.fullmatch(r"[\w.+-]{1,60}/[\w.+-]{1,60}", media.name, re.ASCII)
        else "this content type"
    )
    return BodyError(415, f"A body of {name} cannot be read; send JSON, a form or text.")


def _notes(replaced: int) -> list[Note]:
    return [Note("body.replaced", {"count": replaced})] if replaced else []


def _too_deep(max_depth: int) -> BodyError:
    return BodyError(413, f"The body is nested deeper than {max_depth} levels.")


# --- forms --------------------------------------------------------------------------------------------------


def _read_multipart(raw: bytes, media: _Media, max_depth: int) -> Body:
    """Return the fields of a multipart body; uploads are left out and noted, no file is kept or opened."""
    fields: list[tuple[str, str]] = []
    files: list[str] = []
    try:
        for part in forms.multipart(raw, media.boundary):
            name = _strict(part.name, "utf_8")
            if part.is_file:
                files.append(name)
            else:
                fields.append((name, _strict(part.value, _codec(_media(part.content_type).charset))))
    except forms.FormError as error:
        raise BodyError(error.status, error.message) from None
    body = _nested(fields, max_depth)
    if files:
        names = [Cleaner()(name) for name in files[:MAX_NAMES]]
        body.notes.append(Note("body.files", {"count": len(files), "names": names}))
    return body


def _nested(fields: Iterable[tuple[str, str]], max_depth: int) -> Body:
    cleaner = Cleaner()
    try:
        value = forms.nested(((cleaner(name), cleaner(text)) for name, text in fields), max_depth)
    except forms.TooDeep:
        raise _too_deep(max_depth) from None
    except forms.FormError as error:
        raise BodyError(error.status, error.message) from None
    return Body(value, _notes(cleaner.count))
