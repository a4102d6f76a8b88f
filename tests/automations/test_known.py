"""What a tree may name: one tenant's things by key, name, id or e-mail, and the operations of the catalogue."""

import uuid

import pytest

from automations import lint, tree
from automations.known import KnownOfTenant
from connectors import catalog
from tests.automations import trees
from tests.factories import AutomationFactory, ConnectionFactory
from tickets.models import Group, Person, TicketType


@pytest.fixture
def things(shop):
    """One thing of each kind: kind -> (row, its name)."""
    return {
        "group": (Group.objects.of(shop).get(key="warehouse"), "warehouse"),
        "type": (TicketType.objects.of(shop).get(key="order"), "order"),
        "person": (Person.objects.of(shop).get(name="Jana"), "jana@shop.test"),
        "automation": (AutomationFactory(tenant=shop, name="Billing"), "Billing"),
    }


@pytest.mark.parametrize("kind", ["group", "type", "person", "automation"])
def test_things_are_known_by_name_and_id_and_not_to_a_stranger(shop, stranger, things, kind):
    row, name = things[kind]
    known = KnownOfTenant(shop)
    assert known.has(kind, name)
    assert known.has(kind, str(row.public_id))
    assert known.has(kind, str(row.public_id).upper())
    for reference in ("", "no such", str(uuid.uuid4()), "%", name + "\x00"):
        assert not known.has(kind, reference)
    assert not KnownOfTenant(stranger).has(kind, str(row.public_id))


def test_a_thing_is_not_known_as_another_kind(shop, things):
    known = KnownOfTenant(shop)
    for kind, (row, name) in things.items():
        for other in set(things) - {kind}:
            assert not known.has(other, name)
            assert not known.has(other, str(row.public_id))


def test_emails_are_known_in_any_case_and_names_of_people_are_not(shop):
    known = KnownOfTenant(shop)
    assert known.has("person", "JANA@shop.test")
    assert not known.has("person", "Jana")
    assert not known.has("group", "Warehouse")


def test_connections_have_their_provider(shop, stranger):
    connection = ConnectionFactory(tenant=shop, name="shop", provider="http")
    for reference in ("shop", str(connection.public_id), str(connection.public_id).upper()):
        assert KnownOfTenant(shop).provider_of(reference) == "http"
        assert KnownOfTenant(stranger).provider_of(reference) is None
    assert KnownOfTenant(shop).provider_of("Shop") is None


def test_fields_and_statuses_of_ticket_types(shop, stranger):
    known = KnownOfTenant(shop)
    order = TicketType.objects.of(shop).get(key="order")
    assert set(known.ticket_fields()) == {"f_color"}
    assert set(known.statuses("order")) == {"new", "waiting for packing", "handed over"}
    assert known.statuses(str(order.public_id)) == known.statuses("order")
    assert set(known.statuses(None)) == {"new", "waiting for packing", "handed over", "solved"}
    assert set(known.statuses("no such")) == set()
    assert set(KnownOfTenant(stranger).ticket_fields()) == set()


def test_every_operation_of_the_catalogue_is_described():
    known = KnownOfTenant(None)
    for operation in catalog.every():
        spec = known.operation(operation.op)
        assert spec.op == operation.op
        assert spec.provider == operation.provider
        assert spec.inputs["type"] == "object"
        assert set(spec.inputs.get("required", [])) <= set(spec.inputs["properties"])
    assert known.operation("no/such") is None


def test_inputs_and_outputs_have_the_names_of_the_api():
    upsert = KnownOfTenant(None).operation("ticket/upsert")
    assert {"externalId", "title", "tags"} <= set(upsert.inputs["properties"])
    assert set(upsert.outputs) == {"ticket", "number", "created"}
    assert set(KnownOfTenant(None).operation("http/request").outputs) == {"status", "headers", "body"}


def test_ids_become_what_other_tenants_understand(shop, stranger, things):
    known = KnownOfTenant(shop)
    connection = ConnectionFactory(tenant=shop, name="shop")
    for row, name in [*things.values(), (connection, "shop")]:
        assert known.portable(str(row.public_id)) == name
        assert KnownOfTenant(stranger).portable(str(row.public_id)) == str(row.public_id)
    for text in ("", "warehouse", "{{orderId}}", str(uuid.uuid4())):
        assert known.portable(text) == text


def test_one_check_asks_for_each_kind_once(shop, django_assert_num_queries):
    ConnectionFactory(tenant=shop, name="shop")
    assign = [
        {"id": f"st_{n}", "type": "action", "op": "ticket/assign", "inputs": {"group": "warehouse"}}
        for n in range(9)
    ]
    calls = [trees.request(f"st_call{n}") for n in range(9)]
    document = {"trigger": trees.webhook(), "steps": [trees.upsert(status="new"), *assign, *calls]}
    known = KnownOfTenant(shop)
    # Types for references, types with their statuses, groups, connections, providers.
    with django_assert_num_queries(5):
        lint.warnings(tree.parse(document, known), known)
