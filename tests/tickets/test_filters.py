"""Filters by reference: what is named and unknown matches nothing, as an absent row would."""

import uuid

import pytest

from tests.factories import GroupFactory, MembershipFactory, TicketFactory
from tickets.models import Group, Person, TicketType


@pytest.mark.parametrize("query", ["people?group", "tickets?group", "tickets?type"])
def test_an_unknown_reference_in_a_filter_matches_nothing(api, shop, stranger, query):
    TicketFactory(tenant=shop, type=TicketType.objects.of(shop).first())
    foreign = Group.objects.of(stranger).get()
    for reference in ("nope", str(uuid.uuid4()), str(foreign.public_id)):
        response = api(shop).get(f"/api/{query}={reference}")
        assert (response.status_code, response.json()["results"]) == (200, [])


def test_a_person_is_listed_once_whatever_groups_a_text_means(api, shop):
    warehouse = Group.objects.of(shop).get(key="warehouse")
    namesake = GroupFactory(tenant=shop, key=str(warehouse.public_id))
    MembershipFactory(group=namesake, person=Person.objects.of(shop).get(name="Jana"))
    people = api(shop).get(f"/api/people?group={warehouse.public_id}").json()["results"]
    assert [person["name"] for person in people] == ["Lenka", "Karel", "Jana"]
