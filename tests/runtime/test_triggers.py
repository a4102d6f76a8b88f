"""Ticket events become runs in their own transaction: filters, joining, mark, ceiling and depth."""

import pytest
from django.db import transaction

from incidents.models import Incident
from runtime.models import Run, RunData
from runtime.queue import states
from runtime.queue.claim import Claimer
from runtime.triggers import tickets as trigger
from tickets import services as tickets
from tickets.events import SYSTEM
from tickets.models import TicketEvent

pytestmark = pytest.mark.django_db(transaction=True)

ON_TICKET = {"kind": "ticket", "on": ["created", "changed"]}
ADD_TAG = [{"id": "st_1", "type": "action", "op": "ticket/add-tags", "inputs": {"tags": ["seen"]}}]


def runs(tenant) -> list[Run]:
    return list(Run.objects.of(tenant).filter(trigger="ticket").order_by("id"))


def test_no_change_without_its_run_and_no_run_without_its_change(shop, publish):
    publish(shop, ADD_TAG, ON_TICKET)
    with pytest.raises(RuntimeError, match="rolled back"), transaction.atomic():
        tickets.create(shop, SYSTEM, {"title": "Order"})
        raise RuntimeError("rolled back")
    assert runs(shop) == []
    tickets.create(shop, SYSTEM, {"title": "Order"})
    assert len(runs(shop)) == 1


def test_a_change_of_another_tenant_starts_nothing(shop, stranger, publish):
    publish(stranger, ADD_TAG, ON_TICKET)
    tickets.create(shop, SYSTEM, {"title": "Order"})
    assert Run.objects.count() == 0


def test_changes_join_a_run_that_was_not_begun(shop, publish):
    publish(shop, ADD_TAG, {"kind": "ticket", "on": ["changed"]})
    ticket = tickets.create(shop, SYSTEM, {"title": "Order", "status": "a"})
    for status in ("b", "c"):
        tickets.change(shop, ticket.number, SYSTEM, {"status": status})
    (run,) = runs(shop)
    assert RunData.objects.get(run=run).input["changes"]["status"] == {"from": "a", "to": "c"}
    Claimer("test").next_run()
    tickets.change(shop, ticket.number, SYSTEM, {"status": "d"})
    assert len(runs(shop)) == 2


def test_a_run_does_not_trigger_its_own_automation(shop, publish, execute):
    publish(shop, ADD_TAG, ON_TICKET)
    ticket = tickets.create(shop, SYSTEM, {"title": "Order"})
    (run,) = runs(shop)
    assert execute(run).status == Run.Status.DONE
    assert len(runs(shop)) == 1
    assert not TicketEvent.objects.of(shop).filter(ticket=ticket, kind="refusal").exists()


def test_the_sixth_run_in_a_minute_is_refused_and_logged(shop, publish):
    publish(shop, [], {"kind": "ticket", "on": ["changed"]})
    ticket = tickets.create(shop, SYSTEM, {"title": "Order"})
    claimer = Claimer("test")
    for number in range(6):
        tickets.change(shop, ticket.number, SYSTEM, {"title": f"Order {number}"})
        claimed = claimer.next_run()
        if claimed:
            states.complete(claimed, 0)
    assert len(runs(shop)) == 5
    refusal = TicketEvent.objects.of(shop).get(ticket=ticket, kind="refusal")
    assert refusal.code == "loop.ceiling"


def test_a_chain_has_ten_links(shop, publish, execute):
    """Automations that answer one another over and over: each change is made by the other one."""
    names = [f"A{n}" for n in range(12)]
    for index, name in enumerate(names):
        step = {
            "id": "st_1",
            "type": "action",
            "op": "ticket/set-status",
            "inputs": {"status": str(index + 1)},
        }
        publish(
            shop, [step], {"kind": "ticket", "on": ["changed"], "filter": {"status": str(index)}}, name=name
        )
    ticket = tickets.create(shop, SYSTEM, {"title": "Order", "status": "x"})
    tickets.change(shop, ticket.number, SYSTEM, {"status": "0"})
    execute(runs(shop)[0])
    chain = runs(shop)
    assert [run.depth for run in chain] == list(range(1, 11))
    refusal = TicketEvent.objects.of(shop).get(ticket=ticket, kind="refusal")
    assert refusal.code == "loop.depth"
    assert [link["automation"] for link in refusal.data["chain"]] == names[:10]
    assert Incident.objects.of(shop).get().code == "loop.depth"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, True),
        ({"type": "order"}, True),
        ({"type": "error"}, False),
        ({"tags": ["a"]}, True),
        ({"tags": ["a", "z"]}, False),
        ({"status": "new"}, True),
        ({"status": ["handed over", "new"]}, True),
        ({"changed": ["status"]}, True),
        ({"changed": ["assignee"]}, False),
        ({"type": "order", "tags": ["a"], "status": "handed over"}, False),
    ],
)
def test_the_filter_of_a_trigger(shop, wanted, expected):
    ticket = tickets.create(
        shop, SYSTEM, {"title": "Order", "type": "order", "status": "new", "tags": ["a", "b"]}
    )
    changes = {"status": {"from": None, "to": "new"}}
    assert trigger.matches({"on": ["changed"], "filter": wanted}, ticket, "changed", changes) is expected
    assert trigger.matches({"on": ["created"], "filter": wanted}, ticket, "changed", changes) is False


def test_joined_changes_span_from_the_first_to_the_last():
    assert trigger.joined(
        {"status": {"from": 1, "to": 2}, "title": {"from": "a", "to": "b"}}, {"status": {"from": 2, "to": 3}}
    ) == {"status": {"from": 1, "to": 3}, "title": {"from": "a", "to": "b"}}
