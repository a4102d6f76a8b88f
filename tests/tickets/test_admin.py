"""Staff's admin of the desk: read-only history, writes through the services, no secret on any page."""

import re

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from tests.factories import PASSWORD, LoginFactory, PersonFactory, TicketFactory, TokenFactory
from tickets import services
from tickets.events import SYSTEM
from tickets.models import (
    ApiToken,
    AuditEntry,
    Group,
    Login,
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


@pytest.mark.parametrize(
    ("name", "value"),
    [("timezone", "Mars/Base"), ("max_parallel_runs", 0), ("retention_days", 0), ("retention_days", 3651)],
)
def test_a_tenants_form_refuses_what_the_api_refuses(staff, shop, name, value):
    form = {
        "name": "Shop",
        "language": "cs",
        "timezone": "UTC",
        "retention_days": 30,
        "max_parallel_runs": "",
    }
    answer = staff.post(page(Tenant, "change", shop.pk), {**form, name: value})
    assert answer.status_code == 200
    assert list(answer.context["adminform"].form.errors) == [name]
    before = getattr(shop, name)
    shop.refresh_from_db()
    assert getattr(shop, name) == before


def test_what_is_taken_is_said_at_its_field(staff, shop):
    ota = Person.objects.of(shop).get(name="Ota")
    form = {"name": "Ota", "email": "JANA@shop.test", "role": "admin"}
    answer = staff.post(page(Person, "change", ota.pk), form)
    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors == {"email": ["There is a person with this e-mail."]}
    group = Group.objects.of(shop).get(key="dispatch")
    answer = staff.post(page(Group, "change", group.pk), {**members_form(group, []), "key": "warehouse"})
    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors == {"key": ["There is a group with this key."]}
    assert not AuditEntry.objects.of(shop).exists()


def test_a_groups_key_and_capacities_follow_the_apis_rules(staff, shop):
    group = Group.objects.of(shop).get(key="dispatch")
    answer = staff.post(page(Group, "change", group.pk), {**members_form(group, []), "key": "Bad Key!"})
    assert "Expected letters, digits" in answer.context["adminform"].form.errors["key"][0]
    jana = Person.objects.of(shop).get(name="Jana")
    answer = staff.post(
        page(Group, "change", group.pk), members_form(group, [{"person": jana.pk, "capacity": 0}])
    )
    assert answer.status_code == 200
    assert group.memberships.count() == 2


def test_tickets_are_found_by_number_and_words(staff, shop):
    ticket = services.create(shop, SYSTEM, {"title": "Žluťoučký kůň"})
    services.create(shop, SYSTEM, {"title": "Broken box"})
    for words in (ticket.key, "zlutoucky"):
        shown = staff.get(page(Ticket, "changelist"), {"q": words}).content.decode()
        assert "Žluťoučký" in shown
        assert "Broken box" not in shown


def test_a_ticket_event_has_a_name_without_a_query(busy_shop, django_assert_num_queries):
    pk = TicketEvent.objects.of(busy_shop).get().pk
    with django_assert_num_queries(2):
        bare = str(TicketEvent.objects.get(pk=pk))
        named = str(TicketEvent.objects.select_related("ticket").get(pk=pk))
    assert (bare.split()[-1], named) == ("created", "TK-1 created")


def test_suspending_says_whom_it_met(staff, shop):
    for action, said in [
        ("suspend", "Suspended: shop."),
        ("suspend", "Suspended: none"),
        ("resume", "Resumed: shop."),
    ]:
        form = {"action": action, "_selected_action": [shop.pk]}
        assert said in staff.post(page(Tenant, "changelist"), form, follow=True).content.decode()


def test_nobody_but_its_owner_sets_a_persons_password(staff, shop):
    login = PersonFactory(tenant=shop, with_login=True).login
    before = login.password
    form = {"usable_password": "true", "password1": "a new long password", "password2": "a new long password"}
    assert staff.get(f"/admin/tickets/login/{login.pk}/password/").status_code == 403
    assert staff.post(f"/admin/tickets/login/{login.pk}/password/", form).status_code == 403
    assert staff.post(page(Login, "delete", login.pk), {"post": "yes"}).status_code == 403
    several = {"action": "delete_selected", "_selected_action": [login.pk], "post": "yes"}
    assert staff.post(page(Login, "changelist"), several).status_code == 403
    # Neither another address nor being staff is a way to it; locking is.
    taken_over = {"email": "thief@example.test", "username": "thief", "is_staff": "on"}
    assert staff.post(page(Login, "change", login.pk), taken_over).status_code == 302
    login.refresh_from_db()
    assert (login.password, login.is_staff, login.is_active) == (before, False, False)
    assert "thief" not in login.email + login.username


def test_logins_of_staff_are_made_and_changed_by_superusers_alone(staff):
    form = {
        "username": "ivo",
        "email": "ivo@csbot.test",
        "password1": "long enough 1",
        "password2": "long enough 1",
    }
    assert staff.post(page(Login, "add"), form).status_code == 302
    ivo = Login.objects.get(username="ivo")
    assert (ivo.is_staff, ivo.is_superuser) == (True, False)
    new = {"usable_password": "true", "password1": "another long one", "password2": "another long one"}
    assert staff.post(f"/admin/tickets/login/{ivo.pk}/password/", new).status_code == 302
    ivo.refresh_from_db()
    assert ivo.check_password("another long one")
    ivo.user_permissions.set(Permission.objects.filter(content_type__model="login"))
    staff.force_login(ivo)
    eva = Login.objects.get(username="eva")
    assert staff.get(page(Login, "add")).status_code == 403
    assert staff.post(page(Login, "change", eva.pk), {"username": "x"}).status_code == 403
    assert staff.post(f"/admin/tickets/login/{eva.pk}/password/", new).status_code == 403
    assert staff.post(page(Login, "delete", eva.pk), {"post": "yes"}).status_code == 403
