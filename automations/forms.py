"""Form bodies: urlencoded pairs, multipart fields, and names whose brackets nest (`items[0][id]=7`). Pure.

Written out here because the standard library's e-mail parser recurses into parts of parts, Django's needs
settings and spools uploads into files, and what a webhook needs is short. Every function takes time in
proportion to the body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

# A level of a name takes some 300 bytes; this keeps what a body of 1 MiB can make of itself below 10 MB, and is
# far above any form that people or services send.
MAX_NODES = 30_000
# RFC 2046 section 5.1.1.
_MAX_BOUNDARY = 70


class FormError(Exception):
    """The body is no form of its kind. `status` is the HTTP answer; `message` repeats nothing of the body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class TooDeep(Exception):
    """A name nests deeper than is allowed."""


# --- urlencoded ---------------------------------------------------------------------------------------------


def urlencoded(text: str, encoding: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of an `application/x-www-form-urlencoded` body, values of fields without `=` empty.

    Raises FormError 400 for percent-encoded bytes that are not text in `encoding`.
    Source: https://url.spec.whatwg.org/#urlencoded-parsing
    """
    for pair in re.finditer(r"[^&]+", text):
        name, _, value = pair[0].strip("\r\n").partition("=")
        if name or value:
            yield _unquoted(name, encoding), _unquoted(value, encoding)


_ESCAPED = re.compile(r"(?:%[0-9a-fA-F]{2})++")


def _unquoted(text: str, encoding: str) -> str:
    text = text.replace("+", " ")
    if "%" not in text:
        return text
    try:
        return _ESCAPED.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode(encoding), text)
    except UnicodeDecodeError:
        raise FormError(400, f"A field of the form is not {encoding} text.") from None


# --- multipart ----------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """One part of a multipart body; an upload is one with a file name."""

    name: bytes
    value: bytes
    content_type: str | None
    is_file: bool


def multipart(raw: bytes, boundary: str | None) -> Iterator[Part]:
    """Yield the parts of a `multipart/form-data` body (RFC 7578). Lines may end with LF alone.

    Raises FormError 400 for a missing boundary, a body without its closing line, or a part without a name.
    """
    if not boundary or len(boundary) > _MAX_BOUNDARY or not boundary.isascii():
        raise FormError(400, "The content type names no boundary of 1 to 70 characters.")
    line = re.compile(rb"(?:\A|\r?\n)--" + re.escape(boundary.encode()) + rb"(--)?[ \t]*+(?:\r?\n|\Z)")
    begin: int | None = None
    position = 0
    while found := line.search(raw, position):
        if begin is not None:
            yield _part(raw[begin : found.start()])
        if found[1]:
            return
        # The line break that ends a boundary may be the one that begins the next, of a part without content.
        begin = found.end()
        position = found.end() - 1
    raise FormError(400, "The multipart body ends before its closing boundary.")


_HEADERS_END = re.compile(rb"(?:\A|\r?\n)\r?\n")
_NAME = re.compile(rb';\s*+name="((?:[^"\\]|\\.)*+)"|;\s*+name=([^\s;"]++)', re.IGNORECASE | re.DOTALL)
_FILE_NAME = re.compile(rb";\s*+filename\*?=", re.IGNORECASE)
_HEADER = re.compile(
    rb"^(content-disposition|content-type)[ \t]*+:[ \t]*+(.*+)$", re.IGNORECASE | re.MULTILINE
)


def _part(raw: bytes) -> Part:
    end = _HEADERS_END.search(raw)
    if end is None:
        raise FormError(400, "A part of the multipart body has no blank line after its headers.")
    headers = {found[1].lower(): found[2].strip() for found in _HEADER.finditer(raw[: end.start()])}
    disposition = headers.get(b"content-disposition", b"")
    name = _NAME.search(disposition)
    if name is None:
        raise FormError(400, "A part of the multipart body has no name.")
    content_type = headers.get(b"content-type")
    return Part(
        name=_unescaped(name[1]) if name[1] is not None else name[2],
        value=raw[end.end() :],
        content_type=content_type.decode("latin-1") if content_type is not None else None,
        is_file=_FILE_NAME.search(disposition) is not None,
    )


def _unescaped(name: bytes) -> bytes:
    """Undo what browsers (https://html.spec.whatwg.org/#multipart-form-data) and older clients escape."""
    name = re.sub(rb'\\(["\\])', rb"\1", name)
    return name.replace(b"%22", b'"').replace(b"%0D", b"\r").replace(b"%0A", b"\n")


# --- nesting ------------------------------------------------------------------------------------------------

_NESTED_NAME = re.compile(r"([^\[\]]++)((?:\[[^\[\]]*+\])++)")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class _Node(dict[str, Any]):
    """An object or array under construction; `next_index` is what `[]` gives."""

    __slots__ = ("next_index",)

    def __init__(self) -> None:
        super().__init__()
        self.next_index = 0

    def key(self, written: str) -> str:
        """Return the key that a pair of brackets means; empty ones mean the next index."""
        key = written or str(self.next_index)
        if _INDEX.fullmatch(key):
            self.next_index = max(self.next_index, int(key) + 1)
        return key


def nested(pairs: Iterable[tuple[str, str]], max_depth: int) -> dict[str, Any]:
    """Return the fields as one object whose bracketed names nest, as PHP reads them.

    `a[b]=1` is a member, `a[]=1` the next one; of equal names the last counts. What has exactly the indices
    from 0 on becomes an array, anything sparser stays an object with digit keys. Brackets that do not pair
    are part of a plain name. Raises TooDeep for a name of more than `max_depth` levels, FormError 413 for
    more fields than MAX_NODES.
    """
    root = _Node()
    nodes = 1
    for name, value in pairs:
        first, *inner = _keys(name)
        if len(inner) >= max_depth:
            raise TooDeep
        node, key = root, first
        for next_key in inner:
            below = node.get(key)
            if not isinstance(below, _Node):
                below = node[key] = _Node()
                nodes += 1
            node, key = below, below.key(next_key)
        node[key] = value
        nodes += 1
        if nodes > MAX_NODES:
            raise FormError(413, f"The form has more than {MAX_NODES} fields.")
    return {key: _finished(value) for key, value in root.items()}


def _keys(name: str) -> list[str]:
    found = _NESTED_NAME.fullmatch(name)
    return [found[1], *found[2][1:-1].split("][")] if found else [name]


def _finished(value: Any) -> Any:
    if not isinstance(value, _Node):
        return value
    # As many keys as the highest index wants, and all of them there: an array.
    if value.next_index == len(value) and all(str(index) in value for index in range(len(value))):
        return [_finished(value[str(index)]) for index in range(len(value))]
    return {key: _finished(part) for key, part in value.items()}
