"""Conventions of the REST surface that every app shares (SPEC section 13).

JSON with exact numbers, strict bodies, keyset cursors; with them the refusals of `csbot.lib.problems` and the
filters of `csbot.lib.filters`, so that an app's `api.py` needs this one import. It knows no app.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import QuerySet
from rest_framework import negotiation, pagination, parsers, renderers, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from csbot.lib import crypto
from csbot.lib.errors import RequestRefused
from csbot.lib.filters import (
    OF_PAGES,
    BadFilter,
    Filter,
    bad_parameter,
    boolean,
    check_names,
    choice,
    filtered,
    instant_after,
    instant_before,
    read_instant,
    text,
    uuid_of,
)
from csbot.lib.json import dumps, loads
from csbot.lib.problems import problem_document, problem_of, problem_response, summary
from csbot.lib.values import escape, instant_text, is_storable, plain

__all__ = [
    "OF_PAGES",
    "AlwaysJSON",
    "AnyJSON",
    "BadFilter",
    "Cursor",
    "DataField",
    "Filter",
    "Instant",
    "JSONParser",
    "JSONRenderer",
    "ListOf",
    "SecretResponse",
    "StrictSerializer",
    "bad_parameter",
    "boolean",
    "check_names",
    "choice",
    "escape",
    "filtered",
    "instant_after",
    "instant_before",
    "instant_text",
    "is_storable",
    "plain",
    "problem_document",
    "problem_of",
    "problem_response",
    "read_instant",
    "read_object",
    "text",
    "uuid_of",
]

# A tree of 50 nested steps needs about 150 levels; a thousand would exhaust Python's stack on the way out.
MAX_DEPTH = 200
# Written out, exponents counted (SPEC section 2.1): PostgreSQL's numeric would refuse far longer ones.
MAX_DIGITS = 4000
DEFAULT_PAGE = 50
MAX_PAGE = 200


class JSONRenderer(renderers.BaseRenderer):
    """Writes answers with `csbot.lib.json`: a Decimal is the number it is."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None
    ) -> bytes:
        """Return `data` as UTF-8 JSON; None is an empty body."""
        return b"" if data is None else dumps(plain(data)).encode()


class JSONParser(parsers.BaseParser):
    """Reads a JSON object with exact numbers. Refuses what cannot be stored, with a pointer each."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        """Return the object of the body. Raises RequestRefused 400 (`line`, `column`) or 413."""
        raw = stream.read(settings.CSBOT_MAX_BODY + 1)
        if len(raw) > settings.CSBOT_MAX_BODY:
            raise RequestRefused(
                "body.size", f"A body has at most {settings.CSBOT_MAX_BODY} bytes.", status=413
            )
        return read_object(raw)


def read_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in `raw` (UTF-8). Raises RequestRefused 400."""
    try:
        value = loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RequestRefused("body.encoding", "Expected UTF-8.") from error
    except RecursionError as error:
        raise RequestRefused("body.depth", f"A body has at most {MAX_DEPTH} levels.") from error
    except (ValueError, ArithmeticError) as error:
        # A number beyond what Python converts has no place in the text; every other error has.
        position = {"line": getattr(error, "lineno", 1), "column": getattr(error, "colno", 1)}
        message = getattr(error, "msg", "a number is too long")
        detail = f"Not JSON at line {position['line']}, column {position['column']}: {message}."
        raise RequestRefused("body.notJson", detail, extra=position) from error
    if not isinstance(value, dict):
        fault = {"pointer": "", "message": "Expected an object."}
        raise RequestRefused("body.notObject", "The body has to be a JSON object.", errors=[fault])
    faults = list(_unstorable(value))
    if faults:
        raise RequestRefused("body.invalid", summary(faults), errors=faults)
    return value


def _unstorable(root: Any) -> Iterator[dict[str, str]]:
    """Yield a fault for each text, number and level that PostgreSQL or the next reader could not take."""
    stack: list[tuple[Any, str, int]] = [(root, "", 1)]
    while stack:
        value, pointer, depth = stack.pop()
        if depth > MAX_DEPTH:
            yield {"pointer": pointer, "message": f"Deeper than {MAX_DEPTH} levels."}
        elif isinstance(value, dict):
            for key, item in value.items():
                if not is_storable(key):
                    yield {
                        "pointer": pointer,
                        "message": "A key has a NUL character or half a surrogate pair.",
                    }
                else:
                    stack.append((item, f"{pointer}/{escape(key)}", depth + 1))
        elif isinstance(value, list):
            stack.extend((item, f"{pointer}/{index}", depth + 1) for index, item in enumerate(value))
        elif isinstance(value, str) and not is_storable(value):
            yield {
                "pointer": pointer,
                "message": "A text may not have a NUL character or half a surrogate pair.",
            }
        elif isinstance(value, int | Decimal) and _digits(value) > MAX_DIGITS:
            yield {"pointer": pointer, "message": f"A number has at most {MAX_DIGITS} digits."}


def _digits(value: int | Decimal) -> int:
    if isinstance(value, int):
        return len(str(abs(value)))
    exponent = value.as_tuple().exponent
    return max(value.adjusted(), 0) + 1 + max(-int(exponent), 0)


class AlwaysJSON(negotiation.DefaultContentNegotiation):
    """Answers JSON whatever `Accept` says (RFC 9110 section 12.1 allows it) and knows no `?format=`."""

    def select_renderer(self, request: Request, renderers: list[Any], format_suffix: Any = None) -> Any:
        """Return the first renderer and its media type."""
        return renderers[0], renderers[0].media_type


class SecretResponse(Response):
    """An answer whose top-level keys `secrets` are shown this once: whoever stores it, stores null there."""

    def __init__(self, data: dict[str, Any], *, secrets: tuple[str, ...], status: int = 200) -> None:
        super().__init__(data, status=status)
        self.secrets = secrets

    def without_secrets(self) -> dict[str, Any]:
        """Return the data with null in place of each secret."""
        return {key: None if key in self.secrets else value for key, value in self.data.items()}


class StrictSerializer(serializers.Serializer):
    """A body whose keys are all known; each unknown or read-only one is refused with its pointer.

    Fields are named in camelCase, as the API shows them, with `source=` for the attribute.
    """

    def to_internal_value(self, data: Any) -> Any:
        """Return the values by `source`. Raises ValidationError with every fault of every key."""
        if not isinstance(data, Mapping):
            return super().to_internal_value(data)
        surplus: dict[str, list[str]] = {}
        for key in data:
            field = self.fields.get(key)
            if field is None:
                surplus[key] = ["This key is not known."]
            elif field.read_only:
                surplus[key] = ["This key cannot be set."]
        try:
            values = super().to_internal_value(data)
        except serializers.ValidationError as error:
            raise serializers.ValidationError({**error.detail, **surplus}) from error
        if surplus:
            raise serializers.ValidationError(surplus)
        return values


class AnyJSON(serializers.Field):
    """Any JSON value of the user's, untouched both ways."""

    def to_internal_value(self, data: Any) -> Any:
        """Return what came."""
        return data

    def to_representation(self, value: Any) -> Any:
        """Return what is stored."""
        return value


class DataField(AnyJSON):
    """A JSON object of the user's (`fields`, `inputs`, bodies); its keys are never touched."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the object. Raises ValidationError for anything else."""
        if not isinstance(data, dict):
            raise serializers.ValidationError("Expected an object.")
        return data


class ListOf(serializers.Field):
    """A list of objects of one shape, each of them whole also in a PATCH.

    REST framework's own nesting lets a PATCH leave out what the parts require, and skips their defaults.
    """

    def __init__(self, part: type[serializers.Serializer], *, max_length: int, **options: Any) -> None:
        super().__init__(**options)
        self.part = part
        self.max_length = max_length

    def to_internal_value(self, data: Any) -> list[dict[str, Any]]:
        """Return the values of each part. Raises ValidationError with every fault of every part."""
        serializer = self.part(data=data, many=True, max_length=self.max_length, context=self.context)
        serializer.is_valid(raise_exception=True)
        return [dict(values) for values in serializer.validated_data]

    def to_representation(self, value: Any) -> Any:
        """Return what is stored."""
        return value


class Instant(serializers.DateTimeField):
    """An instant: ISO 8601, shown in UTC with `Z`; one that names no zone is in UTC."""

    def __init__(self, **options: Any) -> None:
        super().__init__(default_timezone=UTC, **options)

    def to_representation(self, value: datetime | None) -> str | None:
        """Return the text that the API shows."""
        return None if value is None else instant_text(value)


class Cursor(pagination.BasePagination):
    """Keyset pages by the internal id: nothing is counted, nothing is lost or doubled on equal times.

    Newest first; a view whose list is oldest first sets `cursor_ordering = "id"`. The cursor in the address
    is sealed, so that it neither tells an internal id nor opens another list or another tenant's.
    """

    def paginate_queryset(self, queryset: QuerySet, request: Request, view: Any = None) -> list[Any]:
        """Return the rows of the asked page. Raises RequestRefused 400 for a bad `cursor` or `pageSize`."""
        self.request = request
        self.place = f"cursor/{getattr(getattr(request, 'tenant', None), 'pk', 0)}{request.path.rstrip('/')}"
        self.size = _page_size(request.query_params.get("pageSize"))
        is_newest_first = getattr(view, "cursor_ordering", "-id") == "-id"
        backwards, position = self._position(request.query_params.get("cursor"))
        descending = is_newest_first != backwards
        if position is not None:
            queryset = queryset.filter(**{"pk__lt" if descending else "pk__gt": position})
        rows = list(queryset.order_by("-pk" if descending else "pk")[: self.size + 1])
        has_more = len(rows) > self.size
        rows = rows[: self.size]
        if backwards:
            rows.reverse()
        self.next = rows[-1].pk if rows and (has_more or backwards) else None
        self.previous = rows[0].pk if rows and position is not None and (has_more or not backwards) else None
        return rows

    def get_paginated_response(self, data: Any) -> Response:
        """Return `{"results", "next", "previous"}` with absolute addresses or null."""
        return Response(
            {
                "results": data,
                "next": self._address("n", self.next),
                "previous": self._address("p", self.previous),
            }
        )

    def _position(self, cursor: str | None) -> tuple[bool, int | None]:
        if cursor is None:
            return False, None
        try:
            opened = crypto.decrypt(cursor, bound_to=self.place)
            return opened[0] == "p", int(opened[1:])
        except (crypto.DecryptionError, ValueError) as error:
            fault = {
                "pointer": "/cursor",
                "message": "Expected the cursor of a `next` or `previous` address.",
            }
            raise RequestRefused(
                "cursor.invalid", "The cursor is not one of this list.", errors=[fault]
            ) from error

    def _address(self, direction: str, position: int | None) -> str | None:
        if position is None:
            return None
        query = {name: value for name, value in self.request.query_params.items() if name != "cursor"}
        query["cursor"] = crypto.encrypt(f"{direction}{position}", bound_to=self.place)
        return f"{settings.CSBOT_PUBLIC_URL}{self.request.path}?{urlencode(query)}"


def _page_size(raw: str | None) -> int:
    if raw is None:
        return DEFAULT_PAGE
    is_whole = raw.isascii() and raw.isdigit() and len(raw) <= 6
    if not is_whole or not 1 <= int(raw) <= MAX_PAGE:
        raise bad_parameter("filter.invalid", "pageSize", f"Expected a whole number from 1 to {MAX_PAGE}.")
    return int(raw)
