"""The services behind people, groups, types, tokens and tenants: audit, locks, what follows a change."""

import threading
from datetime import timedelta

import pytest
from django.db import IntegrityError, connections, transaction
from django.utils import timezone

from csbot.lib.errors import RequestRefused
from tests.factories import PersonFactory, TenantFactory, TicketFactory
from tickets import people, services
from tickets.events import Actor
from tickets.models import ApiToken, AuditEntry, Group, Membership, Person, Tenant, Ticket

pytestmark = pytest.mark.django_db

EVA = Actor("person", "Eva")


def entries(tenant: Tenant) -> list[tuple[str, str]]:
    return [(entry.action, entry.actor["name"]) for entry in AuditEntry.objects.of(tenant).order_by("pk")]


def test_founding_a_tenant_is_audited_without_the_token():
    tenant, written = people.create_tenant(EVA, {"slug": "acme", "name": "Acme"})
    assert entries(tenant) == [("tenant.created", "Eva"), ("token.created", "Eva")]
    assert written not in str(list(AuditEntry.objects.values()))
    assert (tenant.language, tenant.timezone) == ("cs", "Europe/Prague")


def test_a_taken_slug_leaves_nothing_behind(shop):
    with pytest.raises(RequestRefused) as refused:
        people.create_tenant(EVA, {"slug": "shop", "name": "Second"})
    assert (refused.value.status, refused.value.code) == (409, "exists")
    assert not ApiToken.objects.exists()


def test_a_change_that_changes_nothing_is_not_audited(shop):
    jana = Person.objects.of(shop).get(name="Jana")
    people.change_person(jana, EVA, {"name": "Jana"})
    people.change_person(jana, EVA, {})
    assert entries(shop) == []
    people.change_person(jana, EVA, {"name": "Jana Nová"})
    assert entries(shop) == [("person.changed", "Eva")]


def test_replacing_members_keeps_the_rows_of_those_who_stay(shop):
    group = Group.objects.of(shop).get(key="warehouse")
    kept = Membership.objects.of(shop).get(group=group, person__name="Jana")
    nina = Person.objects.of(shop).get(name="Nina")
    members = [{"person": str(kept.person.public_id), "capacity": 4}, {"person": nina.email, "capacity": 1}]
    people.change_group(group, EVA, {"members": members})
    rows = Membership.objects.of(shop).filter(group=group).order_by("pk")
    assert [(row.person.name, row.capacity) for row in rows] == [("Jana", 4), ("Nina", 1)]
    assert rows[0].pk == kept.pk


def test_unknown_members_change_nothing(shop, stranger):
    group = Group.objects.of(shop).get(key="warehouse")
    foreign = Person.objects.of(stranger).get()
    members = [{"person": str(foreign.public_id), "capacity": 1}]
    with pytest.raises(RequestRefused) as refused:
        people.change_group(group, EVA, {"name": "Ours", "members": members})
    assert refused.value.errors == [{"pointer": "/members/0/person", "message": "There is no such person."}]
    group.refresh_from_db()
    assert (group.name, group.memberships.count()) == ("Warehouse", 3)


@pytest.mark.parametrize("how", ["capacity", "membership", "return"])
def test_who_gets_free_is_given_what_waits_in_line(shop, how):
    jana = Person.objects.of(shop).get(name="Jana")
    place = [{"person": str(jana.public_id), "capacity": 1}]
    group = people.create_group(shop, EVA, {"key": "returns", "name": "Returns", "members": place})
    if how == "return":
        people.change_person(jana, EVA, {"away_until": timezone.now() + timedelta(days=1)})
    else:
        busy = services.create(shop, EVA, {"title": "Held"})
        services.assign(shop, busy.number, EVA, person=jana.email)
    waiting = services.create(shop, EVA, {"title": "Waits"})
    assert services.assign_least_busy(shop, waiting.number, EVA, "returns", respect_capacity=True) is None
    if how == "capacity":
        people.change_group(group, EVA, {"members": [{**place[0], "capacity": 2}]})
    elif how == "membership":
        karel = Person.objects.of(shop).get(name="Karel")
        people.change_group(group, EVA, {"members": [*place, {"person": karel.email, "capacity": 1}]})
    else:
        people.change_person(jana, EVA, {"away_until": None})
    waiting.refresh_from_db()
    assert waiting.assignee is not None


def test_a_person_in_use_names_at_most_twenty_tickets(shop):
    jana = Person.objects.of(shop).get(name="Jana")
    for _ in range(25):
        TicketFactory(tenant=shop, assignee=jana)
    with pytest.raises(RequestRefused) as refused:
        people.delete_person(jana, EVA)
    assert refused.value.extra["usedBy"] == [f"TK-{number}" for number in range(25, 5, -1)]


def test_deleting_what_is_gone_is_no_error(shop):
    jana = PersonFactory(tenant=shop)
    people.delete_person(jana, EVA)
    people.delete_person(Person(pk=10**9, tenant=shop), EVA)
    assert entries(shop) == [("person.deleted", "Eva")]


def test_only_a_suspended_tenant_is_deleted(shop):
    with pytest.raises(RequestRefused) as refused:
        people.delete_tenant(shop, EVA)
    assert (refused.value.status, refused.value.code) == (409, "tenant.active")


@pytest.mark.django_db(transaction=True)
def test_deleting_a_tenant_leaves_no_dangling_row(shop, stranger):
    ticket = services.create(shop, EVA, {"title": "Order", "type": "order"})
    services.assign(shop, ticket.number, EVA, person="jana@shop.test", group="warehouse")
    people.suspend_tenant(shop, EVA)
    people.delete_tenant(shop, EVA)
    assert Tenant.objects.get() == stranger
    assert Ticket.objects.count() == 0
    assert Person.objects.get().tenant == stranger


@pytest.mark.django_db(transaction=True)
def test_a_ticket_given_while_its_person_is_deleted_does_not_arise(shop):
    jana = PersonFactory(tenant=shop)
    is_given, may_commit, errors = threading.Event(), threading.Event(), []

    def give() -> None:
        try:
            with transaction.atomic():
                TicketFactory(tenant=shop, assignee=jana)
                is_given.set()
                assert may_commit.wait(10)
        except IntegrityError as error:
            errors.append(error)
        finally:
            connections.close_all()

    giving = threading.Thread(target=give)
    giving.start()
    assert is_given.wait(10)
    people.delete_person(jana, EVA)
    may_commit.set()
    giving.join(10)
    assert len(errors) == 1
    assert not Ticket.objects.of(shop).exists()


def test_shapes_are_the_same_for_every_reader(shop):
    group = Group.objects.of(shop).get(key="dispatch")
    prefetched = Group.objects.of(shop).prefetch_related("memberships__person").get(key="dispatch")
    assert people.group_shape(group) == people.group_shape(prefetched)
    assert people.person_shape(PersonFactory(tenant=shop, away=True))["awayUntil"].endswith("Z")
    assert people.tenant_shape(TenantFactory(suspended=True))["suspended"] is True
