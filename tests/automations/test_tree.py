"""Trees: how they are read and written, and every fault with its pointer (SPEC section 3)."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from automations import tree
from automations.conditions import OPERATORS, Rule
from automations.steps import MAX_DATA_DEPTH, walk
from automations.tree import MAX_DEPTH, MAX_STEPS, ActionStep, ConditionStep, LoopStep, TreeError
from tests.automations.catalogue import (
    Shop,
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
from tests.automations.properties import PATIENT

FULL = document(
    upsert(title="Order {{orderId}}", type="order"),
    condition(
        rule("f_result", "isNotEmpty"),
        rule("f_result", "eq", "Missing data"),
        then=[request(onError="continue", timeoutSec=30, wait=False)],
        **{"else": [say("{{ticket.number}} {{st_ticket.number}} {{created}}")]},
    ),
    loop(request("st_3", onError={"steps": [say("{{error.message}} {{item.sku}}", "st_4")]})),
    say("{{item}} {{st_3.status}} {{status}}", "st_5"),
)


def test_a_tree_is_read():
    read = tree.parse(FULL, Shop())
    ticket, decision, passes, last = read.steps
    assert isinstance(ticket, ActionStep)
    assert (ticket.op, ticket.inputs["title"], ticket.on_error, ticket.wait, ticket.timeout_sec) == (
        "ticket/upsert",
        "Order {{orderId}}",
        "fail",
        True,
        None,
    )
    assert isinstance(decision, ConditionStep)
    assert (decision.match, decision.rules[1]) == ("all", Rule("f_result", "eq", "Missing data"))
    (sent,) = decision.then
    assert isinstance(sent, ActionStep)
    assert (sent.connection, sent.on_error, sent.timeout_sec, sent.wait) == ("shop", "continue", 30, False)
    assert [step.id for step in decision.otherwise] == ["st_say"]
    assert isinstance(passes, LoopStep)
    assert (passes.items, passes.as_name) == ("{{_body.items}}", "item")
    (call,) = passes.steps
    assert isinstance(call, ActionStep)
    assert [step.id for step in call.on_error] == ["st_4"]  # type: ignore[union-attr]
    assert last.id == "st_5"
    assert [step.pointer for step in walk(read.steps)] == [
        "/steps/0",
        "/steps/1",
        "/steps/1/then/0",
        "/steps/1/else/0",
        "/steps/2",
        "/steps/2/steps/0",
        "/steps/2/steps/0/onError/steps/0",
        "/steps/3",
    ]


def test_what_is_written_is_what_was_read():
    assert tree.dump(tree.parse(FULL, Shop())) == FULL
    assert tree.parse_stored(FULL) == tree.parse(FULL, Shop())


def test_the_older_form_of_a_condition_is_one_rule():
    old = {"id": "st_if", "type": "condition", "fieldId": "f_total", "operator": "gt", "value": 5, "then": []}
    read = tree.parse(document(old), Shop())
    assert tree.dump(read)["steps"] == [condition(rule("f_total", "gt", 5))]
    (step,) = read.steps
    assert isinstance(step, ConditionStep)
    assert step.rules[0].pointer == "/steps/0"


@pytest.mark.parametrize(
    "raw", [action("ticket/assign", ticket="TK-1"), action("ticket/assign", inputs={"ticket": "TK-1"})]
)
def test_a_ticket_is_named_on_the_step_or_among_its_inputs(raw):
    (step,) = tree.parse(document(raw), Shop()).steps
    assert isinstance(step, ActionStep)
    assert (step.ticket, dict(step.inputs)) == ("TK-1", {"ticket": "TK-1"})


STRUCTURE = {
    "no object": ([], [("", "value.invalid")]),
    "empty object": ({}, [("/trigger", "key.missing"), ("/steps", "key.missing")]),
    "unknown key": (
        {**document(), "name": "x", "a/b": 1},
        [("/name", "key.unknown"), ("/a~1b", "key.unknown")],
    ),
    "steps no array": ({**document(), "steps": {}}, [("/steps", "value.invalid")]),
    "trigger no object": (document(trigger="webhook"), [("/trigger", "value.invalid")]),
    "step no object": (document("x", None), [("/steps/0", "value.invalid"), ("/steps/1", "value.invalid")]),
    "no type": (document({"id": "st_1"}), [("/steps/0/type", "key.missing")]),
    "unknown type": (document({"id": "st_1", "type": "goto"}), [("/steps/0/type", "value.invalid")]),
    "unknown step key": (document(action(name="x")), [("/steps/0/name", "key.unknown")]),
    "no id, no op": (
        document({"type": "action"}),
        [("/steps/0/id", "key.missing"), ("/steps/0/op", "key.missing")],
    ),
    "bad ids": (
        document(action(id=""), action(id=5), action(id="a.b"), action(id="_x"), action(id="ticket")),
        [
            ("/steps/0/id", "value.invalid"),
            ("/steps/1/id", "value.invalid"),
            ("/steps/2/id", "id.invalid"),
            ("/steps/3/id", "id.invalid"),
            ("/steps/4/id", "id.invalid"),
        ],
    ),
    "inputs no object": (
        document(action(inputs=[])),
        [("/steps/0/inputs", "value.invalid"), ("/steps/0/inputs/message", "input.missing")],
    ),
    "wrong settings": (
        document(request(timeoutSec=0, wait="no", connection=5)),
        [
            ("/steps/0/wait", "value.invalid"),
            ("/steps/0/connection", "value.invalid"),
            ("/steps/0/timeoutSec", "value.invalid"),
            ("/steps/0/connection", "connection.missing"),
        ],
    ),
    "timeouts": (
        document(
            *[request(f"s{i}", timeoutSec=value) for i, value in enumerate([3601, 1.5, True, "5", None])]
        ),
        [(f"/steps/{i}/timeoutSec", "value.invalid") for i in range(5)],
    ),
    "ticket twice": (
        document(action("ticket/assign", ticket="TK-1", inputs={"ticket": "TK-2"})),
        [("/steps/0/ticket", "value.invalid")],
    ),
    "onError": (
        document(
            action(onError="retry"),
            action(id="b", onError={}),
            action(id="c", onError={"steps": [], "x": 1}),
            action(id="d", onError={"steps": [{}]}),
        ),
        [
            ("/steps/0/onError", "value.invalid"),
            ("/steps/1/onError/steps", "key.missing"),
            ("/steps/2/onError/x", "key.unknown"),
            ("/steps/3/onError/steps/0/type", "key.missing"),
        ],
    ),
    "match": (document(condition(match="none")), [("/steps/0/match", "value.invalid")]),
    "rules no array": (document(condition(rules={})), [("/steps/0/rules", "value.invalid")]),
    "no rules": (document(condition(rules=[])), [("/steps/0/rules", "value.invalid")]),
    "rule no object": (document(condition(rules=["x"])), [("/steps/0/rules/0", "value.invalid")]),
    "empty rule": (
        document(condition(rules=[{"x": 1}])),
        [
            ("/steps/0/rules/0/x", "key.unknown"),
            ("/steps/0/rules/0/fieldId", "key.missing"),
            ("/steps/0/rules/0/operator", "key.missing"),
        ],
    ),
    "unknown operator": (
        document(condition(rule("orderId", "like"))),
        [("/steps/0/rules/0/operator", "value.invalid")],
    ),
    "both forms": (
        document(condition(fieldId="orderId", value="x")),
        [("/steps/0/fieldId", "key.unknown"), ("/steps/0/value", "key.unknown")],
    ),
    "neither form": (
        document({"id": "st_1", "type": "condition"}),
        [("/steps/0/fieldId", "key.missing"), ("/steps/0/operator", "key.missing")],
    ),
    "branches": (
        document(condition(then={}, **{"else": "x"})),
        [("/steps/0/then", "value.invalid"), ("/steps/0/else", "value.invalid")],
    ),
    "empty loop": (
        document({"id": "st_1", "type": "loop"}),
        [
            ("/steps/0/as", "key.missing"),
            ("/steps/0/items", "key.missing"),
            ("/steps/0/steps", "key.missing"),
        ],
    ),
    "loop names": (
        document(loop(**{"as": "_x"}), loop(id="b", **{"as": "ticket"}), loop(id="c", **{"as": "a.b"})),
        [(f"/steps/{i}/as", "name.invalid") for i in range(3)],
    ),
    "loop items": (
        document(
            *[loop(id=f"s{i}", items=value) for i, value in enumerate(["x", "{{_body}} ", {}, 5, None])]
        ),
        [(f"/steps/{i}/items", "value.invalid") for i in range(5)],
    ),
    "loop items, bad syntax": (document(loop(items="{{_body")), [("/steps/0/items", "template.invalid")]),
}


@pytest.mark.parametrize(("raw", "told"), STRUCTURE.values(), ids=STRUCTURE)
def test_faults_of_structure(raw, told):
    assert faults(raw) == told


HTTP = "http/request"
MEANING = {
    "unknown operation": (document(action("no/such")), [("/steps/0/op", "op.unknown")]),
    "missing input": (document(action("ticket/upsert")), [("/steps/0/inputs/externalId", "input.missing")]),
    "null is missing": (
        document(action("ticket/set-status", inputs={"status": None})),
        [("/steps/0/inputs/status", "input.missing")],
    ),
    "unknown input": (
        document(say("x"), action("ticket/assign", inputs={"a/b": 1})),
        [("/steps/1/inputs/a~1b", "input.unknown")],
    ),
    "any input": (document(action("mcp/call-tool", connection="tools", inputs={"tool": "x", "more": 1})), []),
    "unknown references": (
        document(
            action("ticket/assign", "a", inputs={"person": "petr@acme.test"}),
            action("ticket/assign", "b", inputs={"group": "nobody"}),
            action("ticket/set-type", "c", inputs={"type": "nothing"}),
            action("flow/call", "d", inputs={"automation": "None"}),
        ),
        [
            ("/steps/0/inputs/person", "person.unknown"),
            ("/steps/1/inputs/group", "group.unknown"),
            ("/steps/2/inputs/type", "type.unknown"),
            ("/steps/3/inputs/automation", "automation.unknown"),
        ],
    ),
    "known references": (
        document(
            action("ticket/assign", "a", inputs={"person": "jana@acme.test", "group": "{{result}}"}),
            action("flow/call", "d", inputs={"automation": "Orders"}),
            action("ticket/set-type", "c", inputs={"type": 5}),
        ),
        [],
    ),
    "connections": (
        document(
            request("a", connection="no"),
            request("b", connection="tools"),
            action(HTTP, "c", inputs={"path": "/"}),
            action(id="d", connection="shop"),
            request("e", connection="{{result}}"),
            request("f", connection="{{nowhere}}"),
        ),
        [
            ("/steps/0/connection", "connection.unknown"),
            ("/steps/1/connection", "connection.unknown"),
            ("/steps/2/connection", "connection.missing"),
            ("/steps/3/connection", "connection.unused"),
            ("/steps/5/connection", "reference.unknown"),
        ],
    ),
    "same id": (
        document(action(), condition(then=[action()]), loop(action(id="st_if"))),
        [("/steps/1/then/0/id", "id.duplicate"), ("/steps/2/steps/0/id", "id.duplicate")],
    ),
    "id of a parameter": (document(action(id="orderId")), [("/steps/0/id", "id.taken")]),
    "names of steps": (
        document(loop(**{"as": "st_loop"}), action("data/set", "b", inputs={"name": "st_loop"})),
        [("/steps/0/as", "name.taken"), ("/steps/1/inputs/name", "name.taken")],
    ),
    "bad name of a value": (
        document(
            *[
                action("data/set", f"s{i}", inputs={"name": name})
                for i, name in enumerate(["_x", "ticket", 5])
            ]
        ),
        [("/steps/0/inputs/name", "name.invalid"), ("/steps/1/inputs/name", "name.invalid")],
    ),
    "bad template": (
        document(say("{{a"), say(["{{result | shell}}"], "b")),
        [("/steps/0/inputs/message", "template.invalid"), ("/steps/1/inputs/message/0", "template.invalid")],
    ),
    "everything at once": (
        document(
            action("no/such", "a", inputs={"x": "{{nowhere}}"}),
            action("ticket/upsert", "a"),
            condition(rule("nothing", "eq", "{{less}}")),
            request("q", connection="no", inputs={}),
            trigger={"kind": "webhook", "params": [{"name": "1"}]},
        ),
        [
            ("/trigger/params/0/name", "name.invalid"),
            ("/steps/1/id", "id.duplicate"),
            ("/steps/0/inputs/x", "reference.unknown"),
            ("/steps/0/op", "op.unknown"),
            ("/steps/1/inputs/externalId", "input.missing"),
            ("/steps/2/rules/0/value", "reference.unknown"),
            ("/steps/2/rules/0/fieldId", "reference.unknown"),
            ("/steps/3/inputs/path", "input.missing"),
            ("/steps/3/connection", "connection.unknown"),
        ],
    ),
}


@pytest.mark.parametrize(("raw", "told"), MEANING.values(), ids=MEANING)
def test_faults_of_meaning(raw, told):
    assert faults(raw) == told


# --- sizes --------------------------------------------------------------------------------------------------


def test_there_are_fifty_steps_at_most_wherever_they_stand():
    inner = [say("x", f"s{index}") for index in range(46)]
    whole = [request(onError={"steps": [say("x", "e")]}), loop(), condition(then=inner)]
    assert sum(1 for _ in walk(tree.parse(document(*whole), Shop()).steps)) == MAX_STEPS
    told = faults(document(*whole, say("x", "last"), say("x", "more")))
    assert told == [("/steps/3", "limit.steps")]


def test_the_limit_is_told_once():
    inner = [say("x", f"s{index}") for index in range(MAX_STEPS + 5)]
    told = faults(document(condition(then=inner), say("x", "last"), say("x", "more")))
    assert told == [(f"/steps/0/then/{MAX_STEPS - 1}", "limit.steps")]


def test_steps_beyond_the_limit_are_not_read():
    told = faults(document(*[action("no/such", f"s{index}") for index in range(100_000)]))
    assert told == [
        (f"/steps/{MAX_STEPS}", "limit.steps"),
        *((f"/steps/{index}/op", "op.unknown") for index in range(MAX_STEPS)),
    ]


def nested(levels: int, make: Any) -> dict[str, Any]:
    step = say("x", "s0")
    for index in range(1, levels):
        step = make(step, f"s{index}")
    return document(step)


NESTING = {
    "conditions": lambda step, id: condition(id=id, then=[step]),
    "loops": lambda step, id: loop(step, id=id, items=[1]),
    "onError": lambda step, id: request(id, onError={"steps": [step]}),
}


@pytest.mark.parametrize("make", NESTING.values(), ids=NESTING)
def test_fifty_nested_steps_are_a_tree(make):
    raw = nested(MAX_STEPS, make)
    assert tree.dump(tree.parse(raw, Shop())) == raw


@pytest.mark.parametrize("make", NESTING.values(), ids=NESTING)
def test_hostile_nesting_is_refused_without_recursion(make):
    assert faults(nested(50_000, make)) == [("/steps/0", "limit.depth")]


@pytest.mark.parametrize(
    ("deep", "pointer"), [({"trigger": [[]]}, "/trigger/0"), ([[[]]], "/0/0"), ({"a/b": [[]]}, "/a~1b/0")]
)
def test_depth_is_told_by_the_first_two_keys(deep, pointer):
    inner: Any = []
    for _ in range(MAX_DEPTH):
        inner = [inner]
    key = next(iter(deep)) if isinstance(deep, dict) else 0
    deep[key][0] = inner
    assert faults(deep) == [(pointer, "limit.depth")]


def test_data_of_a_step_has_64_levels():
    data: Any = "x"
    for _ in range(MAX_DATA_DEPTH - 2):
        data = [data]
    assert faults(document(request(inputs={"path": "/", "json": [data]}))) == []
    told = faults(
        document(request(inputs={"path": "/", "json": [[data]]}), condition(rule("result", "eq", [[[data]]])))
    )
    assert told == [("/steps/0/inputs", "limit.depth"), ("/steps/1/rules/0/value", "limit.depth")]
    assert faults(document(loop(items=[[[data]]]))) == [("/steps/0/items", "limit.depth")]


def test_an_error_tells_all_its_faults():
    with pytest.raises(TreeError, match=r"/trigger: .*; /steps: .*"):
        tree.parse_stored({})


# --- properties ---------------------------------------------------------------------------------------------

NAMES = st.sampled_from([f"s{index}" for index in range(30)])
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(Decimal("1.50")) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
RULES = st.builds(Rule, NAMES, st.sampled_from(sorted(OPERATORS)), DATA)
ACTIONS = st.builds(
    ActionStep,
    NAMES,
    st.just("no/such"),
    st.dictionaries(st.text(max_size=3), DATA, max_size=2),
    st.none() | st.just("shop"),
    st.sampled_from(["fail", "continue"]),
    st.none() | st.integers(1, 600),
    st.booleans(),
)
STEPS = st.recursive(
    ACTIONS,
    lambda inner: (
        st.builds(
            ConditionStep,
            NAMES,
            st.sampled_from(["all", "any"]),
            st.lists(RULES, min_size=1, max_size=2).map(tuple),
            st.lists(inner, max_size=2).map(tuple),
            st.lists(inner, max_size=2).map(tuple),
        )
        | st.builds(
            LoopStep,
            NAMES,
            st.lists(DATA, max_size=2) | st.just("{{x}}"),
            NAMES,
            st.lists(inner, max_size=2).map(tuple),
        )
        | st.builds(ActionStep, NAMES, st.just("no/such"), on_error=st.lists(inner, max_size=2).map(tuple))
    ),
    max_leaves=8,
)


@PATIENT
@given(st.lists(STEPS, max_size=3).map(tuple))
def test_parse_after_dump_is_identity(steps):
    trigger = tree.parse_stored(FULL).trigger
    raw = tree.dump(tree.Tree(trigger, steps))
    try:
        read = tree.parse_stored(raw)
    except TreeError as error:
        assert [fault.code for fault in error.faults] == ["limit.steps"]
        return
    assert read == tree.Tree(trigger, steps)
    assert tree.dump(read) == raw


KEYS = (
    "trigger steps id type op inputs connection ticket onError timeoutSec wait match rules then else items as "
    "fieldId operator value kind params name path on filter cron"
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text("{}|. a", max_size=6)
    | st.sampled_from(["action", "loop", "condition", "fail"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS.split()),
            inner,
        )
    ),
    max_leaves=25,
)


@PATIENT
@given(ANYTHING)
def test_nothing_but_the_declared_error_is_raised(raw):
    for document_ in (raw, document(raw), {"trigger": raw, "steps": []}):
        try:
            tree.parse(document_, Shop())
        except TreeError as error:
            assert error.faults
