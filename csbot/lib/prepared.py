"""Statements of the hot path: planned once for each connection, sent to libpq without a cursor in between.

For a statement that every event executes. Planning the two of a webhook took PostgreSQL longer than executing them (350
of 420 µs for the look-up of a token), and the cursors of Django and psycopg take about 100 µs of the interpreter's time
for each execution, of which this leaves 30 (measured on one core).
"""

from __future__ import annotations

import hashlib
import re
import uuid
import weakref
from datetime import datetime
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, Format, TransactionStatus

_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")
# What each connection has prepared; forgotten with the connection.
_prepared: weakref.WeakKeyDictionary[psycopg.Connection[Any], set[bytes]] = weakref.WeakKeyDictionary()


class Statement:
    """One statement over `%(name)s` placeholders, whose types PostgreSQL infers or a cast (`::bytea`) names.

    Runs on `django.db.connection`, in the transaction that is open there, if any. Values are None, str, int, float,
    bool, bytes, UUID and aware datetimes. Where a name stands twice, PostgreSQL has to infer one type for it, or a cast
    names it in each place.
    """

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._names = list(dict.fromkeys(name for name in _PLACEHOLDER.findall(sql) if name))
        place = {name: f"${number}" for number, name in enumerate(self._names, 1)}
        self._text = _PLACEHOLDER.sub(lambda found: place[found[1]] if found[1] else "%", sql).encode()
        self._name = b"csbot_" + hashlib.sha256(self._text).hexdigest()[:16].encode()

    def row(self, **values: Any) -> tuple[Any, ...] | None:
        """Execute it and return the first row, or None when there is none. Raises django.db.Error."""
        wrapper = connections[DEFAULT_DB_ALIAS]
        wrapper.ensure_connection()
        if wrapper.queries_logged or wrapper.execute_wrappers:
            # Whoever watches Django's statements sees this one as well.
            with wrapper.cursor() as cursor:
                cursor.execute(self.sql, values)
                seen: tuple[Any, ...] | None = cursor.fetchone()
                return seen
        given = [values[name] for name in self._names]
        with wrapper.wrap_database_errors:
            return self._row(wrapper.connection, given)

    def _row(self, connection: psycopg.Connection[Any], values: list[Any]) -> tuple[Any, ...] | None:
        pgconn = connection.pgconn
        if not connection.autocommit and pgconn.transaction_status == TransactionStatus.IDLE:
            # Outside autocommit psycopg begins a transaction before its first statement; this one goes past it.
            _checked(pgconn, pgconn.exec_(b"BEGIN"))
        known = _prepared.setdefault(connection, set())
        if self._name not in known:
            _checked(pgconn, pgconn.prepare(self._name, self._text))
            known.add(self._name)
        formats = [Format.BINARY if isinstance(value, bytes) else Format.TEXT for value in values]
        # The types of psycopg do not name None, which is NULL.
        dumped: list[Any] = [_dumped(value) for value in values]
        result = _checked(pgconn, pgconn.exec_prepared(self._name, dumped, formats))
        if result.ntuples == 0:
            return None
        transformer = Transformer(connection)
        transformer.set_pgresult(result, format=Format.TEXT)
        return transformer.load_row(0, tuple)


def _dumped(value: Any) -> bytes | None:
    """Return a value as PostgreSQL reads it, bytes in binary format and all others as text."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int | float | uuid.UUID):
        return str(value).encode()
    if isinstance(value, datetime):
        return value.isoformat().encode()
    raise TypeError(f"A prepared statement takes no {type(value).__name__}.")


def _checked(pgconn: psycopg.pq.abc.PGconn, result: psycopg.pq.abc.PGresult) -> psycopg.pq.abc.PGresult:
    """Return a result that succeeded. Raises psycopg.Error of the class of its SQLSTATE."""
    if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        return result
    message = result.get_error_message()
    state = result.error_field(DiagnosticField.SQLSTATE)
    if state is None or pgconn.status == ConnStatus.BAD:
        raise psycopg.OperationalError(message)
    raise psycopg.errors.lookup(state.decode())(message)
