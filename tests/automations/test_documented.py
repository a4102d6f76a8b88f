"""docs/automations.md: every example is run, and everything that a tree can hold has one."""

import itertools
import re
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from automations import conditions, contract, expressions, trigger
from automations import services as automations
from automations.conditions import OPERATORS, Found, Rule
from automations.faults import Faults
from automations.filters import FILTERS
from automations.steps import StepReader, walk
from automations.values import MISSING
from connectors import catalog
from csbot.lib import json
from runtime import trial
from runtime.execution import worker
from runtime.models import Run
from runtime.queue import states
from runtime.queue.claim import Claimer
from runtime.services import status_of
from tests.factories import ConnectionFactory
from tests.stub_service import Reply
from tickets.events import SYSTEM
from tickets.models import Ticket

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "automations.md"
PRAGUE = ZoneInfo("Europe/Prague")


class Block(NamedTuple):
    """A fenced block: its language, what its example is, the state that its run ends in, its text and line."""

    language: str
    about: str
    state: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}"


def blocks() -> list[Block]:
    page = PAGE.read_text()
    found = re.finditer(r"^```(\w+)(?: (\w+))?(?: (\w+))?\n(.*?)^```$", page, re.M | re.S)
    return [
        Block(one[1], one[2] or "", one[3] or "done", one[4], page[: one.start()].count("\n") + 1)
        for one in found
    ]


BLOCKS = blocks()
EVENT = json.loads(next(block.text for block in BLOCKS if block.about == "event"))
TRIGGERS = [block for block in BLOCKS if block.about == "trigger"]
WEBHOOK = json.loads(TRIGGERS[0].text)
BEFORE = json.loads(next(block.text for block in BLOCKS if block.about == "before"))
# An example of steps and what is told of it.
TREES = [(block, told) for block, told in itertools.pairwise(BLOCKS) if block.about in ("steps", "operation")]


def steps_of(block: Block) -> list[dict]:
    read = json.loads(block.text)
    return [BEFORE, read] if block.about == "operation" else read


def lines(about: str) -> list[str]:
    return [line for block in BLOCKS if block.about == about for line in block.text.splitlines()]


def test_no_example_is_left_out():
    known = {
        "event",
        "trigger",
        "steps",
        "templates",
        "filters",
        "operators",
        "changes",
        "before",
        "operation",
    }
    assert {block.about for block in BLOCKS if block.language != "effects"} == known
    assert all(told.language == "effects" for _block, told in TREES)
    assert sum(block.language == "effects" for block in BLOCKS) == len(TREES)


# Everything has one


def test_each_kind_of_trigger_has_an_example():
    assert {json.loads(block.text)["kind"] for block in TRIGGERS} == set(trigger.KEYS)


def test_each_kind_of_step_and_each_key_of_it_has_an_example():
    read = StepReader(Faults()).read([step for block, _told in TREES for step in steps_of(block)], "")
    kinds = {type(step).__name__ for step in walk(read)}
    assert kinds == {"ActionStep", "ConditionStep", "LoopStep"}
    written = "".join(block.text for block, _told in TREES)
    for key in (
        "onError",
        '"continue"',
        "timeoutSec",
        "connection",
        '"wait"',
        '"ticket"',
        '"match"',
        '"else"',
        '"as"',
    ):
        assert key in written, f"{key} has no example"


def test_each_operator_has_an_example():
    shown = {line.split()[1] for line in [*lines("operators"), *lines("changes")]}
    assert shown == set(OPERATORS)


def test_each_filter_has_an_example():
    shown = {
        call.name
        for line in lines("filters")
        for one in expressions.placeholders(line)
        for call in one.filters
    }
    assert shown == set(FILTERS)


def test_each_built_in_operation_has_an_example():
    """Operations of providers are documented by the catalogue; `http/request` stands for them."""
    shown = {json.loads(block.text)["op"] for block in BLOCKS if block.about == "operation"}
    assert shown == {one.op for one in catalog.every() if one.builtin} | {"http/request"}


def test_the_catalogue_documents_each_filter(api, shop):
    told = api(shop, "viewer").get("/api/catalog").json()["filters"]
    assert {one["name"] for one in told} == set(FILTERS)
    assert all(set(one) == {"name", "signature", "doc", "example"} for one in told)


# What the language does


@pytest.mark.parametrize("block", TRIGGERS, ids=str)
def test_a_trigger_reads_without_a_fault(block):
    faults = Faults()
    trigger.read(json.loads(block.text), faults, "")
    assert faults.found == []


def names() -> dict:
    values = contract.extract(contract.parse_params(WEBHOOK["params"]), EVENT, zone=PRAGUE)
    return {**values.values, "_body": EVENT}


@pytest.mark.parametrize("line", [*lines("templates"), *lines("filters")])
def test_a_template_gives_what_stands_beside_it(line):
    template, _, given = line.rpartition(" -> ")
    assert expressions.render(
        template, lambda path: expressions.resolve(names(), path), zone=PRAGUE
    ) == json.loads(given)


def value_of(text: str):
    return MISSING if text.strip() == "-" else json.loads(text)


def rule_of(text: str) -> Rule:
    field, operator, *value = text.split(maxsplit=2)
    return Rule(field, operator, json.loads(value[0]) if value else None)


@pytest.mark.parametrize("line", lines("operators"))
def test_an_operator_holds_for_the_one_and_not_for_the_other(line):
    rule, holds, fails = line.split(" | ")
    for text, met in ((holds, True), (fails, False)):
        verdict = conditions.evaluate(
            [rule_of(rule)], "all", lambda _field, text=text: Found(value_of(text)), zone=PRAGUE
        )
        assert verdict.met is met, verdict.lines("en")


@pytest.mark.parametrize("line", lines("changes"))
def test_an_operator_over_changes_holds_for_the_one_and_not_for_the_other(line):
    rule, holds, fails = line.split(" | ")
    for text, met in ((holds, True), (fails, False)):
        changes = json.loads(text)
        verdict = conditions.evaluate(
            [rule_of(rule)], "all", lambda _field: MISSING, zone=PRAGUE, changes=changes
        )
        assert verdict.met is met, verdict.lines("en")


# What trees do


@pytest.fixture
def company(shop, service):
    """The e-shop with what the page names: a connection and an automation to call."""
    ConnectionFactory(tenant=shop, name="shop", config={"baseUrl": service.url})
    service.script("/orders/5001/labels", Reply(json={"ok": True}))
    service.script("/ping", Reply(json={"ok": True}))
    manual = {
        "kind": "manual",
        "params": [{"name": "orderId", "path": "id", "type": "string", "required": True}],
    }
    label = {"id": "st_1", "type": "action", "op": "data/set", "inputs": {"name": "label", "value": "L"}}
    callee = {"name": "Print a label", "trigger": manual, "steps": [label]}
    automations.publish(automations.create(shop, SYSTEM, callee).automation, SYSTEM)
    return shop


def finished(automation, body) -> Run:
    """Return the run of a published automation over a body, after everything that was ready has been executed."""
    params = contract.extract(contract.parse_params(WEBHOOK["params"]), body, zone=PRAGUE).values
    enqueued = states.enqueue(
        tenant_id=automation.tenant_id,
        automation_id=automation.pk,
        version_id=automation.published_id,
        trigger="webhook",
        input_json=json.dumps({"body": body, "headers": {}, "params": params}),
    )
    claimer = Claimer("test")
    while (claimed := claimer.next_run()) is not None:
        worker.run_one(claimed)
    return Run.objects.get(pk=enqueued.run_id)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("block", "told"), TREES, ids=lambda block: str(block))
def test_a_tree_does_what_stands_below_it(company, block, told):
    """The dry run of a draft tells the effects; after publishing a real run ends as the page says."""
    raw = {"name": "Example", "trigger": WEBHOOK, "steps": steps_of(block)}
    saved = automations.create(company, SYSTEM, raw)
    answer = trial.test(saved.automation, "en", [trial.of_body(saved.automation, EVENT)])
    steps = [step for step in answer["runs"][0]["steps"] if step["path"] != BEFORE["id"]]
    shown = [f"{step['path']}: {re.sub(r'until [^ ;]+', 'until …', step['effect'])}" for step in steps]
    assert shown == told.text.splitlines()
    assert Ticket.objects.of(company).count() == 0

    run = finished(automations.publish(saved.automation, SYSTEM), EVENT)
    assert status_of(run) == block.state, run.error
