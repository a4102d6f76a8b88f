"""Handing out work: to people, to groups, to the least busy, and from the line of a full group."""

from datetime import timedelta

import pytest
from django.utils import timezone

from csbot.lib.errors import RequestRefused
from tests.factories import MembershipFactory
from tests.tickets.desk import JANA, ROBOT, kinds, last_entry, person
from tickets import services
from tickets.models import Group, Membership, Person
from tickets.representation import log_entry

pytestmark = pytest.mark.django_db


class TestAssigning:
    @pytest.fixture
    def ticket(self, shop):
        return services.create(shop, JANA, {"title": "x"})

    def test_to_a_person_keeps_the_group(self, shop, ticket):
        services.assign(shop, ticket.number, JANA, group="warehouse")
        services.assign(shop, ticket.number, JANA, person="NINA@shop.test")

        present = services.read(shop, 1)
        assert (present.assignee.name, present.group.key) == ("Nina", "warehouse")
        assert kinds(ticket) == ["created", "assigned", "assigned"]
        assert person(shop, "Nina").last_assigned_at is not None

    def test_to_a_group_keeps_only_a_member(self, shop, ticket):
        services.assign(
            shop, ticket.number, JANA, person=str(person(shop, "Nina").public_id), group="dispatch"
        )

        assert services.assign(shop, ticket.number, JANA, group="dispatch").assignee.name == "Nina"
        assert services.assign(shop, ticket.number, JANA, group="warehouse").assignee is None

    @pytest.mark.parametrize(
        ("to", "code", "pointer"),
        [
            ({"person": "nobody@shop.test"}, "missing.person", "/person"),
            ({"group": "nothing"}, "missing.group", "/group"),
            ({"person": "cizinec@stranger.test"}, "missing.person", "/person"),
            ({"person": 5}, "ticket.invalid", "/person"),
            ({}, "ticket.invalid", ""),
        ],
    )
    def test_refuses(self, shop, stranger, ticket, to, code, pointer):
        with pytest.raises(RequestRefused) as refused:
            services.assign(shop, ticket.number, JANA, **to)

        assert refused.value.code == code
        assert refused.value.errors[0]["pointer"] == pointer

    def test_hands_out_in_turn(self, shop):
        names = []
        for number in range(1, 7):
            services.create(shop, JANA, {"title": f"Order {number}"})
            names.append(services.assign_least_busy(shop, number, ROBOT, "warehouse").name)

        assert names == ["Jana", "Karel", "Lenka"] * 2

    def test_explains_whom_among_whom_and_by_which_numbers(self, shop, ticket):
        Person.objects.filter(pk=person(shop, "Karel").pk).update(
            away_until=timezone.now() + timedelta(days=1)
        )
        services.create(shop, JANA, {"title": "Other", "assignee": "jana@shop.test"})

        services.assign_least_busy(shop, ticket.number, ROBOT, "warehouse")

        entry = last_entry(ticket)
        assert entry.kind == "assigned"
        assert set(entry.data["changes"]) == {"assignee", "group"}
        choice = entry.data["choice"]
        assert (choice["person"], choice["decidedBy"], choice["group"]["name"]) == (
            "Lenka",
            "open",
            "Warehouse",
        )
        assert [(one["name"], one["open"], one["passedOver"]) for one in choice["considered"]] == [
            ("Jana", 1, None),
            ("Karel", 0, "away"),
            ("Lenka", 0, None),
        ]
        assert log_entry(entry, "en")["message"] == (
            "Handed to Lenka of Warehouse, with the fewest open tickets: "
            "Jana 1 open of 10; Karel 0 open of 10, away; Lenka 0 open of 10"
        )

    def test_a_ticket_that_the_group_holds_stays(self, shop, ticket, signals):
        services.assign(shop, ticket.number, JANA, person="lenka@shop.test", group="warehouse")
        signals.clear()

        assert services.assign_least_busy(shop, ticket.number, ROBOT, "warehouse").name == "Lenka"
        assert signals == []

    def test_a_member_who_has_it_without_a_group_keeps_it(self, shop, ticket):
        services.assign(shop, ticket.number, JANA, person="lenka@shop.test")

        assert services.assign_least_busy(shop, ticket.number, ROBOT, "warehouse").name == "Lenka"

    def test_a_ticket_of_another_group_is_handed_over(self, shop, ticket):
        MembershipFactory(
            group=Group.objects.of(shop).get(key="dispatch"), person=person(shop, "Lenka"), capacity=5
        )
        services.assign(shop, ticket.number, JANA, person="lenka@shop.test", group="dispatch")

        assert services.assign_least_busy(shop, ticket.number, ROBOT, "warehouse").name == "Jana"

    def test_reassigning_does_not_count_the_ticket_itself(self, shop, ticket, signals):
        """Jana has this one alone; all are equal without it, and of them she was given work last."""
        services.assign(shop, ticket.number, JANA, person="jana@shop.test", group="warehouse")

        assert (
            services.assign_least_busy(shop, ticket.number, ROBOT, "warehouse", reassign=True).name == "Karel"
        )

    def test_reassigning_to_who_has_it_is_no_change(self, shop, ticket, signals):
        Membership.objects.of(shop).exclude(person__name="Jana").delete()
        services.assign_least_busy(shop, ticket.number, ROBOT, "warehouse")
        signals.clear()

        assert (
            services.assign_least_busy(shop, ticket.number, ROBOT, "warehouse", reassign=True).name == "Jana"
        )
        assert signals == []
        assert kinds(ticket) == ["created", "assigned"]

    def test_unknown_group(self, shop, ticket):
        with pytest.raises(RequestRefused) as refused:
            services.assign_least_busy(shop, ticket.number, ROBOT, "nothing")
        assert refused.value.code == "missing.group"


class TestWaitingLine:
    @pytest.fixture
    def dispatch(self, shop):
        """Dispatch: Marek and Nina, each with room for one ticket."""
        Membership.objects.of(shop).filter(group__key="dispatch").update(capacity=1)
        return Group.objects.of(shop).get(key="dispatch")

    @staticmethod
    def hand(shop, how_many, **options):
        """New tickets, handed to dispatch with respect for capacity; the names of who got them."""
        holders = []
        for _ in range(how_many):
            ticket = services.create(shop, JANA, {"title": "Parcel"})
            options = {"respect_capacity": True, **options}
            holders.append(services.assign_least_busy(shop, ticket.number, ROBOT, "dispatch", **options))
        return [holder and holder.name for holder in holders]

    def test_a_full_group_keeps_the_ticket_in_line(self, shop, dispatch):
        assert self.hand(shop, 4) == ["Marek", "Nina", None, None]

        third = services.read(shop, "TK-3")
        assert (third.group, third.assignee) == (dispatch, None)
        assert third.in_line_since is not None
        assert log_entry(last_entry(third), "en")["message"] == (
            "Waits in the line of Dispatch, nobody is free: Marek 1 open of 1, full; Nina 1 open of 1, full"
        )

    @pytest.mark.parametrize("freeing", ["close", "reassign", "unassign", "least busy elsewhere"])
    def test_who_gets_free_gets_the_oldest(self, shop, dispatch, freeing, signals):
        self.hand(shop, 4)
        signals.clear()

        match freeing:
            case "close":
                services.close(shop, 2, JANA)
            case "reassign":
                services.assign(shop, 2, JANA, person="ota@shop.test")
            case "unassign":
                services.change(shop, 2, JANA, {"assignee": None})
            case _:
                services.assign_least_busy(shop, 2, JANA, "it")

        third, fourth = services.read(shop, 3), services.read(shop, 4)
        assert (third.assignee.name, third.in_line_since) == ("Nina", None)
        assert fourth.assignee is None
        entry = last_entry(third)
        assert (entry.kind, entry.actor_kind) == ("assigned", "system")
        assert log_entry(entry, "en")["message"].startswith("Handed from the line of Dispatch to Nina")
        assert [(one["ticket"].number, one["event"]) for one in signals] == [(2, "changed"), (3, "changed")]

    def test_closing_a_ticket_in_line_takes_it_out(self, shop, dispatch):
        self.hand(shop, 4)
        services.close(shop, 3, JANA)
        services.close(shop, 1, JANA)

        assert services.read(shop, 3).assignee is None
        assert services.read(shop, 4).assignee.name == "Marek"

    def test_another_group_takes_it_out(self, shop, dispatch):
        self.hand(shop, 4)
        services.change(shop, 3, JANA, {"group": "it"})
        services.close(shop, 1, JANA)

        assert services.read(shop, 3).assignee is None
        assert services.read(shop, 4).assignee.name == "Marek"

    def test_standing_in_line_twice_keeps_the_place_and_says_nothing(self, shop, dispatch):
        self.hand(shop, 3)
        third = services.read(shop, 3)

        assert services.assign_least_busy(shop, 3, ROBOT, "dispatch", respect_capacity=True) is None
        assert services.read(shop, 3).in_line_since == third.in_line_since
        assert kinds(third) == ["created", "assigned"]

    def test_a_ticket_already_in_the_group_may_join_the_line(self, shop, dispatch, signals):
        self.hand(shop, 2)
        waiting = services.create(shop, JANA, {"title": "Parcel", "group": "dispatch"})
        signals.clear()

        assert services.assign_least_busy(shop, 3, ROBOT, "dispatch", respect_capacity=True) is None
        assert (kinds(waiting), signals) == (["created", "assigned"], [])
        assert services.read(shop, 3).version == 1

    def test_without_respect_for_capacity_nobody_is_full(self, shop, dispatch):
        assert self.hand(shop, 4, respect_capacity=False) == ["Marek", "Nina", "Marek", "Nina"]

    def test_more_capacity_is_handed_out_oldest_first(self, shop, dispatch):
        self.hand(shop, 5)
        Membership.objects.of(shop).filter(group=dispatch).update(capacity=2)

        assert services.hand_out(shop) == 2
        holders = [services.read(shop, number).assignee for number in (3, 4, 5)]
        assert [holder and holder.name for holder in holders] == ["Marek", "Nina", None]
        assert services.hand_out(shop) == 0

    def test_the_line_comes_before_a_new_ticket(self, shop, dispatch):
        self.hand(shop, 3)
        Membership.objects.of(shop).filter(person__name="Nina").update(capacity=2)

        assert self.hand(shop, 1) == [None]
        assert services.read(shop, 3).assignee.name == "Nina"

    def test_when_all_are_absent_it_waits_also_without_respect_for_capacity(self, shop, dispatch):
        away = timezone.now() + timedelta(hours=1)
        Person.objects.of(shop).filter(memberships__group=dispatch).update(away_until=away)
        assert self.hand(shop, 1, respect_capacity=False) == [None]

        Person.objects.of(shop).update(away_until=timezone.now())
        assert services.hand_out(shop) == 1

    def test_a_group_without_members_says_so(self, shop, dispatch):
        Membership.objects.of(shop).filter(group=dispatch).delete()
        assert self.hand(shop, 1) == [None]
        message = log_entry(last_entry(services.read(shop, 1)), "en")["message"]
        assert message == "Waits in the line of Dispatch, nobody is free: the group has no members"

    def test_a_person_of_two_groups_gets_the_oldest_of_both_lines(self, shop, dispatch):
        it = Group.objects.of(shop).get(key="it")
        Membership.objects.of(shop).filter(group=it).delete()
        MembershipFactory(group=it, person=person(shop, "Nina"), capacity=1)
        self.hand(shop, 2)
        for number, group in ((3, "it"), (4, "dispatch")):
            services.create(shop, JANA, {"title": "x"})
            assert services.assign_least_busy(shop, number, ROBOT, group, respect_capacity=True) is None

        services.close(shop, 2, JANA)

        assert services.read(shop, 3).assignee.name == "Nina"
        assert services.read(shop, 4).assignee is None

    def test_the_strangers_line_is_not_touched(self, shop, stranger, dispatch):
        self.hand(shop, 3)
        Membership.objects.of(stranger).update(capacity=0)
        services.create(stranger, JANA, {"title": "x"})
        services.assign_least_busy(stranger, 1, ROBOT, "warehouse", respect_capacity=True)
        Membership.objects.of(stranger).update(capacity=1)

        services.close(shop, 1, JANA)

        assert services.read(stranger, 1).assignee is None
