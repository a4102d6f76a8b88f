"""What stored trees name, unfinished ones too."""

import uuid

import pytest

from automations import references
from tests.automations import trees
from tests.csbot.test_api import problem
from tests.factories import (
    AutomationFactory,
    ConnectionFactory,
    GroupFactory,
    PersonFactory,
    TicketTypeFactory,
    VersionFactory,
)
from tickets.models import Group, Person, TicketType


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([trees.request("st_a")], ["st_a"]),
        ([{"type": "loop", "steps": [trees.request("st_a")]}], ["st_a"]),
        (
            [{"type": "condition", "then": [trees.request("st_a")], "else": [trees.request("st_b")]}],
            ["st_a", "st_b"],
        ),
        ([{**trees.request("st_a"), "onError": {"steps": [trees.request("st_b")]}}], ["st_a", "st_b"]),
        ([{**trees.request("st_a"), "onError": "continue"}], ["st_a"]),
        ([7, None, [], {"type": "condition", "then": 7, "else": {}}, {"type": "loop", "steps": "x"}], []),
        ({"steps": []}, []),
        (None, []),
    ],
)
def test_every_action_is_found_at_any_depth(steps, found):
    assert sorted(step["id"] for step in references.actions(steps)) == found


def test_a_chain_of_nested_steps_needs_no_stack():
    steps = [trees.request("st_a")]
    for _ in range(5000):
        steps = [{"type": "loop", "steps": steps}]
    assert len(list(references.actions(steps))) == 1


@pytest.mark.parametrize(
    ("step", "connection", "callee"),
    [
        (trees.request(connection="shop"), "shop", None),
        (trees.call("Billing"), None, "Billing"),
        ({"op": "flow/call", "connection": 7, "inputs": {"automation": ["x"]}}, None, None),
        ({"op": "flow/call", "inputs": 7}, None, None),
        ({"op": "no/such", "inputs": {"automation": "Billing"}}, None, None),
    ],
)
def test_what_a_step_names(step, connection, callee):
    assert (references.connection_of(step), references.callee_of(step)) == (connection, callee)


@pytest.mark.parametrize("by", ["name", "public_id", "ID"])
def test_users_of_a_connection_are_found_in_drafts_of_the_same_tenant(shop, stranger, by):
    connection = ConnectionFactory(tenant=shop, name="shop")
    reference = str(connection.public_id).upper() if by == "ID" else str(getattr(connection, by))
    draft = {"trigger": {}, "steps": [trees.request(connection=reference)]}
    user = AutomationFactory(tenant=shop, draft=draft)
    AutomationFactory(tenant=shop)
    AutomationFactory(tenant=stranger, draft=draft)
    assert references.users_of_connection(connection) == [f"automations/{user.public_id}"]


def act(op: str, **inputs) -> dict:
    return {"id": "st_1", "type": "action", "op": op, "inputs": inputs}


@pytest.mark.parametrize(
    ("step", "kind", "named"),
    [
        (act("ticket/assign", group="it", person="a@b.test"), Group, ["it"]),
        (act("ticket/assign", group="it", person="a@b.test"), Person, ["a@b.test"]),
        (act("ticket/assign-least-busy", group="it"), Group, ["it"]),
        (act("ticket/upsert", type="order"), TicketType, ["order"]),
        (act("ticket/set-type", type="order"), TicketType, ["order"]),
        (act("ticket/find", filter={"type": "order"}), TicketType, ["order"]),
        (act("ticket/find", filter={"group": "it"}), Group, ["it"]),
        (act("ticket/find", filter={"assignee": "a@b.test"}), Person, ["a@b.test"]),
        (act("http/request", group="it", filter={"group": "it"}), Group, []),
        (act("no/such", group="it"), Group, []),
        (act("ticket/assign", group=["it"]), Group, []),
        ({"op": 7, "inputs": {"group": "it"}}, Group, []),
        ({"op": "ticket/assign", "inputs": 7}, Group, []),
    ],
)
def test_what_a_step_names_of_the_desk(step, kind, named):
    assert [text for text in references.desk_names(step, kind) if text is not None] == named


DESK = {
    "group": ("groups", GroupFactory, "key", lambda name: act("ticket/assign", group=name)),
    "type": (
        "ticket-types",
        TicketTypeFactory,
        "key",
        lambda name: act("ticket/upsert", externalId="1", type=name),
    ),
    "person": ("people", PersonFactory, "email", lambda name: act("ticket/assign", person=name)),
}


def spelled(row, column: str, by: str) -> str:
    """Return what a tree says for the row: its key or e-mail, or its id in one of two spellings."""
    if by == "name":
        return str(getattr(row, column))
    return str(row.public_id).upper() if by == "ID" else str(row.public_id)


@pytest.mark.parametrize("kind", DESK)
@pytest.mark.parametrize("by", ["name", "id", "ID"])
@pytest.mark.parametrize("where", ["draft", "published"])
def test_what_a_tree_names_is_not_deleted(api, shop, stranger, kind, by, where):
    resource, factory, column, step = DESK[kind]
    row = factory(tenant=shop)
    tree = {"trigger": {}, "steps": [{"type": "loop", "steps": [step(spelled(row, column, by))]}]}
    user = AutomationFactory(tenant=shop, **({"draft": tree} if where == "draft" else {}))
    if where == "published":
        version = VersionFactory(automation=user, tree=tree)
        type(user).objects.of(shop).filter(pk=user.pk).update(published=version)
    AutomationFactory(tenant=shop)
    AutomationFactory(tenant=stranger, draft=tree)
    document = problem(api(shop).delete(f"/api/{resource}/{row.public_id}"), 409, "used")
    assert document["usedBy"] == [f"automations/{user.public_id}"]
    assert type(row).objects.of(shop).filter(pk=row.pk).exists()


@pytest.mark.parametrize("kind", DESK)
def test_what_only_another_tenants_tree_names_is_deleted(api, shop, stranger, kind):
    resource, factory, column, step = DESK[kind]
    row = factory(tenant=shop)
    AutomationFactory(tenant=stranger, draft={"trigger": {}, "steps": [step(getattr(row, column))]})
    others = factory(tenant=shop)
    AutomationFactory(tenant=shop, draft={"trigger": {}, "steps": [step(getattr(others, column))]})
    assert api(shop).delete(f"/api/{resource}/{row.public_id}").status_code == 204


@pytest.mark.parametrize("types", ["order", ["error", "order"]])
def test_a_type_that_a_trigger_waits_for_is_not_deleted(api, shop, types):
    order = TicketType.objects.of(shop).get(key="order")
    trigger = {"kind": "ticket", "on": ["created"], "filter": {"type": types}}
    user = AutomationFactory(tenant=shop, draft={"trigger": trigger, "steps": []})
    document = problem(api(shop).delete(f"/api/ticket-types/{order.public_id}"), 409, "used")
    assert document["usedBy"] == [f"automations/{user.public_id}"]


@pytest.mark.parametrize(
    "trigger", [None, 7, {"filter": 7}, {"filter": {"type": {}}}, {"filter": {"type": [7]}}]
)
def test_an_unfinished_trigger_names_nothing(shop, trigger):
    AutomationFactory(tenant=shop, draft={"trigger": trigger, "steps": []})
    assert references.users_of_desk(TicketType.objects.of(shop).get(key="order")) == []


def test_an_email_is_one_in_any_case_of_letters(shop):
    jana = Person.objects.of(shop).get(name="Jana")
    user = AutomationFactory(
        tenant=shop, draft={"trigger": {}, "steps": [act("ticket/assign", person="JANA@shop.test")]}
    )
    assert references.users_of_desk(jana) == [f"automations/{user.public_id}"]


def test_an_id_of_something_else_is_no_use(shop):
    AutomationFactory(
        tenant=shop, draft={"trigger": {}, "steps": [act("ticket/assign", group=str(uuid.uuid4()))]}
    )
    assert references.users_of_desk(Group.objects.of(shop).get(key="it")) == []
