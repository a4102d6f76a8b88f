"""What stored trees name, unfinished ones too."""

import pytest

from automations import references
from tests.automations import trees
from tests.factories import AutomationFactory, ConnectionFactory


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


@pytest.mark.parametrize("by", ["name", "public_id"])
def test_users_of_a_connection_are_found_in_drafts_of_the_same_tenant(shop, stranger, by):
    connection = ConnectionFactory(tenant=shop, name="shop")
    draft = {"trigger": {}, "steps": [trees.request(connection=str(getattr(connection, by)))]}
    user = AutomationFactory(tenant=shop, draft=draft)
    AutomationFactory(tenant=shop)
    AutomationFactory(tenant=stranger, draft=draft)
    assert references.users_of_connection(connection) == [f"automations/{user.public_id}"]
