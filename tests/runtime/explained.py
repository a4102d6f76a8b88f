"""The plans of the statements that a piece of code runs, as PostgreSQL makes them with the present statistics."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db import connection


@dataclass
class Plan:
    """Which tables the statements read whole, and which indexes they used."""

    scanned_whole: set[str] = field(default_factory=set)
    indexes: set[str] = field(default_factory=set)


def plan_of(code: Callable[[], Any], *tables: str) -> Plan:
    """Run `code` and return the plans of its statements; only `tables` are told, after an ANALYZE of them."""
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ANALYZE {table}")
    statements: list[tuple[str, Any]] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        code()
    plan = Plan()
    with connection.cursor() as cursor:
        for sql, params in statements:
            if sql.lstrip().startswith(("SELECT", "WITH", "UPDATE", "DELETE")):
                cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
                for node in _nodes(cursor.fetchone()[0]):
                    if node.get("Node Type") == "Seq Scan" and node["Relation Name"] in tables:
                        plan.scanned_whole.add(node["Relation Name"])
                    if "Index Name" in node:
                        plan.indexes.add(node["Index Name"])
    return plan


def _nodes(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, list):
        for part in document:
            yield from _nodes(part)
    elif isinstance(document, dict):
        yield document
        for part in document.values():
            yield from _nodes(part)
