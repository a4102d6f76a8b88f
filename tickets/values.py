"""What a caller may write to a ticket: shapes and lengths. Pure; what the database knows is checked later.

`checked` turns what came (from the API, an operation or the portal) into clean values, or refuses with every
fault at once, each with its JSON pointer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from csbot.lib.errors import RequestRefused
from csbot.lib.values import escape, is_storable
from tickets.fields import kind_of

MAX_TITLE = 500
MAX_DESCRIPTION = 100_000
"""Characters of a description or a comment: a long e-mail with its history."""
MAX_EXTERNAL_ID = 500
MAX_STATUS = 200
MAX_TAG = 200
MAX_TAGS = 100
"""Tags of one ticket: more than any person reads, few enough for a row of a list."""
MAX_NAME = 200
MAX_EMAIL = 320
MAX_REFERENCE = 320
"""Characters of a key, an id or an e-mail that names a type, a group or a person."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a request: a code, where (JSON pointer), and what was expected."""

    code: str
    pointer: str
    message: str


class BadValue(ValueError):
    """A value is not accepted; the message says what is expected."""


def refuse(faults: Iterable[Fault], *, status: int = 400) -> NoReturn:
    """Raise RequestRefused with all `faults`; the code is the first one's, the sentence names each place."""
    all_faults = list(faults)
    sentence = "; ".join(f"{one.pointer.lstrip('/') or 'body'}: {one.message}" for one in all_faults)
    errors = [{"pointer": one.pointer, "message": one.message} for one in all_faults]
    raise RequestRefused(all_faults[0].code, sentence, status=status, errors=errors)


def checked(
    given: Mapping[str, Any], *, known: Iterable[str] | None = None, place: str = ""
) -> dict[str, Any]:
    """Return the clean values of `given`; keys that are not there stay away. Raises RequestRefused 400.

    `known` are the keys that may be there (all of them), `place` is the pointer of `given` in the request.
    Blank text in `status`, `externalId` and in a reference is none; blank tags are dropped and doubled ones
    counted once; `requester` is `{"name", "email"}` as a whole or None.
    """
    allowed = set(known or _CHECKS)
    clean: dict[str, Any] = {}
    faults = []
    for key, value in given.items():
        if key not in allowed:
            faults.append(Fault("ticket.invalid", f"{place}/{escape(str(key))}", "This key is not known."))
            continue
        try:
            clean[key] = _CHECKS[key](value)
        except BadValue as error:
            faults.append(Fault("ticket.invalid", f"{place}/{key}", str(error)))
    if faults:
        refuse(faults)
    return clean


def comment_text(value: Any) -> str:
    """Return the text of a comment. Raises RequestRefused 400."""
    try:
        return _text(value, MAX_DESCRIPTION, is_blank_allowed=False)
    except BadValue as error:
        refuse([Fault("ticket.invalid", "/text", str(error))])


def reference(value: Any, pointer: str) -> str | None:
    """Return a key, an id or an e-mail, None for null and blank text. Raises RequestRefused 400."""
    try:
        return _reference(value)
    except BadValue as error:
        refuse([Fault("ticket.invalid", pointer, str(error))])


def _text(value: Any, most: int, *, is_blank_allowed: bool = True) -> str:
    if not isinstance(value, str):
        raise BadValue(f"Expected text, got {kind_of(value)}.")
    if not is_storable(value):
        raise BadValue("A text may not have a NUL character or half a surrogate pair.")
    if len(value) > most:
        raise BadValue(f"Expected at most {most} characters, got {len(value)}.")
    if not is_blank_allowed and not value.strip():
        raise BadValue("Expected text that is not blank.")
    return value


def _title(value: Any) -> str:
    return _text(value, MAX_TITLE, is_blank_allowed=False)


def _description(value: Any) -> str:
    return "" if value is None else _text(value, MAX_DESCRIPTION)


def _optional(most: int) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        return value if value is not None and _text(value, most).strip() else None

    return check


def _reference(value: Any) -> str | None:
    """Return a key, id or e-mail; an object, as answers show it, is read by its `id`."""
    if isinstance(value, Mapping) and "id" in value:
        value = value["id"]
    if isinstance(value, uuid.UUID):
        return str(value)
    return None if value is None else _text(value, MAX_REFERENCE).strip() or None


def _tags(value: Any) -> list[str]:
    if not isinstance(value, list | tuple):
        raise BadValue(f"Expected an array of texts, got {kind_of(value)}.")
    tags = list(dict.fromkeys(tag for tag in (_text(one, MAX_TAG).strip() for one in value) if tag))
    if len(tags) > MAX_TAGS:
        raise BadValue(f"Expected at most {MAX_TAGS} tags, got {len(tags)}.")
    return tags


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise BadValue(f"Expected an object, got {kind_of(value)}.")
    if not all(isinstance(key, str) and is_storable(key) and len(key) <= MAX_NAME for key in value):
        raise BadValue(f"Expected names of at most {MAX_NAME} characters.")
    return dict(value)


def _requester(value: Any) -> dict[str, str | None] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise BadValue(f'Expected {{"name", "email"}} or null, got {kind_of(value)}.')
    if not value.keys() <= {"name", "email"}:
        raise BadValue('Expected no other keys than "name" and "email".')
    name = _optional(MAX_NAME)(value.get("name"))
    email = _optional(MAX_EMAIL)(value.get("email"))
    return {"name": name, "email": email} if name or email else None


def _closed(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadValue(f"Expected true or false, got {kind_of(value)}.")
    return value


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "title": _title,
    "description": _description,
    "type": _reference,
    "status": _optional(MAX_STATUS),
    "tags": _tags,
    "addTags": _tags,
    "removeTags": _tags,
    "externalId": _optional(MAX_EXTERNAL_ID),
    "fields": _fields,
    "requester": _requester,
    "assignee": _reference,
    "group": _reference,
    "closed": _closed,
}
KEYS = tuple(_CHECKS)
"""What `services.create` and `services.change` take."""
UPSERT_KEYS = ("externalId", "title", "description", "type", "status", "tags", "fields", "requester")
"""What `services.upsert` takes."""
