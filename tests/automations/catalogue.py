"""A small tenant for the pure checks of trees: what it has is a table, so nothing is asked of a database."""

from typing import Any

from automations import tree
from automations.scope import OperationSpec
from automations.tree import TreeError


def schema(*required: str, optional: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {"properties": {name: {} for name in (*required, *optional)}, "required": list(required), **more}


TICKET = ("ticket",)
SPECS = [
    OperationSpec(
        "ticket/upsert",
        schema("externalId", optional=("title", "type", "status", "tags", "fields", "update")),
        ("ticket", "number", "created"),
    ),
    OperationSpec("ticket/find", schema(optional=("number", "externalId")), ("found", "ticket")),
    OperationSpec("ticket/set-status", schema("status", optional=TICKET)),
    OperationSpec("ticket/set-type", schema("type", optional=TICKET)),
    OperationSpec("ticket/assign", schema(optional=("person", "group", *TICKET))),
    OperationSpec(
        "flow/call", schema("automation", optional=("inputs", "wait")), ("runId", "status", "outputs")
    ),
    OperationSpec("flow/log", schema("message", optional=("level",))),
    OperationSpec("data/set", schema("name", optional=("value",)), ("name", "value")),
    OperationSpec(
        "http/request",
        schema("path", optional=("method", "query", "headers", "json", "idempotencyKey")),
        ("status", "headers", "body"),
        "http",
    ),
    OperationSpec(
        "mcp/call-tool", schema("tool", optional=("arguments",), additionalProperties=True), None, "mcp"
    ),
]


class Shop:
    """Knows two groups, two types, a person, two connections, an automation and a custom field."""

    names = {
        "group": {"warehouse", "it"},
        "type": {"order", "error"},
        "person": {"jana@acme.test"},
        "automation": {"Orders"},
    }
    providers = {"shop": "http", "tools": "mcp"}

    def operation(self, op: str) -> OperationSpec | None:
        return next((spec for spec in SPECS if spec.op == op), None)

    def has(self, kind: str, reference: str) -> bool:
        return reference in self.names[kind]

    def provider_of(self, connection: str) -> str | None:
        return self.providers.get(connection)

    def ticket_fields(self) -> set[str]:
        return {"f_color"}

    def statuses(self, type_key: str | None) -> set[str]:
        offered = {"order": {"new", "packed"}, "error": {"new", "known"}}
        return set().union(*offered.values()) if type_key is None else offered.get(type_key, set())


def action(op: str = "flow/log", id: str = "st_1", **more: Any) -> dict[str, Any]:
    inputs = more.pop("inputs", {"message": "hello"} if op == "flow/log" else {})
    return {"id": id, "type": "action", "op": op, "inputs": inputs, **more}


def say(text: Any, id: str = "st_say", **more: Any) -> dict[str, Any]:
    """A step that looks up what its message names."""
    return action("flow/log", id, inputs={"message": text}, **more)


def request(id: str = "st_call", **more: Any) -> dict[str, Any]:
    inputs = more.pop("inputs", {"path": "/orders"})
    return action("http/request", id, inputs=inputs, connection=more.pop("connection", "shop"), **more)


def condition(*rules: dict[str, Any], id: str = "st_if", **more: Any) -> dict[str, Any]:
    given = list(rules) or [rule("orderId", "isNotEmpty")]
    return {"id": id, "type": "condition", "match": "all", "rules": given, "then": [], "else": [], **more}


def rule(field: str, operator: str, value: Any = None) -> dict[str, Any]:
    return {"fieldId": field, "operator": operator} | ({} if value is None else {"value": value})


def loop(*steps: dict[str, Any], id: str = "st_loop", **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "loop", "items": "{{_body.items}}", "as": "item", "steps": list(steps), **more}


PARAMS = [
    {"id": "f_order", "name": "orderId", "path": "data.order.id", "type": "string", "required": True},
    {"id": "f_result", "name": "result", "path": "result", "type": "string", "required": False},
    {"id": "f_total", "name": "total", "path": "total", "type": "number", "required": False},
]
WEBHOOK = {"kind": "webhook", "params": PARAMS}
TICKET_TRIGGER = {"kind": "ticket", "on": ["created", "changed"]}


def document(*steps: Any, trigger: Any = WEBHOOK) -> dict[str, Any]:
    return {"trigger": trigger, "steps": list(steps)}


def upsert(id: str = "st_ticket", **inputs: Any) -> dict[str, Any]:
    return action("ticket/upsert", id, inputs={"externalId": "{{orderId}}", **inputs})


def faults(raw: Any) -> list[tuple[str, str]]:
    try:
        tree.parse(raw, Shop())
    except TreeError as error:
        assert all(fault.message.strip() for fault in error.faults)
        return [(fault.pointer, fault.code) for fault in error.faults]
    return []
