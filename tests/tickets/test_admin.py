"""Staff's admin of the desk: read-only history, writes through the services, no secret on any page."""

import re

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from tests.factories import PASSWORD, LoginFactory, PersonFactory, TicketFactory, TokenFactory
from tickets import services
from tickets.events import SYSTEM
from tickets.models import (
    ApiToken,
    AuditEntry,
    Group,
    Membership,
    Person,
    Tenant,
    Ticket,
    TicketEvent,
    TicketType,
)

MODELS = [Tenant, Person, Group, TicketType, Ticket, TicketEvent, ApiToken, AuditEntry]


@pytest.fixture
def staff(db) -> Client:
    """A member of staff, signed in."""
    client = Client()
    assert client.login(username=LoginFactory(staff=True, username="eva").username, password=PASSWORD)
    return client


@pytest.fixture
def busy_shop(shop) -> Tenant:
    """The shop with one row of everything."""
    services.create(shop, SYSTEM, {"title": "Order", "type": "order"})
    TokenFactory(tenant=shop)
    AuditEntry.objects.create(
        tenant=shop, actor={"kind": "person", "name": "Eva"}, action="x", object="people/1"
    )
    return shop


def page(model: type, name: str, *arguments) -> str:
    return reverse(f"admin:tickets_{model._meta.model_name}_{name}", args=arguments)


@pytest.mark.parametrize("model", MODELS)
def test_lists_and_pages_open_and_search(staff, busy_shop, model):
    assert staff.get(page(model, "changelist")).status_code == 200
    assert staff.get(page(model, "changelist"), {"q": "shop"}).status_code == 200
    row = model._base_manager.first()
    assert staff.get(page(model, "change", row.pk)).status_code == 200


@pytest.mark.parametrize("model", MODELS)
def test_lists_take_the_same_queries_however_long(staff, busy_shop, model, django_assert_max_num_queries):
    for _ in range(5):
        TicketFactory(tenant=busy_shop, assignee=PersonFactory(tenant=busy_shop))
        TokenFactory(tenant=busy_shop)
    with django_assert_max_num_queries(8):
        staff.get(page(model, "changelist"))
    assert admin.site.get_model_admin(model).show_full_result_count is False


@pytest.mark.parametrize("model", [TicketType, Ticket, TicketEvent, ApiToken, AuditEntry, Tenant])
def test_what_is_not_made_by_hand(staff, model):
    assert staff.get(page(model, "add")).status_code == 403


@pytest.mark.parametrize("model", [TicketType, Ticket, TicketEvent, AuditEntry])
def test_history_cannot_be_changed(staff, busy_shop, model):
    row = model._base_manager.first()
    assert staff.post(page(model, "change", row.pk), {}).status_code == 403
    assert staff.post(page(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    assert model._base_manager.filter(pk=row.pk).exists()


def test_who_is_no_staff_sees_nothing(shop):
    person = PersonFactory(tenant=shop, with_login=True, role="admin")
    client = Client()
    client.login(username=person.login.username, password=PASSWORD)
    assert client.get(page(Person, "changelist")).status_code == 302


def test_a_tokens_page_has_no_secret_and_deleting_revokes(staff, shop):
    token = TokenFactory(tenant=shop)
    shown = staff.get(page(ApiToken, "change", token.pk)).content.decode()
    assert token.written not in shown
    assert bytes(ApiToken.objects.get(pk=token.pk).digest).hex() not in shown
    assert staff.post(page(ApiToken, "delete", token.pk), {"post": "yes"}).status_code == 302
    assert not ApiToken.objects.filter(pk=token.pk).exists()
    assert AuditEntry.objects.of(shop).get().action == "token.revoked"


def test_people_are_added_and_changed_through_the_services(staff, shop):
    form = {"tenant": shop.pk, "name": "Iva", "email": "iva@shop.test", "role": "agent"}
    assert staff.post(page(Person, "add"), form).status_code == 302
    iva = Person.objects.of(shop).get(name="Iva")
    form = {"name": "Iva Nová", "email": "iva@shop.test", "role": "admin", "tenant": "1"}
    assert staff.post(page(Person, "change", iva.pk), form).status_code == 302
    iva.refresh_from_db()
    assert (iva.name, iva.role, iva.tenant) == ("Iva Nová", "admin", shop)
    entries = AuditEntry.objects.of(shop).order_by("pk")
    assert [(entry.action, entry.actor["name"]) for entry in entries] == [
        ("person.created", "eva"),
        ("person.changed", "eva"),
    ]
    assert staff.post(page(Person, "delete", iva.pk), {"post": "yes"}).status_code == 302
    assert entries.last().action == "person.deleted"


def test_a_taken_email_is_said_on_the_page(staff, shop):
    form = {"tenant": shop.pk, "name": "Second", "email": "JANA@shop.test", "role": "agent"}
    response = staff.post(page(Person, "add"), form)
    assert response.status_code == 200
    assert not Person.objects.of(shop).filter(name="Second").exists()


def members_form(group: Group, rows: list[dict]) -> dict:
    existing = sum("id" in row for row in rows)
    form = {"key": group.key, "name": group.name, "tenant": group.tenant_id}
    form |= {"memberships-TOTAL_FORMS": len(rows), "memberships-INITIAL_FORMS": existing}
    for index, row in enumerate(rows):
        form |= {f"memberships-{index}-{name}": value for name, value in {"group": group.pk, **row}.items()}
    return form


def test_members_are_edited_beside_their_group(staff, shop):
    group = Group.objects.of(shop).get(key="dispatch")
    marek, nina = Membership.objects.of(shop).filter(group=group).order_by("person__name")
    ota = Person.objects.of(shop).get(name="Ota")
    rows = [
        {"id": marek.pk, "person": marek.person_id, "capacity": 3},
        {"id": nina.pk, "person": nina.person_id, "capacity": 10, "DELETE": "on"},
        {"person": ota.pk, "capacity": 2},
    ]
    assert staff.post(page(Group, "change", group.pk), members_form(group, rows)).status_code == 302
    members = Membership.objects.of(shop).filter(group=group).order_by("person__name")
    assert [(row.person.name, row.capacity, row.tenant) for row in members] == [
        ("Marek", 3, shop),
        ("Ota", 2, shop),
    ]
    assert AuditEntry.objects.of(shop).get().action == "group.changed"


def test_a_person_of_another_tenant_is_no_member(staff, shop, stranger):
    group = Group.objects.of(shop).get(key="dispatch")
    foreign = Person.objects.of(stranger).get()
    response = staff.post(
        page(Group, "change", group.pk), members_form(group, [{"person": foreign.pk, "capacity": 1}])
    )
    assert response.status_code == 200
    assert "This person belongs to another tenant." in response.content.decode()
    assert group.memberships.count() == 2


def test_a_group_is_added_with_its_members(staff, shop):
    jana = Person.objects.of(shop).get(name="Jana")
    form = members_form(Group(key="new", name="New", tenant=shop), [{"person": jana.pk, "capacity": 1}])
    form = {name: value for name, value in form.items() if value is not None}
    assert staff.post(page(Group, "add"), form).status_code == 302
    assert Group.objects.of(shop).get(key="new").memberships.get().person == jana


def test_tenants_are_changed_suspended_and_resumed(staff, shop):
    form = {
        "name": "Shop",
        "language": "cs",
        "timezone": "UTC",
        "retention_days": 30,
        "max_parallel_runs": "",
    }
    assert staff.post(page(Tenant, "change", shop.pk), form).status_code == 302
    for action, is_suspended in [("suspend", True), ("resume", False)]:
        staff.post(page(Tenant, "changelist"), {"action": action, "_selected_action": [shop.pk]})
        shop.refresh_from_db()
        assert (shop.suspended_at is not None) is is_suspended
    assert (shop.name, shop.slug) == ("Shop", "shop")
    actions = AuditEntry.objects.of(shop).order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["tenant.changed", "tenant.suspended", "tenant.resumed"]


def test_logins_are_djangos_own_page(staff):
    assert staff.get("/admin/tickets/login/").status_code == 200
    shown = staff.get("/admin/tickets/login/add/").content.decode()
    assert re.search(r'name="password1"', shown)
