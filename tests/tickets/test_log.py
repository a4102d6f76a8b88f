"""The log of a ticket: what it says, and that it tells the whole story of any sequence of edits."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csbot.lib.errors import RequestRefused
from tests.tickets.desk import JANA, ROBOT, last_entry, replayed
from tickets import services
from tickets.events import Actor
from tickets.models import Tenant, Ticket, TicketEvent
from tickets.representation import log_entry, state

pytestmark = pytest.mark.django_db


class TestLog:
    def test_says_who_with_run(self, shop):
        run_id = "1f0d7f1e-6d4c-4a7e-9f60-6b7a5ad0f6b4"
        ticket = services.create(shop, Actor("automation", "Orders v3", run_id), {"title": "x"})

        entry = log_entry(last_entry(ticket), "en")
        assert set(entry) == {"id", "at", "kind", "actor", "message", "data", "runId"}
        assert (entry["actor"], entry["runId"]) == ({"kind": "automation", "name": "Orders v3"}, run_id)

    def test_an_entry_of_a_run_carries_its_own_message(self, shop):
        ticket = services.create(shop, JANA, {"title": "x"})
        services.log(ticket, "automation", ROBOT, "automation.log", {"message": "100 % packed"})

        assert log_entry(last_entry(ticket), "en")["message"] == "100 % packed"

    def test_a_change_reads_as_from_and_to(self, shop):
        ticket = services.create(shop, JANA, {"title": "x", "type": "order", "fields": {"color": "red"}})
        services.change(
            shop,
            1,
            JANA,
            {
                "closed": True,
                "status": "new",
                "tags": ["a", "b"],
                "fields": {"color": "blue"},
                "description": "long",
                "requester": {"name": "Eva", "email": "eva@example.test"},
            },
        )

        assert log_entry(last_entry(ticket), "en")["message"] == (
            "Description changed; Status: – → new; Tags: – → a, b; "
            "Requester: – → Eva eva@example.test; Closed; color: red → blue"
        )
        services.reopen(shop, 1, JANA)
        assert log_entry(last_entry(ticket), "en")["message"] == "Reopened"

    def test_an_unknown_code_reads_as_itself(self, shop):
        ticket = services.create(shop, JANA, {"title": "x"})
        services.log(ticket, "automation", ROBOT, "of.the.future")

        assert log_entry(last_entry(ticket), "en")["message"] == "of.the.future"


TAGS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)
EDITS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "title": st.sampled_from(["One", "Two"]),
            "description": st.none() | st.just("text"),
            "type": st.sampled_from([None, "order", "error"]),
            "status": st.sampled_from([None, "new", "handed over", "solved", "no such"]),
            "closed": st.booleans(),
            "tags": TAGS,
            "addTags": TAGS,
            "removeTags": TAGS,
            "fields": st.fixed_dictionaries({}, optional={"color": st.sampled_from([None, "red", "blue"])}),
            "externalId": st.sampled_from([None, "5001"]),
            "requester": st.none() | st.just({"name": "Eva"}),
            "assignee": st.sampled_from([None, "jana@shop.test", "nina@shop.test"]),
            "group": st.sampled_from([None, "warehouse", "nothing"]),
        },
    ),
    max_size=8,
)


class TestProperties:
    """Over any sequence of edits, refused ones among them."""

    SETTINGS = settings(
        max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )

    @SETTINGS
    @given(edits=EDITS)
    def test_the_log_replays_to_the_present_state(self, shop, edits):
        ticket = services.create(shop, JANA, {"title": "One"})
        versions = 1
        for values in edits:
            before = state(services.read(shop, ticket.number))
            try:
                services.change(shop, ticket.number, JANA, values)
            except RequestRefused:
                assert state(services.read(shop, ticket.number)) == before
            versions += state(services.read(shop, ticket.number)) != before

        present = services.read(shop, ticket.number)
        assert replayed(ticket) == state(present)
        assert present.version == versions == ticket.events.count()
        Ticket.objects.of(shop).filter(pk=ticket.pk).update(external_id=None)

    @SETTINGS
    @given(edits=EDITS, axis=st.sampled_from(["status", "closed", "tags"]))
    def test_the_three_axes_are_independent(self, shop, edits, axis):
        """An edit of one axis leaves the other two, whatever they are."""
        keys = {"status": {"status"}, "closed": {"closed"}, "tags": {"tags", "addTags", "removeTags"}}[axis]
        ticket = services.create(shop, JANA, {"title": "One"})
        for values in edits:
            try:
                services.change(shop, ticket.number, JANA, {**values, "externalId": None})
            except RequestRefused:
                continue
        before = services.read(shop, ticket.number)
        for values in edits:
            try:
                services.change(shop, ticket.number, JANA, {k: v for k, v in values.items() if k in keys})
            except RequestRefused:
                continue

        after = services.read(shop, ticket.number)
        for other in {"status", "closed", "tags"} - {axis}:
            assert getattr(after, other) == getattr(before, other)


def test_every_entry_of_the_log_belongs_to_the_tenant_of_its_ticket(shop, stranger):
    for tenant in (shop, stranger):
        services.create(tenant, JANA, {"title": "x"})
        services.upsert(tenant, JANA, "5001", {}, update=True)

    for tenant in Tenant.objects.all():
        assert {event.ticket.tenant_id for event in TicketEvent.objects.of(tenant)} == {tenant.pk}
