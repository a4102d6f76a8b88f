"""Warnings: what is allowed and regretted (SPEC section 3)."""

from typing import Any

import pytest

from automations import lint, tree
from tests.automations.catalogue import (
    TICKET_TRIGGER,
    WEBHOOK,
    Shop,
    action,
    condition,
    document,
    loop,
    request,
    rule,
    say,
    upsert,
)


def warnings(raw: Any) -> list[tuple[str, str]]:
    known = Shop()
    found = lint.warnings(tree.parse(raw, known), known)
    assert all(one.message.endswith((".", "'")) for one in found), found
    return [(one.pointer, one.code) for one in found]


def ticket(*steps: Any, **filter_: Any) -> dict[str, Any]:
    return document(*steps, trigger={**TICKET_TRIGGER, "filter": filter_} if filter_ else TICKET_TRIGGER)


NEQ, EMPTY, ARRIVED = rule("f_result", "neq", "x"), rule("f_result", "isEmpty"), rule("result", "isNotEmpty")
OPTIONAL = {
    "neq": (document(condition(NEQ)), ["/steps/0/rules/0"]),
    "notContains": (document(condition(rule("result", "notContains", "x"))), ["/steps/0/rules/0"]),
    "eq": (document(condition(rule("f_result", "eq", "x"))), []),
    "required": (document(condition(rule("f_order", "neq", "x"))), []),
    "no parameter": (document(condition(rule("_body.x", "neq", "x"))), []),
    "older form": (
        document({"id": "s", "type": "condition", "fieldId": "f_result", "operator": "neq", "value": "x"}),
        ["/steps/0"],
    ),
    "with isNotEmpty": (document(condition(ARRIVED, NEQ)), []),
    "isNotEmpty of another": (document(condition(rule("f_total", "isNotEmpty"), NEQ)), ["/steps/0/rules/1"]),
    "any of isNotEmpty": (document(condition(ARRIVED, NEQ, match="any")), ["/steps/0/rules/1"]),
    "inside isNotEmpty": (document(condition(ARRIVED, id="a", then=[loop(condition(NEQ))])), []),
    "inside any of isNotEmpty": (
        document(condition(ARRIVED, rule("f_total", "gt", 1), id="a", match="any", then=[condition(NEQ)])),
        ["/steps/0/then/0/rules/0"],
    ),
    "else of isEmpty": (document(condition(EMPTY, id="a", **{"else": [condition(NEQ)]})), []),
    "else of isEmpty and more": (
        document(condition(EMPTY, rule("f_total", "gt", 1), id="a", **{"else": [condition(NEQ)]})),
        ["/steps/0/else/0/rules/0"],
    ),
    "else of isEmpty or more": (
        document(
            condition(EMPTY, rule("f_total", "gt", 1), id="a", match="any", **{"else": [condition(NEQ)]})
        ),
        [],
    ),
    "then of isEmpty": (
        document(condition(EMPTY, id="a", then=[condition(NEQ)])),
        ["/steps/0/then/0/rules/0"],
    ),
    "after isNotEmpty": (document(condition(ARRIVED, id="a"), condition(NEQ)), ["/steps/1/rules/0"]),
    "in onError": (
        document(request(onError={"steps": [condition(NEQ)]})),
        ["/steps/0/onError/steps/0/rules/0"],
    ),
}


@pytest.mark.parametrize(("raw", "pointers"), OPTIONAL.values(), ids=OPTIONAL)
def test_negations_of_what_may_not_arrive(raw, pointers):
    assert warnings(raw) == [(pointer, "rule.optional") for pointer in pointers]


@pytest.mark.parametrize("operator", ["gt", "gte", "lt", "lte"])
def test_ordering_of_a_text(operator):
    assert warnings(document(condition(rule("orderId", operator, 5)))) == [
        ("/steps/0/rules/0/operator", "rule.textOrder")
    ]
    assert warnings(document(condition(rule("f_total", operator, 5)))) == []


STATUSES = {
    "of any type": (document(action("ticket/set-status", inputs={"status": "packed"})), []),
    "of no type": (
        document(action("ticket/set-status", inputs={"status": "lost"})),
        ["/steps/0/inputs/status"],
    ),
    "template": (document(action("ticket/set-status", inputs={"status": "{{result}}"})), []),
    "upsert": (document(upsert(status="lost")), ["/steps/0/inputs/status"]),
    "upsert with its type": (document(upsert(status="packed", type="order")), []),
    "upsert with another type": (document(upsert(status="packed", type="error")), ["/steps/0/inputs/status"]),
    "upsert with some type": (document(upsert(status="packed", type="{{result}}")), []),
    "upsert without": (document(upsert(), upsert("b", status="")), []),
    "filter": (ticket(status=["new", "lost"]), ["/trigger/filter/status/1"]),
    "filter of one": (ticket(status="lost"), ["/trigger/filter/status"]),
    "filter of a type": (ticket(type="order"), []),
    "rule": (ticket(condition(rule("status", "eq", "lost"))), ["/steps/0/rules/0/value"]),
    "rule by path": (
        ticket(condition(rule("ticket.status", "in", ["new", "lost"]))),
        ["/steps/0/rules/0/value/1"],
    ),
    "change": (ticket(condition(rule("status", "changedTo", "lost"))), ["/steps/0/rules/0/value"]),
    "part of a status": (ticket(condition(rule("status", "contains", "los"))), []),
    "status of another thing": (document(request(), condition(rule("status", "eq", "lost"))), []),
    "parameter of that name": (
        document(
            upsert(),
            condition(rule("ticket.status", "eq", "lost"), rule("x", "eq", "lost")),
            trigger={
                "kind": "webhook",
                "params": [{"name": "orderId"}, {"name": "x", "id": "ticket.status"}],
            },
        ),
        [],
    ),
}


@pytest.mark.parametrize(("raw", "pointers"), STATUSES.values(), ids=STATUSES)
def test_statuses_that_no_type_offers(raw, pointers):
    assert warnings(raw) == [(pointer, "status.unoffered") for pointer in pointers]


CALL = action("flow/call", "st_call2", inputs={"automation": "Orders"})
SET = action("data/set", "st_set", inputs={"name": "status", "value": 1})
USE = say("{{status}}")
STATUS_PARAM = {**WEBHOOK, "params": [{"name": "status"}]}
NAMES = {
    "two writers": (document(request(), CALL, USE), ["/steps/2/inputs/message"]),
    "one writer": (document(request(), USE), []),
    "by their ids": (document(request(), CALL, say("{{st_call.status}}")), []),
    "before the second": (document(request(), USE, CALL), []),
    "nobody looks": (document(request(), CALL), []),
    "told once a text": (
        document(request(), CALL, say("{{status}} {{status.x}}")),
        ["/steps/2/inputs/message"],
    ),
    "field of a condition": (
        document(request(), CALL, condition(rule("status", "eq", 200))),
        ["/steps/2/rules/0/fieldId"],
    ),
    "parameter of that name": (document(request(), CALL, USE, trigger=STATUS_PARAM), []),
    "either branch": (
        document(condition(rule("_body.x", "isTrue"), then=[request()], **{"else": [CALL]}), USE),
        [],
    ),
    "before and in a branch": (
        document(request(), condition(rule("_body.x", "isTrue"), then=[CALL]), USE),
        ["/steps/2/inputs/message"],
    ),
    "in a loop": (document(loop(request(), USE)), []),
    "two in a loop": (document(loop(request(), CALL, USE)), ["/steps/0/steps/2/inputs/message"]),
    "two in a loop, after it": (document(loop(request(), CALL), USE), ["/steps/1/inputs/message"]),
    "in place of a failed one": (document(request(onError={"steps": [CALL]}), USE), []),
    "set and output": (document(request(), SET, USE), ["/steps/2/inputs/message"]),
    "set twice": (document(SET, {**SET, "id": "b"}, USE), []),
    "nobody waits": (document(request(), request("b", wait=False), USE), []),
    "the run's ticket": (
        document(action("ticket/find", "a"), action("ticket/find", "b"), upsert(), say("{{ticket.number}}")),
        [],
    ),
    "found tickets": (
        document(action("ticket/find", "a"), action("ticket/find", "b"), say("{{ticket.number}}")),
        ["/steps/2/inputs/message"],
    ),
    "ticket of a ticket run": (
        ticket(action("ticket/find", "a"), action("ticket/find", "b"), say("{{ticket}}")),
        [],
    ),
}


@pytest.mark.parametrize(("raw", "pointers"), NAMES.values(), ids=NAMES)
def test_bare_names_that_two_steps_write(raw, pointers):
    assert warnings(raw) == [(pointer, "name.ambiguous") for pointer in pointers]


def test_the_message_names_the_ways_out():
    known = Shop()
    (told,) = lint.warnings(tree.parse(document(request(), SET, CALL, USE), known), known)
    assert (
        told.message
        == "`status` is written by 3 steps and the first one counts; say {{st_call.status}} or {{st_call2.status}}."
    )
