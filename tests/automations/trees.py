"""Documents that the tests of automations post."""

from typing import Any

ORDER_PARAM = {
    "id": "f_order",
    "name": "orderId",
    "path": "data.order.id",
    "type": "string",
    "required": True,
}


def webhook(**more: Any) -> dict[str, Any]:
    return {"kind": "webhook", "params": [ORDER_PARAM], **more}


def signed(*secrets: str, **more: Any) -> dict[str, Any]:
    """A webhook trigger whose deliveries are signed."""
    return webhook(signature={"scheme": "github", "secrets": list(secrets)}, **more)


def upsert(key: str = "st_ticket", **inputs: Any) -> dict[str, Any]:
    given = {"externalId": "{{orderId}}", "title": "Order {{orderId}}", "type": "order", **inputs}
    return {"id": key, "type": "action", "op": "ticket/upsert", "inputs": given}


def request(key: str = "st_call", connection: str = "shop") -> dict[str, Any]:
    """A step over a connection."""
    inputs = {"method": "GET", "path": "/orders"}
    return {"id": key, "type": "action", "op": "http/request", "connection": connection, "inputs": inputs}


def call(automation: str, key: str = "st_callee") -> dict[str, Any]:
    """A step that starts another automation."""
    return {"id": key, "type": "action", "op": "flow/call", "inputs": {"automation": automation}}


def orders(**more: Any) -> dict[str, Any]:
    """The automation that the shop's orders start."""
    return {"name": "Orders", "trigger": webhook(), "steps": [upsert()], **more}
