"""The three automations of the demo company, as anyone would post them to `/api/automations`."""

from __future__ import annotations

from typing import Any

WAITING = "waiting for packing"

ORDERS: dict[str, Any] = {
    "name": "Orders",
    "trigger": {
        "kind": "webhook",
        "params": [
            {"id": "f_order", "name": "orderId", "path": "data.order.id", "type": "string", "required": True}
        ],
    },
    "steps": [
        {
            "id": "st_ticket",
            "type": "action",
            "op": "ticket/upsert",
            "inputs": {
                "externalId": "{{orderId}}",
                "title": "Objednávka {{orderId}}",
                "type": "order",
                "status": "new",
                "tags": [WAITING],
            },
        }
    ],
}

HAND_OVER: dict[str, Any] = {
    "name": "Hand over to the warehouse",
    "trigger": {
        "kind": "ticket",
        "on": ["created", "changed"],
        "filter": {"type": "order", "tags": [WAITING]},
    },
    "steps": [
        {
            "id": "st_assign",
            "type": "action",
            "op": "ticket/assign-least-busy",
            "inputs": {"group": "warehouse"},
        }
    ],
}

# An error without a document is known by its message, so that two different ones never share a ticket.
CONVERTER_ERRORS: dict[str, Any] = {
    "name": "Converter errors",
    "trigger": {
        "kind": "webhook",
        "params": [
            {
                "id": "f_message",
                "name": "message",
                "path": "errors.0.message",
                "type": "string",
                "required": True,
            },
            {"id": "f_doc", "name": "documentId", "path": "document.id", "type": "string", "required": False},
        ],
    },
    "steps": [
        {
            "id": "st_known",
            "type": "condition",
            "match": "all",
            "rules": [{"fieldId": "f_doc", "operator": "isNotEmpty"}],
            "then": [
                {
                    "id": "st_by_document",
                    "type": "action",
                    "op": "data/set",
                    "inputs": {"name": "errorKey", "value": "{{documentId}}"},
                }
            ],
            "else": [
                {
                    "id": "st_by_message",
                    "type": "action",
                    "op": "data/set",
                    "inputs": {"name": "errorKey", "value": "{{message}}"},
                }
            ],
        },
        {
            "id": "st_ticket",
            "type": "action",
            "op": "ticket/upsert",
            "inputs": {
                "externalId": "{{errorKey}}",
                "title": "Převodník dokumentů: {{message}}",
                "description": 'Dokument: {{documentId | default: "neznámý"}}',
                "type": "error",
                "status": "new",
            },
        },
        {
            "id": "st_assign",
            "type": "action",
            "op": "ticket/assign-least-busy",
            "inputs": {"group": "it"},
        },
        {
            "id": "st_incident",
            "type": "action",
            "op": "incident/create",
            "inputs": {
                "title": "Převodník dokumentů hlásí chybu",
                "impact": 'Dokument {{documentId | default: "bez čísla"}} nebyl převeden: {{message}}',
                "cause": "{{errorKey}}",
            },
        },
    ],
}

AUTOMATIONS: list[tuple[dict[str, Any], str | None]] = [
    (ORDERS, "orders"),
    (HAND_OVER, None),
    (CONVERTER_ERRORS, "converter-errors"),
]
"""Each automation with the name of its address in demo.json, None where there is no webhook."""
