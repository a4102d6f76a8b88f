"""From a request to tenant, actor, role and language: tokens, sessions, `X-Tenant`, suspension, 404 alike."""

import uuid

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from rest_framework.test import APIClient

from tests.csbot.test_api import problem
from tests.factories import PASSWORD, GroupFactory, LoginFactory, PersonFactory, TenantFactory, TokenFactory
from tickets import people
from tickets.events import SYSTEM
from tickets.models import Group, Tenant
from tickets.rights import RANKS, has_right


def bearer(written: str) -> APIClient:
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {written}")


def signed_in(login, **options) -> Client:
    client = Client(**options)
    assert client.login(username=login.username, password=PASSWORD)
    return client


# Tokens


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer csb_12345678_" + "a" * 32},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer ř".encode().decode("latin-1")},
        {"X-Tenant": "shop"},
    ],
)
def test_nobody_is_401_with_the_scheme(shop, headers):
    response = Client(headers=headers).get("/api/groups")
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="csbot"'
    assert response.status_code == 401
    assert response.headers["Content-Type"] == "application/problem+json"


def test_the_scheme_is_read_in_any_case(shop):
    written = TokenFactory(tenant=shop).written
    assert APIClient(HTTP_AUTHORIZATION=f"bearer  {written} ").get("/api/groups").status_code == 200


def test_a_token_may_name_its_own_tenant_and_no_other(api, shop, stranger):
    program = api(shop)
    assert program.get("/api/groups", headers={"X-Tenant": "shop"}).status_code == 200
    foreign = problem(program.get("/api/groups", headers={"X-Tenant": "stranger"}), 404, "not_found")
    absent = problem(program.get("/api/groups", headers={"X-Tenant": "nobody"}), 404, "not_found")
    assert foreign == absent
    problem(program.get("/api/me", headers={"X-Tenant": "stranger"}), 404, "not_found")


def test_staff_names_the_tenant(staff_api, shop):
    problem(staff_api.get("/api/groups"), 400, "tenant.missing")
    problem(staff_api.get("/api/groups", headers={"X-Tenant": "nobody"}), 404, "not_found")
    groups = staff_api.get("/api/groups", headers={"X-Tenant": "shop"}).json()["results"]
    assert len(groups) == 3


def test_a_revoked_token_is_401_at_once(api, shop):
    token = TokenFactory(tenant=shop)
    program = bearer(token.written)
    assert program.get("/api/me").status_code == 200
    people.revoke_token(token, SYSTEM)
    assert program.get("/api/me").status_code == 401


def test_a_suspended_tenants_tokens_are_403_and_staff_still_looks(api, staff_api, shop):
    program = api(shop)
    people.suspend_tenant(shop, SYSTEM)
    problem(program.get("/api/groups"), 403, "tenant.suspended")
    problem(program.get("/api/me"), 403, "tenant.suspended")
    assert staff_api.get("/api/groups", headers={"X-Tenant": "shop"}).status_code == 200
    people.resume_tenant(shop, SYSTEM)
    assert program.get("/api/groups").status_code == 200


# Sessions


def test_a_person_of_one_tenant_needs_no_header(shop):
    person = PersonFactory(tenant=shop, with_login=True, name="Eva", role="viewer")
    me = signed_in(person.login).get("/api/me").json()
    assert me["tenant"] == {"slug": "shop", "name": "E-shop"}
    assert me["person"]["id"] == str(person.public_id)
    assert me["token"] is None
    assert me["staff"] is False


def test_a_person_of_several_tenants_picks_one(shop, stranger):
    login = LoginFactory()
    PersonFactory(tenant=shop, login=login, role="viewer")
    PersonFactory(tenant=stranger, login=login, role="admin")
    client = signed_in(login)
    problem(client.get("/api/groups"), 400, "tenant.missing")
    assert client.get("/api/me").json()["tenants"] == [
        {"slug": "shop", "name": "E-shop", "role": "viewer"},
        {"slug": "stranger", "name": "Stranger", "role": "admin"},
    ]
    assert len(client.get("/api/groups", headers={"X-Tenant": "shop"}).json()["results"]) == 3
    problem(client.get("/api/tokens", headers={"X-Tenant": "shop"}), 403, "permission_denied")
    assert client.get("/api/tokens", headers={"X-Tenant": "stranger"}).status_code == 200
    TenantFactory(slug="third")
    problem(client.get("/api/groups", headers={"X-Tenant": "third"}), 404, "not_found")


def test_a_login_of_no_tenant_sees_only_itself(shop):
    client = signed_in(LoginFactory())
    assert client.get("/api/me").json()["tenants"] == []
    problem(client.get("/api/groups"), 403, "tenant.none")
    problem(client.get("/api/tenants"), 403, "permission_denied")


def test_a_suspended_tenants_people_are_403(shop):
    person = PersonFactory(tenant=shop, with_login=True)
    client = signed_in(person.login)
    people.suspend_tenant(shop, SYSTEM)
    problem(client.get("/api/groups"), 403, "tenant.suspended")


def test_staff_by_session_is_staff(shop):
    client = signed_in(LoginFactory(staff=True))
    assert client.get("/api/tenants").status_code == 200
    problem(client.get("/api/groups"), 400, "tenant.missing")
    assert client.get("/api/groups", headers={"X-Tenant": "shop"}).status_code == 200


def test_a_login_taken_out_of_use_is_401(shop):
    person = PersonFactory(tenant=shop, with_login=True)
    client = signed_in(person.login)
    person.login.is_active = False
    person.login.save()
    assert client.get("/api/groups").status_code == 401


def test_writing_by_session_needs_the_csrf_token(shop):
    person = PersonFactory(tenant=shop, with_login=True, role="admin")
    client = signed_in(person.login, enforce_csrf_checks=True)
    body = {"data": {"key": "new", "name": "New"}, "content_type": "application/json"}
    problem(client.post("/api/groups", **body), 403, "csrf")
    assert client.get("/api/groups").status_code == 200
    client.get("/admin/login/")
    token = client.cookies["csrftoken"].value
    assert client.post("/api/groups", **body, headers={"X-CSRFToken": token}).status_code == 201


# Another tenant's objects


def test_a_strangers_object_is_404_as_if_absent_and_unchanged(api, shop, stranger):
    foreign = Group.objects.of(stranger).get()
    program = api(shop)
    for address in (
        f"/api/groups/{foreign.public_id}",
        f"/api/groups/{uuid.uuid4()}",
        "/api/groups/%00",
        "/api/groups/x",
    ):
        assert problem(program.get(address), 404, "not_found")["detail"] == "There is no such thing here."
        problem(program.patch(address, {"name": "Mine"}), 404, "not_found")
        problem(program.delete(address), 404, "not_found")
    assert Group.objects.of(stranger).get().name == "Warehouse"


def test_lists_show_one_tenants_rows(api, shop, stranger):
    assert [group["key"] for group in api(stranger).get("/api/groups").json()["results"]] == ["warehouse"]
    GroupFactory(tenant=shop, key="only-shop")
    assert api(stranger).get("/api/groups?key=only-shop").json()["results"] == []


# Language and rights


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        (None, "cs"),
        ("en", "en"),
        ("en-GB,en;q=0.9", "en"),
        ("de,cs-CZ;q=0.5", "cs"),
        ("de", "cs"),
        ("*", "cs"),
    ],
)
def test_the_language_is_the_readers_else_the_tenants(api, shop, accepted, language):
    Tenant.objects.filter(pk=shop.pk).update(language="cs")
    headers = {} if accepted is None else {"Accept-Language": accepted}
    response = api(shop).get("/api/me", headers=headers)
    assert response.json()["language"] == language
    assert response.headers["Content-Language"] == language


def test_a_right_that_nobody_wrote_down_is_an_error():
    with pytest.raises(ImproperlyConfigured):
        has_right("staff", "no-such-resource", "list", "GET")
    with pytest.raises(ImproperlyConfigured):
        has_right("staff", "audit", "create", "POST")


def test_each_role_may_what_those_before_it_may():
    assert [has_right(role, "tickets", "create", "POST") for role in RANKS] == [False, True, True, True]
    assert [has_right(role, "automations", "run", "POST") for role in RANKS] == [False, True, True, True]
    assert [has_right(role, "automations", "create", "POST") for role in RANKS] == [False, False, True, True]
    assert [has_right(role, "tokens", "list", "GET") for role in RANKS] == [False, False, True, True]
    assert not has_right(None, "me", "list", "GET")


def test_answers_stay_out_of_caches(api, shop):
    assert api(shop).get("/api/groups").headers["Cache-Control"] == "no-store"
