"""What can provide a placeholder or a field, by where it stands in the tree (SPEC sections 3 and 3.3)."""

import pytest

from tests.automations.catalogue import (
    TICKET_TRIGGER,
    action,
    condition,
    document,
    faults,
    loop,
    request,
    rule,
    say,
    upsert,
)

SET = action("data/set", "st_set", inputs={"name": "note", "value": "{{result}}"})
SET_ANY = action("data/set", "st_set", inputs={"name": "{{result}}"})
POLL = {"kind": "poll"}
MANUAL = {"kind": "manual", "params": [{"name": "orderId"}]}
PROVIDED = {
    # steps, where a step stands last that says {{…}}; whether it can be provided
    "parameter": ([], "orderId", True),
    "id of a parameter": ([], "f_order", False),
    "below a parameter": ([], "orderId.x", True),
    "body": ([], "_body.items.0", True),
    "headers": ([], "_headers.x-github-event", True),
    "unknown name": ([], "orderid", False),
    "code": ([], "orderId + 1", False),
    "step before": ([request()], "st_call.body.id", True),
    "whole step": ([request()], "st_call", True),
    "output that is none": ([request()], "st_call.code", False),
    "any output": (
        [action("mcp/call-tool", connection="tools", inputs={"tool": "t"})],
        "st_1.whatever",
        True,
    ),
    "output of a step without any": ([action()], "st_1.x", False),
    "bare output": ([request()], "status", True),
    "bare output of nobody": ([], "status", False),
    "output that nobody waits for": ([request(wait=False)], "status", False),
    "run of a step that nobody waits for": ([request(wait=False)], "st_call.runId", True),
    "its bare name": ([request(wait=False)], "runId", True),
    "answer of a step that nobody waits for": ([request(wait=False)], "st_call.status", False),
    "any answer of a step that nobody waits for": (
        [action("mcp/call-tool", connection="tools", inputs={"tool": "t"}, wait=False)],
        "st_1.whatever",
        False,
    ),
    "built-in step, which always waits": ([{**upsert(), "wait": False}], "st_ticket.number", True),
    "step after": ([], "st_after.status", False),
    "itself": ([], "st_say", False),
    "inside a branch, after it": ([condition(then=[request()])], "st_call.status", True),
    "inside the other branch, after it": ([condition(**{"else": [request()]})], "status", True),
    "set": ([SET], "note", True),
    "set by its step": ([SET], "st_set.value", True),
    "set by a template": ([SET_ANY], "whatever.x", True),
    "set by a template in a branch": ([condition(then=[SET_ANY])], "whatever", True),
    "loop variable after the loop": ([loop()], "item.sku", True),
    "step of a loop after it": ([loop(request())], "st_call.status", True),
    "ticket before there is one": ([], "ticket.number", False),
    "ticket after upsert": ([upsert()], "ticket.number", True),
    "error outside": (
        [request(onError={"steps": [say("{{error.message}}", "st_x")]})],
        "error.message",
        False,
    ),
    "step of onError after it": ([request(onError={"steps": [SET]})], "note", True),
}


@pytest.mark.parametrize(("steps", "path", "holds"), PROVIDED.values(), ids=PROVIDED)
def test_what_can_be_looked_up(steps, path, holds):
    told = faults(document(*steps, say(f"{{{{{path}}}}}"), request("st_after")))
    assert told == ([] if holds else [(f"/steps/{len(steps)}/inputs/message", "reference.unknown")])


def test_what_an_unknown_operation_answers_is_not_told_as_well():
    assert faults(document(action("no/such"), say("{{st_1.x}}"))) == [("/steps/0/op", "op.unknown")]


INSIDE = {
    "branch sees what is before": (document(request(), condition(then=[say("{{st_call.status}}")])), []),
    "branch does not see the other": (
        document(condition(then=[request()], **{"else": [say("{{st_call.status}}")]})),
        ["/steps/0/else/0/inputs/message"],
    ),
    "loop sees its variable": (document(loop(say("{{item.sku}}"))), []),
    "items do not": (document(loop(items="{{item}}")), ["/steps/0/items"]),
    "loop sees an earlier pass": (
        document(loop(say("{{st_call.status}} {{note}}"), request(), condition(then=[SET]))),
        [],
    ),
    "loop sees the variable of an inner loop": (
        document(loop(say("{{inner}}"), loop(id="l", **{"as": "inner"}))),
        [],
    ),
    "onError sees the error": (document(request(onError={"steps": [say("{{error.message}}")]})), []),
    "onError does not see the failed step": (
        document(request(onError={"steps": [say("{{st_call.status}}")]})),
        ["/steps/0/onError/steps/0/inputs/message"],
    ),
    "error of an outer step": (
        document(
            request(
                onError={
                    "steps": [request("b", onError={"steps": [say("x")]}), say("{{error.message}}", "c")]
                }
            )
        ),
        [],
    ),
    "value of a rule": (
        document(condition(rule("orderId", "in", ["{{result}}", "{{no}}"]))),
        ["/steps/0/rules/0/value/1"],
    ),
    "poll has no body": (document(say("{{_body.x}}"), trigger=POLL), ["/steps/0/inputs/message"]),
    "manual run has a body, no headers": (
        document(say("{{_body.x}} {{orderId}}"), say("{{_headers.x}}", "b"), trigger=MANUAL),
        ["/steps/1/inputs/message"],
    ),
    "ticket run": (
        document(say("{{ticket.fields.color}} {{event}} {{changes.status.to}}"), trigger=TICKET_TRIGGER),
        [],
    ),
    "ticket run has no body": (
        document(say("{{_body}}"), trigger=TICKET_TRIGGER),
        ["/steps/0/inputs/message"],
    ),
    "unknown trigger": (
        document(say("{{_body}} {{ticket}}"), condition(rule("status", "changed")), trigger={}),
        ["/trigger/kind"],
    ),
}


@pytest.mark.parametrize(("raw", "pointers"), INSIDE.values(), ids=INSIDE)
def test_what_can_be_looked_up_inside(raw, pointers):
    assert [pointer for pointer, _ in faults(raw)] == pointers


FIELDS = [
    # field, operator, in a webhook run, in a ticket run
    ("f_order", "eq", True, False),
    ("orderId", "eq", True, False),
    ("status", "eq", False, True),
    ("group", "eq", False, True),
    ("f_color", "eq", False, True),
    ("f_nothing", "eq", False, False),
    ("ticket.status", "eq", False, True),
    ("_body.x", "eq", True, False),
    ("status", "changed", False, True),
    ("a." * 101, "eq", False, False),
]


@pytest.mark.parametrize(("field", "operator", "webhook", "ticket"), FIELDS)
def test_fields_of_conditions(field, operator, webhook, ticket):
    assert (faults(document(condition(rule(field, operator)))) == []) is webhook
    assert (faults(document(condition(rule(field, operator)), trigger=TICKET_TRIGGER)) == []) is ticket


def test_a_field_may_be_an_output():
    assert (
        faults(document(request(), condition(rule("st_call.status", "eq", 200), rule("status", "eq", 200))))
        == []
    )


def test_changes_are_of_ticket_runs():
    told = faults(document(condition(rule("orderId", "changedTo", "x"))))
    assert told == [("/steps/0/rules/0/operator", "operator.invalid")]
