"""Writes of tickets: what is created, changed, found and commented on."""

from decimal import Decimal

import pytest

from csbot.lib.errors import RequestRefused
from tests.factories import TicketTypeFactory
from tests.tickets.desk import JANA, ROBOT, kinds, last_entry, person
from tickets import services
from tickets.events import ticket_changed
from tickets.models import Group, Ticket, TicketType
from tickets.representation import log_entry

pytestmark = pytest.mark.django_db


class TestCreating:
    def test_answers_exactly_the_json_of_the_api(self, shop):
        ticket = services.create(
            shop,
            JANA,
            {
                "title": "Order 5001",
                "type": "order",
                "status": "new",
                "tags": ["a", "b", "a", " "],
                "externalId": "5001",
                "fields": {"f_color": "red"},
                "requester": {"name": "Eva", "email": "eva@example.test"},
                "assignee": "jana@shop.test",
                "group": "warehouse",
            },
        )

        jana, warehouse = person(shop, "Jana"), Group.objects.of(shop).get(key="warehouse")
        shown = services.representation(services.read(shop, "TK-1"))
        assert shown == services.representation(ticket)
        assert shown.pop("createdAt") == shown.pop("updatedAt")
        assert shown == {
            "number": "TK-1",
            "externalId": "5001",
            "title": "Order 5001",
            "description": None,
            "type": "order",
            "status": "new",
            "closed": False,
            "closedAt": None,
            "tags": ["a", "b"],
            "assignee": {"id": str(jana.public_id), "name": "Jana"},
            "group": {"id": str(warehouse.public_id), "name": "Warehouse"},
            "fields": {"color": "red"},
            "requester": {"name": "Eva", "email": "eva@example.test"},
            "version": 1,
        }

    def test_is_one_entry_and_one_event(self, shop, signals):
        ticket = services.create(shop, JANA, {"title": "Order", "status": "new"})

        assert kinds(ticket) == ["created"]
        told = {"title": {"from": None, "to": "Order"}, "status": {"from": None, "to": "new"}}
        assert last_entry(ticket).data == {"changes": told}
        assert [(one["event"], one["changes"], one["actor"]) for one in signals] == [("created", told, JANA)]

    def test_numbers_count_per_tenant(self, shop, stranger):
        numbers = [
            services.create(tenant, JANA, {"title": "x"}).key for tenant in (shop, shop, stranger, shop)
        ]

        assert numbers == ["TK-1", "TK-2", "TK-1", "TK-3"]

    def test_lists_every_fault_at_once_and_writes_nothing(self, shop):
        with pytest.raises(RequestRefused) as refused:
            services.create(
                shop, JANA, {"title": " ", "tags": "a", "closed": "yes", "description": 5, "colour": "red"}
            )

        assert refused.value.status == 400
        pointers = {error["pointer"] for error in refused.value.errors}
        assert pointers == {"/title", "/tags", "/closed", "/description", "/colour"}
        assert not Ticket.objects.of(shop).exists()

    @pytest.mark.parametrize(
        ("values", "pointer"),
        [
            ({}, "/title"),
            ({"title": "x" * 501}, "/title"),
            ({"title": "a\x00b"}, "/title"),
            ({"title": "\udc00"}, "/title"),
            ({"title": None}, "/title"),
            ({"title": "x", "tags": ["y" * 201]}, "/tags"),
            ({"title": "x", "tags": [str(n) for n in range(101)]}, "/tags"),
            ({"title": "x", "externalId": "e" * 501}, "/externalId"),
            ({"title": "x", "description": "d" * 100_001}, "/description"),
            ({"title": "x", "fields": []}, "/fields"),
            ({"title": "x", "fields": {"color": "red"}}, "/fields/color"),
            ({"title": "x", "requester": "Eva"}, "/requester"),
            ({"title": "x", "requester": {"phone": "1"}}, "/requester"),
            ({"title": "x", "type": 5}, "/type"),
            ({"title": "x", "type": "order", "status": "lost"}, "/status"),
            ({"title": "x", "status": "s" * 201}, "/status"),
        ],
    )
    def test_refuses(self, shop, values, pointer):
        with pytest.raises(RequestRefused) as refused:
            services.create(shop, JANA, values)

        assert (refused.value.code, refused.value.status) == ("ticket.invalid", 400)
        assert [error["pointer"] for error in refused.value.errors] == [pointer]

    @pytest.mark.parametrize(
        ("values", "code"),
        [
            ({"type": "nothing"}, "missing.type"),
            ({"group": "nothing"}, "missing.group"),
            ({"assignee": "nobody@shop.test"}, "missing.person"),
            ({"assignee": "00000000-0000-4000-8000-000000000000"}, "missing.person"),
        ],
    )
    def test_refuses_unknown_references(self, shop, values, code):
        with pytest.raises(RequestRefused) as refused:
            services.create(shop, JANA, {"title": "x", **values})

        assert refused.value.code == code
        assert [error["pointer"] for error in refused.value.errors] == [f"/{next(iter(values))}"]

    def test_never_takes_another_tenants_type_group_or_person(self, shop, stranger):
        foreign = {
            "type": str(TicketType.objects.of(stranger).get().public_id),
            "group": str(Group.objects.of(stranger).get().public_id),
            "assignee": "cizinec@stranger.test",
        }
        with pytest.raises(RequestRefused) as refused:
            services.create(shop, JANA, {"title": "x", **foreign})

        assert {error["pointer"] for error in refused.value.errors} == {"/type", "/group", "/assignee"}

    def test_refuses_a_second_one_with_the_same_external_id(self, shop, stranger):
        services.create(shop, JANA, {"title": "x", "externalId": "5001"})
        services.create(stranger, JANA, {"title": "x", "externalId": "5001"})

        with pytest.raises(RequestRefused) as refused:
            services.create(shop, JANA, {"title": "y", "externalId": "5001"})

        assert (refused.value.code, refused.value.status) == ("ticket.externalId", 409)
        assert services.create(shop, JANA, {"title": "z"}).key == "TK-2"

    def test_wants_the_fields_that_the_type_requires(self, shop):
        color = {"id": "f_color", "key": "color", "label": "Color", "type": "text", "required": True}
        TicketTypeFactory(tenant=shop, key="paint", fields=[color])

        with pytest.raises(RequestRefused) as refused:
            services.create(shop, JANA, {"title": "x", "type": "paint"})
        assert [error["pointer"] for error in refused.value.errors] == ["/fields/color"]
        assert services.create(shop, JANA, {"title": "x", "type": "paint", "fields": {"color": "red"}})

    def test_a_ticket_without_a_type_may_have_any_status(self, shop):
        assert services.create(shop, JANA, {"title": "x", "status": "anything"}).status == "anything"


class TestChanging:
    @pytest.fixture
    def ticket(self, shop):
        return services.create(
            shop,
            JANA,
            {
                "title": "Order",
                "type": "order",
                "status": "new",
                "tags": ["a", "b"],
                "fields": {"color": "red"},
            },
        )

    def test_one_edit_is_one_entry_and_one_event(self, shop, ticket, signals):
        changed = services.change(
            shop,
            ticket.number,
            ROBOT,
            {"status": "handed over", "addTags": ["c"], "fields": {"color": "blue"}},
        )

        told = {
            "status": {"from": "new", "to": "handed over"},
            "tags": {"from": ["a", "b"], "to": ["a", "b", "c"]},
            "fields.color": {"from": "red", "to": "blue"},
        }
        assert kinds(ticket) == ["created", "changed"]
        assert last_entry(ticket).data == {"changes": told}
        assert [(one["event"], one["changes"]) for one in signals] == [("changed", told)]
        assert changed.version == 2
        assert Ticket.objects.of(shop).get().version == 2

    @pytest.mark.parametrize(
        "values",
        [
            {},
            {"status": "new"},
            {"title": "Order", "type": "order", "description": None, "requester": None},
            {"tags": ["b", "a"]},
            {"addTags": ["a"], "removeTags": ["z"]},
            {"addTags": ["z"], "removeTags": ["z"]},
            {"fields": {"color": "red"}},
            {"fields": {"f_color": "red", "size": None}},
            {"closed": False, "assignee": None, "group": None},
        ],
    )
    def test_a_value_that_is_there_is_no_change(self, shop, ticket, signals, values):
        before = services.representation(services.read(shop, ticket.key))

        services.change(shop, ticket.number, JANA, values)

        assert services.representation(services.read(shop, ticket.key)) == before
        assert kinds(ticket) == ["created"]
        assert signals == []

    def test_a_stale_version_is_refused_and_tells_the_present_one(self, shop, ticket):
        services.change(shop, ticket.number, JANA, {"status": None}, version=1)

        with pytest.raises(RequestRefused) as refused:
            services.change(shop, ticket.number, JANA, {"status": "new"}, version=1)

        assert (refused.value.code, refused.value.status) == ("ticket.stale", 409)
        assert refused.value.extra == {"version": 2}
        assert services.read(shop, ticket.key).status is None

    def test_fields_merge_and_null_removes(self, shop, ticket):
        size = {"id": "f_size", "key": "size", "label": "Size", "type": "number", "required": False}
        kind = TicketType.objects.of(shop).get(key="order")
        TicketType.objects.filter(pk=kind.pk).update(fields=[*kind.fields, size])

        services.change(shop, ticket.number, JANA, {"fields": {"size": Decimal("12.50")}})
        assert services.read(shop, ticket.key).fields == {"color": "red", "size": Decimal("12.50")}

        services.change(shop, ticket.number, JANA, {"fields": {"color": None}})
        assert services.read(shop, ticket.key).fields == {"size": Decimal("12.50")}
        assert last_entry(ticket).data == {"changes": {"fields.color": {"from": "red", "to": None}}}

    def test_a_new_type_clears_a_status_that_it_does_not_offer(self, shop, ticket):
        services.change(shop, ticket.number, JANA, {"status": "handed over"})
        changed = services.change(shop, ticket.number, JANA, {"type": "error"})

        assert (changed.type.key, changed.status) == ("error", None)
        told = last_entry(ticket).data["changes"]
        assert told["status"] == {"from": "handed over", "to": None}

    def test_a_new_type_keeps_a_status_that_it_offers_and_every_field(self, shop, ticket):
        changed = services.change(shop, ticket.number, JANA, {"type": "error"})

        assert (changed.type.key, changed.status, changed.fields) == ("error", "new", {"color": "red"})

    def test_a_status_given_with_a_new_type_has_to_be_offered_by_that_one(self, shop, ticket):
        with pytest.raises(RequestRefused, match="solved"):
            services.change(shop, ticket.number, JANA, {"type": "error", "status": "handed over"})
        assert (
            services.change(shop, ticket.number, JANA, {"type": "error", "status": "solved"}).status
            == "solved"
        )

    def test_a_status_that_the_type_stopped_offering_may_stay(self, shop, ticket):
        TicketType.objects.of(shop).filter(key="order").update(statuses=["other"])

        assert services.change(shop, ticket.number, JANA, {"status": "new", "title": "Other"}).status == "new"

    def test_closing_and_reopening_touch_nothing_else(self, shop, ticket):
        closed = services.close(shop, ticket.number, JANA)
        assert (closed.closed, closed.status, closed.tags) == (True, "new", ["a", "b"])
        assert closed.closed_at is not None
        instant = services.close(shop, ticket.number, JANA).closed_at
        assert instant == closed.closed_at

        reopened = services.reopen(shop, ticket.number, JANA)
        assert (reopened.closed, reopened.closed_at, reopened.status) == (False, None, "new")
        assert kinds(ticket) == ["created", "changed", "changed"]

    def test_another_tenants_ticket_does_not_exist(self, stranger, shop, ticket):
        for write in (
            lambda: services.change(stranger, ticket.number, JANA, {"title": "x"}),
            lambda: services.comment(stranger, ticket.number, JANA, "x", public=True),
            lambda: services.assign(stranger, ticket.number, JANA, group="warehouse"),
            lambda: services.assign_least_busy(stranger, ticket.number, JANA, "warehouse"),
            lambda: services.close(stranger, ticket.number, JANA),
            lambda: services.read(stranger, ticket.key),
        ):
            with pytest.raises(RequestRefused) as refused:
                write()
            assert (refused.value.code, refused.value.status) == ("ticket.unknown", 404)

    def test_an_external_id_of_another_ticket_is_refused(self, shop, ticket):
        services.create(shop, JANA, {"title": "x", "externalId": "5001"})

        with pytest.raises(RequestRefused) as refused:
            services.change(shop, ticket.number, JANA, {"externalId": "5001"})

        assert (refused.value.code, refused.value.status) == ("ticket.externalId", 409)

    def test_a_receiver_that_fails_undoes_the_edit(self, shop, ticket):
        def fail(sender, **what):
            raise RuntimeError("no run, no change")

        ticket_changed.connect(fail)
        try:
            with pytest.raises(RuntimeError):
                services.change(shop, ticket.number, JANA, {"title": "Other"})
        finally:
            ticket_changed.disconnect(fail)

        assert services.read(shop, ticket.key).title == "Order"
        assert kinds(ticket) == ["created"]


class TestUpserting:
    def test_creates_then_hangs_events(self, shop, signals):
        first, created = services.upsert(
            shop, ROBOT, "5001", {"title": "Order", "status": "new"}, update=False
        )
        again, created_again = services.upsert(shop, ROBOT, "5001", {"status": "other"}, update=False)

        assert (created, created_again) == (True, False)
        assert again.pk == first.pk
        assert services.read(shop, "5001").status == "new"
        assert kinds(first) == ["created", "event", "event"]
        assert last_entry(first).data == {"values": {"status": "other", "externalId": "5001"}}
        assert [one["event"] for one in signals] == ["created"]

    def test_changes_what_was_given_when_told_to(self, shop, signals):
        ticket, _ = services.upsert(shop, ROBOT, "5001", {"title": "Order", "status": "new"}, update=False)
        services.upsert(shop, ROBOT, "5001", {"status": "packed", "tags": ["late"]}, update=True)
        services.upsert(shop, ROBOT, "5001", {"status": "packed", "tags": ["late"]}, update=True)

        present = services.read(shop, "5001")
        assert (present.title, present.status, present.tags, present.version) == (
            "Order",
            "packed",
            ["late"],
            2,
        )
        assert kinds(ticket) == ["created", "event", "event", "changed", "event"]
        assert [one["event"] for one in signals] == ["created", "changed"]

    def test_finds_a_closed_one_and_leaves_it_closed(self, shop):
        ticket, _ = services.upsert(shop, ROBOT, "5001", {}, update=False)
        services.close(shop, ticket.number, JANA)

        found, created = services.upsert(shop, ROBOT, "5001", {"status": "x"}, update=True)

        assert (found.pk, created, found.closed, found.status) == (ticket.pk, False, True, "x")

    def test_one_without_a_title_is_named_by_its_external_id(self, shop):
        ticket, _ = services.upsert(shop, ROBOT, "5001", {}, update=False)

        assert ticket.title == "5001"

    @pytest.mark.parametrize("external_id", ["", "  ", None, 5, "a\x00", "e" * 501])
    def test_refuses_an_external_id_that_is_none(self, shop, external_id):
        with pytest.raises(RequestRefused) as refused:
            services.upsert(shop, ROBOT, external_id, {"title": "x"}, update=False)

        assert refused.value.errors[0]["pointer"] == "/externalId"

    def test_a_refusal_leaves_no_ticket_and_no_event(self, shop):
        with pytest.raises(RequestRefused, match="There is no such type"):
            services.upsert(shop, ROBOT, "5001", {"type": "nothing"}, update=False)
        assert not Ticket.objects.of(shop).exists()

        ticket, _ = services.upsert(shop, ROBOT, "5001", {}, update=False)
        with pytest.raises(RequestRefused):
            services.upsert(shop, ROBOT, "5001", {"type": "order", "status": "lost"}, update=True)
        assert kinds(ticket) == ["created", "event"]

    def test_the_same_external_id_of_two_tenants_is_two_tickets(self, shop, stranger):
        ours, _ = services.upsert(shop, ROBOT, "5001", {}, update=False)
        theirs, created = services.upsert(stranger, ROBOT, "5001", {}, update=False)

        assert created
        assert ours.pk != theirs.pk


class TestReading:
    def test_by_number_and_by_external_id(self, shop):
        ticket = services.create(shop, JANA, {"title": "x", "externalId": "5001"})

        for reference in ("TK-1", "tk-1", 1, "5001"):
            assert services.read(shop, reference).pk == ticket.pk

    @pytest.mark.parametrize("reference", ["TK-2", "TK-", "TK-99999999999999999999", 7, "1", "", 2**70])
    def test_what_does_not_exist(self, shop, reference):
        services.create(shop, JANA, {"title": "x"})

        with pytest.raises(RequestRefused) as refused:
            services.read(shop, reference)
        assert refused.value.status == 404


class TestCommenting:
    def test_is_an_entry_and_no_change(self, shop, signals):
        ticket = services.create(shop, JANA, {"title": "x"})
        signals.clear()

        services.comment(shop, ticket.number, JANA, "We are on it.", public=True)
        services.comment(shop, ticket.number, JANA, "Hm.", public=False)

        present = services.read(shop, 1)
        assert (present.version, signals) == (1, [])
        assert present.updated_at > ticket.updated_at
        entries = [log_entry(event, "en") for event in ticket.events.order_by("id")][1:]
        assert [entry["data"] for entry in entries] == [
            {"text": "We are on it.", "public": True},
            {"text": "Hm.", "public": False},
        ]
        assert [entry["message"] for entry in entries] == [
            "Public reply: We are on it.",
            "Internal note: Hm.",
        ]

    @pytest.mark.parametrize("text", ["", "  ", None, 5, "a\x00b", "x" * 100_001])
    def test_refuses(self, shop, text):
        ticket = services.create(shop, JANA, {"title": "x"})

        with pytest.raises(RequestRefused) as refused:
            services.comment(shop, ticket.number, JANA, text, public=False)
        assert refused.value.errors[0]["pointer"] == "/text"
