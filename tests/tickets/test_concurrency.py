"""Writes at the same moment: real threads with connections of their own."""

import random
from collections import Counter
from functools import partial

import pytest
from django.db import transaction

from csbot.lib.errors import RequestRefused
from tests.tickets.desk import JANA, ROBOT, at_once, kinds, replayed
from tickets import services
from tickets.models import Membership, Ticket
from tickets.representation import state

pytestmark = pytest.mark.django_db(transaction=True)


def as_the_engine_does(call):
    """Run `call` within a transaction that was begun before, as a step does with its step row."""
    with transaction.atomic():
        return call()


def errors_of(results):
    return [result for result in results if isinstance(result, Exception)]


@pytest.mark.parametrize("wrap", [lambda call: call(), as_the_engine_does], ids=["alone", "in a step"])
def test_fifty_events_with_one_external_id_make_one_ticket_with_fifty_events(shop, wrap):
    def event(number):
        values = {"title": f"Order {number}", "type": "order", "fields": {"color": f"red {number}"}}
        return wrap(lambda: services.upsert(shop, ROBOT, "5001", values, update=number % 2 == 0))

    results = at_once(*(partial(event, number) for number in range(50)))

    assert errors_of(results) == []
    assert [created for _, created in results].count(True) == 1
    ticket = Ticket.objects.of(shop).get()
    assert Counter(kinds(ticket))["event"] == 50
    assert kinds(ticket)[:2] == ["created", "event"]
    arrived = {event.data["values"]["title"] for event in ticket.events.filter(kind="event")}
    assert len(arrived) == 50
    assert replayed(ticket) == state(ticket)


def test_events_of_several_external_ids_and_tenants_do_not_meet(shop, stranger):
    calls = [
        partial(services.upsert, tenant, ROBOT, external_id, {}, update=False)
        for tenant in (shop, stranger)
        for external_id in ("1", "2", "3")
        for _ in range(6)
    ]
    random.Random(1).shuffle(calls)

    assert errors_of(at_once(*calls)) == []
    for tenant in (shop, stranger):
        tickets = Ticket.objects.of(tenant)
        assert sorted(tickets.values_list("number", flat=True)) == [1, 2, 3]
        assert [Counter(kinds(ticket))["event"] for ticket in tickets] == [6, 6, 6]


def test_the_first_tickets_of_a_tenant_get_different_numbers(shop):
    results = at_once(*(partial(services.create, shop, JANA, {"title": str(n)}) for n in range(20)))

    assert sorted(ticket.number for ticket in results) == list(range(1, 21))


def test_an_external_id_taken_in_three_ways_at_once_belongs_to_one_ticket(shop):
    """Creating, renaming and events meet in one external id; who comes too late is told so."""
    for number in range(8):
        services.create(shop, JANA, {"title": f"Old {number}"})

    results = at_once(
        *(partial(services.create, shop, JANA, {"title": "New", "externalId": "5001"}) for _ in range(8)),
        *(partial(services.change, shop, number, JANA, {"externalId": "5001"}) for number in range(1, 9)),
        *(partial(services.upsert, shop, ROBOT, "5001", {"title": "Event"}, update=True) for _ in range(8)),
    )

    errors = errors_of(results)
    assert {(error.code, error.status) for error in errors} == {("ticket.externalId", 409)}
    ticket = Ticket.objects.of(shop).get(external_id="5001")
    assert Counter(kinds(ticket))["event"] == 8
    assert replayed(ticket) == state(ticket)


def test_of_many_edits_with_one_version_one_wins(shop):
    services.create(shop, JANA, {"title": "Order"})

    results = at_once(
        *(partial(services.change, shop, 1, JANA, {"title": f"Order {n}"}, version=1) for n in range(10))
    )

    errors = errors_of(results)
    assert [(error.code, error.status) for error in errors] == [("ticket.stale", 409)] * 9
    assert services.read(shop, 1).version == 2


def test_no_edit_is_lost(shop):
    services.create(shop, JANA, {"title": "Order"})

    results = at_once(
        *(partial(services.change, shop, 1, JANA, {"addTags": [f"tag {n}"]}) for n in range(20))
    )

    assert errors_of(results) == []
    ticket = services.read(shop, 1)
    assert set(ticket.tags) == {f"tag {n}" for n in range(20)}
    assert ticket.version == 21
    assert replayed(ticket) == state(ticket)


@pytest.mark.parametrize("wrap", [lambda call: call(), as_the_engine_does], ids=["alone", "in a step"])
def test_twelve_at_once_for_three_people_make_four_each(shop, wrap):
    for number in range(12):
        services.create(shop, JANA, {"title": f"Order {number}"})

    def hand(number):
        return wrap(lambda: services.assign_least_busy(shop, number, ROBOT, "warehouse"))

    results = at_once(*(partial(hand, number) for number in range(1, 13)))

    assert errors_of(results) == []
    assert Counter(person.name for person in results) == {"Jana": 4, "Karel": 4, "Lenka": 4}
    assert Counter(Ticket.objects.of(shop).values_list("assignee__name", flat=True)) == {
        "Jana": 4,
        "Karel": 4,
        "Lenka": 4,
    }


def test_many_closings_at_once_hand_out_exactly_as_many_of_the_line(shop):
    Membership.objects.of(shop).filter(group__key="warehouse").update(capacity=2)
    for number in range(1, 13):
        services.create(shop, JANA, {"title": f"Order {number}"})
        services.assign_least_busy(shop, number, ROBOT, "warehouse", respect_capacity=True)

    results = at_once(
        *(partial(services.close, shop, number, JANA) for number in range(1, 5)),
        *(partial(services.change, shop, number, JANA, {"title": "Seen"}) for number in range(7, 13)),
    )

    assert errors_of(results) == []
    held = Ticket.objects.of(shop).filter(closed=False, assignee__isnull=False)
    assert set(held.values_list("number", flat=True)) == {5, 6, 7, 8, 9, 10}
    assert set(Counter(held.values_list("assignee__name", flat=True)).values()) == {2}


def test_any_mixture_ends_in_order(shop):
    """Nobody waits while somebody is free, every log tells its ticket, and nothing is raised."""
    Membership.objects.of(shop).update(capacity=2)
    dice = random.Random(7)
    for number in range(1, 9):
        services.upsert(shop, ROBOT, str(number), {}, update=False)

    def act(seed):
        own = random.Random(seed)
        for _ in range(12):
            number = own.randint(1, 8)
            group = own.choice(["warehouse", "dispatch"])
            choice = own.randrange(8)
            if choice == 0:
                services.close(shop, number, JANA)
            elif choice == 1:
                services.reopen(shop, number, JANA)
            elif choice == 2:
                services.upsert(shop, ROBOT, str(number), {"tags": [str(own.random())]}, update=True)
            elif choice == 3:
                services.assign(shop, number, JANA, group=group)
            elif choice == 4:
                services.change(shop, number, JANA, {"assignee": None, "title": str(own.random())})
            elif choice == 5:
                services.comment(shop, number, JANA, "Hm.", public=False)
            else:
                services.assign_least_busy(
                    shop, number, ROBOT, group, reassign=own.random() < 0.5, respect_capacity=True
                )

    results = at_once(*(partial(act, dice.random()) for _ in range(8)))

    assert results == [None] * 8
    for ticket in Ticket.objects.of(shop):
        assert replayed(ticket) == state(ticket)
        if ticket.in_line_since:
            assert (ticket.assignee, ticket.closed) == (None, False)
            for membership in ticket.group.memberships.all():
                assert Ticket.objects.of(shop).filter(assignee=membership.person, closed=False).count() >= 2


def test_a_refusal_within_a_step_leaves_its_transaction_usable(shop):
    with transaction.atomic():
        with pytest.raises(RequestRefused):
            services.upsert(shop, ROBOT, "5001", {"type": "nothing"}, update=False)
        services.create(shop, JANA, {"title": "Order"})

    assert Ticket.objects.of(shop).get().title == "Order"
