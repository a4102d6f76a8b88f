"""The resources of SPEC section 13 that programs set a tenant up with, letter by letter."""

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from csbot.lib.api import instant_text
from tests.csbot.test_api import pointers, problem
from tests.factories import (
    GroupFactory,
    PersonFactory,
    TicketFactory,
    TicketTypeFactory,
    TokenFactory,
)
from tickets.models import ApiToken, AuditEntry, Group, Person, Tenant, TicketType


def shown(answer: dict, *more: str) -> dict:
    """Return the answer without what the server makes: id, times and `more`; assert that they are there."""
    uuid.UUID(answer["id"])
    assert answer["createdAt"].endswith("Z")
    return {key: value for key, value in answer.items() if key not in {"id", "createdAt", *more}}


# /api/me


def test_me_of_a_token(api, shop):
    assert api(shop, "agent").get("/api/me").json() == {
        "person": None,
        "token": {"name": "shop agent", "role": "agent"},
        "staff": False,
        "tenant": {"slug": "shop", "name": "E-shop"},
        "tenants": [{"slug": "shop", "name": "E-shop", "role": "agent"}],
        "language": "en",
    }


def test_me_of_staff(staff_api, shop):
    me = staff_api.get("/api/me").json()
    assert (me["staff"], me["tenant"], me["tenants"], me["token"]) == (
        True,
        None,
        [],
        {"name": "staff", "role": None},
    )
    assert staff_api.get("/api/me", headers={"X-Tenant": "shop"}).json()["tenant"]["slug"] == "shop"


# /api/tenants

ACME = {"slug": "acme", "name": "Acme", "language": "cs", "timezone": "Europe/Prague"}


def test_a_new_tenant_answers_with_its_first_token_once(staff_api):
    response = staff_api.post("/api/tenants", ACME)
    assert response.status_code == 201
    token = response.json()["token"]
    whole = {**ACME, "maxParallelRuns": None, "retentionDays": 90, "suspended": False, "suspendedAt": None}
    assert shown(response.json(), "token") == whole
    again = staff_api.get("/api/tenants/acme").json()
    assert shown(again) == whole
    assert again == {key: value for key, value in response.json().items() if key != "token"}
    me = staff_api.get("/api/me", headers={"Authorization": f"Bearer {token}"}).json()
    assert (me["tenant"]["slug"], me["token"]["role"], me["staff"]) == ("acme", "admin", False)


def test_tenants_are_staffs_alone(api, shop):
    for role in ("viewer", "agent", "admin"):
        program = api(shop, role)
        problem(program.get("/api/tenants"), 403, "permission_denied")
        problem(program.get("/api/tenants/shop"), 403, "permission_denied")
        problem(program.post("/api/tenants", ACME), 403, "permission_denied")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"slug": "Acme"}, "/slug"),
        ({"slug": "a b"}, "/slug"),
        ({"slug": "acme\n"}, None),
        ({"slug": "-acme"}, "/slug"),
        ({"slug": "a" * 64}, "/slug"),
        ({"slug": None}, "/slug"),
        ({"name": ""}, "/name"),
        ({"name": "x" * 201}, "/name"),
        ({"name": "a\x00b"}, "/name"),
        ({"name": ["x"]}, "/name"),
        ({"language": "de"}, "/language"),
        ({"timezone": "Europe/Praha"}, "/timezone"),
        ({"timezone": "+01:00"}, "/timezone"),
        ({"maxParallelRuns": 0}, "/maxParallelRuns"),
        ({"maxParallelRuns": 10**30}, "/maxParallelRuns"),
        ({"retentionDays": None}, "/retentionDays"),
        ({"id": str(uuid.uuid4())}, "/id"),
        ({"surplus": 1}, "/surplus"),
    ],
)
def test_a_tenant_that_cannot_be(staff_api, change, pointer):
    response = staff_api.post("/api/tenants", {**ACME, **change})
    if pointer is None:
        assert response.json()["slug"] == "acme"
    else:
        assert response.status_code == 400
        assert pointers(response.json()) == [pointer]
        assert not Tenant.objects.exists()


def test_a_taken_slug_is_409(staff_api, shop):
    document = problem(staff_api.post("/api/tenants", {**ACME, "slug": "shop"}), 409, "exists")
    assert pointers(document) == ["/slug"]


def test_a_tenant_is_changed(staff_api, shop):
    change = {"name": "Shop", "language": "cs", "timezone": "UTC", "maxParallelRuns": 3, "retentionDays": 30}
    changed = staff_api.patch("/api/tenants/shop", change).json()
    assert {key: changed[key] for key in change} == change
    assert staff_api.patch("/api/tenants/shop", {"maxParallelRuns": None}).json()["maxParallelRuns"] is None
    assert staff_api.patch("/api/tenants/shop", {}).json()["name"] == "Shop"
    assert pointers(staff_api.patch("/api/tenants/shop", {"slug": "other"}).json()) == ["/slug"]


def test_tenants_are_listed_and_filtered(staff_api, shop, stranger):
    slugs = [tenant["slug"] for tenant in staff_api.get("/api/tenants").json()["results"]]
    assert slugs == ["stranger", "shop"]
    staff_api.post("/api/tenants/shop/suspend")
    suspended = staff_api.get("/api/tenants?suspended=true").json()["results"]
    assert [tenant["slug"] for tenant in suspended] == ["shop"]
    problem(staff_api.get("/api/tenants?suspended=maybe"), 400, "filter.invalid")


def test_suspend_and_resume_answer_the_tenant_also_twice(staff_api, shop):
    for _ in range(2):
        response = staff_api.post("/api/tenants/shop/suspend")
        assert (response.status_code, response.json()["suspended"]) == (200, True)
    assert response.json()["suspendedAt"].endswith("Z")
    for _ in range(2):
        resumed = staff_api.post("/api/tenants/shop/resume").json()
        assert (resumed["suspended"], resumed["suspendedAt"]) == (False, None)
    assert AuditEntry.objects.of(shop).count() == 2


def test_only_a_suspended_tenant_is_deleted_and_with_everything(staff_api, shop, stranger):
    kind = TicketType.objects.of(shop).get(key="order")
    TicketFactory(tenant=shop, type=kind, assignee=Person.objects.of(shop).first())
    problem(staff_api.delete("/api/tenants/shop"), 409, "tenant.active")
    staff_api.post("/api/tenants/shop/suspend")
    assert staff_api.delete("/api/tenants/shop").status_code == 204
    assert list(Tenant.objects.values_list("slug", flat=True)) == ["stranger"]
    assert set(Person.objects.values_list("tenant__slug", flat=True)) == {"stranger"}
    problem(staff_api.delete("/api/tenants/shop"), 404, "not_found")


# /api/people


def test_a_person(api, shop):
    program = api(shop)
    response = program.post("/api/people", {"name": "Jana", "email": "Jana@acme.test", "role": "agent"})
    assert response.status_code == 201
    jana = response.json()
    assert shown(jana) == {"name": "Jana", "email": "Jana@acme.test", "role": "agent", "awayUntil": None}
    address = f"/api/people/{jana['id']}"
    assert program.get(address).json() == jana
    assert program.get(f"{address}/").json() == jana
    away = program.patch(address, {"awayUntil": "2026-12-24T08:00:00+01:00", "role": "admin"}).json()
    assert (away["awayUntil"], away["role"], away["name"]) == ("2026-12-24T07:00:00Z", "admin", "Jana")
    assert program.patch(address, {"awayUntil": None}).json()["awayUntil"] is None
    assert program.delete(address).status_code == 204
    problem(program.get(address), 404, "not_found")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"email": "no mail"}, "/email"),
        ({"email": "a@b.test\x00"}, "/email"),
        ({"email": "x" * 250 + "@b.test"}, "/email"),
        ({"role": "staff"}, "/role"),
        ({"role": ["agent"]}, "/role"),
        ({"name": "  "}, "/name"),
        ({"awayUntil": "soon"}, "/awayUntil"),
        ({"awayUntil": 5}, "/awayUntil"),
        ({"awayUntil": "0001-01-01T00:00:00+14:00"}, "/awayUntil"),
        ({"login": 1}, "/login"),
    ],
)
def test_a_person_that_cannot_be(api, shop, change, pointer):
    body = {"name": "Jana", "email": "jana@acme.test", **change}
    response = api(shop).post("/api/people", body)
    assert response.status_code == 400
    assert pointers(response.json()) == [pointer]


def test_an_email_is_taken_in_any_case_but_only_in_its_tenant(api, shop, stranger):
    body = {"name": "Jana", "email": "JANA@shop.test"}
    assert pointers(problem(api(shop).post("/api/people", body), 409, "exists")) == ["/email"]
    assert api(stranger).post("/api/people", body).status_code == 201
    karel = Person.objects.of(shop).get(name="Karel")
    response = api(shop).patch(f"/api/people/{karel.public_id}", {"email": "jana@SHOP.test"})
    assert pointers(problem(response, 409, "exists")) == ["/email"]


def test_people_are_filtered(api, shop):
    program = api(shop)
    warehouse = Group.objects.of(shop).get(key="warehouse")
    for reference in ("warehouse", str(warehouse.public_id)):
        people = program.get(f"/api/people?group={reference}").json()["results"]
        assert [person["name"] for person in people] == ["Lenka", "Karel", "Jana"]
    assert len(program.get("/api/people?email=JANA@shop.test").json()["results"]) == 1
    assert program.get("/api/people?role=viewer").json()["results"] == []


def test_a_person_with_tickets_is_not_deleted(api, shop):
    jana = Person.objects.of(shop).get(name="Jana")
    TicketFactory(tenant=shop, assignee=jana)
    TicketFactory(tenant=shop, assignee=jana, shut=True)
    document = problem(api(shop).delete(f"/api/people/{jana.public_id}"), 409, "used")
    warehouse = Group.objects.of(shop).get(key="warehouse")
    assert document["usedBy"] == ["TK-2", "TK-1", f"groups/{warehouse.public_id}"]
    karel = PersonFactory(tenant=shop)
    assert api(shop).delete(f"/api/people/{karel.public_id}").status_code == 204
    assert not Person.objects.of(shop).filter(pk=karel.pk).exists()


# /api/groups


def test_a_group_with_members(api, shop):
    program = api(shop)
    jana, karel = (Person.objects.of(shop).get(name=name) for name in ("Jana", "Karel"))
    body = {
        "key": "returns",
        "name": "Returns",
        "members": [{"person": str(jana.public_id), "capacity": 3}, {"person": "KAREL@shop.test"}],
    }
    response = program.post("/api/groups", body)
    assert response.status_code == 201
    members = [
        {"person": str(jana.public_id), "capacity": 3},
        {"person": str(karel.public_id), "capacity": 10},
    ]
    assert shown(response.json()) == {"key": "returns", "name": "Returns", "members": members}
    address = f"/api/groups/{response.json()['id']}"
    assert program.get(address).json() == response.json()
    renamed = program.patch(address, {"name": "Back"}).json()
    assert (renamed["name"], renamed["members"]) == ("Back", members)
    replaced = program.patch(address, {"members": [{"person": str(karel.public_id), "capacity": 2}]}).json()
    assert replaced["members"] == [{"person": str(karel.public_id), "capacity": 2}]
    assert program.patch(address, {"members": []}).json()["members"] == []
    assert program.delete(address).status_code == 204


def test_a_group_without_members_is_taken(api, shop):
    assert api(shop).post("/api/groups", {"key": "empty", "name": "Empty"}).json()["members"] == []


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"members": [{"person": str(uuid.uuid4())}]}, ["/members/0/person"]),
        ({"members": [{"person": "cizinec@stranger.test"}]}, ["/members/0/person"]),
        ({"members": [{"person": "jana@shop.test"}, {"person": "JANA@shop.test"}]}, ["/members/1/person"]),
        ({"members": [{"person": "jana@shop.test", "capacity": 0}]}, ["/members/0/capacity"]),
        ({"members": [{"capacity": 1}, {"person": None}]}, ["/members/0/person", "/members/1/person"]),
        ({"members": [{"person": "jana@shop.test", "name": "Jana"}]}, ["/members/0/name"]),
        ({"members": "jana@shop.test"}, ["/members"]),
        ({"members": None}, ["/members"]),
        ({"members": ["x"]}, ["/members/0"]),
        ({"key": "with space"}, ["/key"]),
        ({"key": "k" * 101}, ["/key"]),
        ({"key": "", "name": ""}, ["/key", "/name"]),
    ],
)
def test_a_group_that_cannot_be(api, shop, stranger, change, at):
    response = api(shop).post("/api/groups", {"key": "new", "name": "New", **change})
    assert response.status_code == 400, response.content
    assert pointers(response.json()) == at
    assert not Group.objects.of(shop).filter(key="new").exists()


def test_a_patch_checks_members_as_a_post_does(api, shop):
    group = Group.objects.of(shop).get(key="it")
    response = api(shop).patch(f"/api/groups/{group.public_id}", {"members": [{"capacity": 2}]})
    assert pointers(problem(response, 400, "invalid")) == ["/members/0/person"]
    assert group.memberships.count() == 3


def test_a_taken_key_is_409_only_in_its_tenant(api, shop, stranger):
    assert pointers(problem(api(shop).post("/api/groups", {"key": "it", "name": "IT"}), 409, "exists")) == [
        "/key"
    ]
    assert api(stranger).post("/api/groups", {"key": "it", "name": "IT"}).status_code == 201


def test_a_group_with_tickets_is_not_deleted(api, shop):
    group = Group.objects.of(shop).get(key="it")
    TicketFactory(tenant=shop, group=group)
    assert problem(api(shop).delete(f"/api/groups/{group.public_id}"), 409, "used")["usedBy"] == ["TK-1"]


def test_a_list_of_groups_takes_the_same_queries_however_long(api, shop, django_assert_num_queries):
    program = api(shop)
    program.get("/api/groups")
    for _ in range(10):
        GroupFactory(tenant=shop)
    # The token, the groups, their members, their people.
    with django_assert_num_queries(4):
        program.get("/api/groups")


# /api/ticket-types

COLOR = {"id": "f_color", "key": "color", "label": "Color", "type": "text", "required": False}
SIZE = {"key": "size", "type": "select", "options": ["S", "M"], "required": True}


def test_a_ticket_type(api, shop):
    program = api(shop)
    statuses = ["new", "waiting for packing", "handed over"]
    body = {"key": "return", "name": "Return", "statuses": statuses, "fields": [COLOR, SIZE]}
    response = program.post("/api/ticket-types", body)
    assert response.status_code == 201, response.content
    whole = [{**COLOR, "options": None}, {**SIZE, "id": "f_size", "label": "size"}]
    assert shown(response.json()) == {**body, "fields": whole}
    address = f"/api/ticket-types/{response.json()['id']}"
    assert program.get(address).json() == response.json()
    assert program.patch(address, {"fields": whole}).json() == response.json()
    assert program.patch(address, {"statuses": ["new"]}).json()["statuses"] == ["new"]
    assert program.delete(address).status_code == 204


def test_a_bare_ticket_type_has_empty_lists(api, shop):
    bare = api(shop).post("/api/ticket-types", {"key": "bare", "name": "Bare"}).json()
    assert (bare["statuses"], bare["fields"]) == ([], [])


@pytest.mark.parametrize("kind", ["text", "number", "date", "boolean", "url", "email"])
def test_every_type_of_field_is_taken(api, shop, kind):
    body = {"key": "new", "name": "New", "fields": [{"key": "one", "type": kind}]}
    assert api(shop).post("/api/ticket-types", body).json()["fields"][0]["type"] == kind


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"statuses": ["a", "b", "a"]}, ["/statuses/2"]),
        ({"statuses": ["x" * 201]}, ["/statuses/0"]),
        ({"statuses": [""]}, ["/statuses/0"]),
        ({"statuses": {}}, ["/statuses"]),
        ({"fields": [{**COLOR, "type": "json"}]}, ["/fields/0/type"]),
        ({"fields": [{"key": "color"}]}, ["/fields/0/type"]),
        ({"fields": [COLOR, {**COLOR, "id": "f_2"}]}, ["/fields/1/key"]),
        ({"fields": [COLOR, {**COLOR, "key": "other"}]}, ["/fields/1/id"]),
        ({"fields": [{**SIZE, "options": []}]}, ["/fields/0/options"]),
        ({"fields": [{**SIZE, "options": ["S", "S"]}]}, ["/fields/0/options"]),
        ({"fields": [{**COLOR, "options": ["S"]}]}, ["/fields/0/options"]),
        ({"fields": [{**COLOR, "colour": 1}]}, ["/fields/0/colour"]),
        ({"fields": [{**COLOR, "required": "perhaps"}]}, ["/fields/0/required"]),
        ({"fields": "color"}, ["/fields"]),
    ],
)
def test_a_ticket_type_that_cannot_be(api, shop, change, at):
    body = {"key": "new", "name": "New", **change}
    response = api(shop).post("/api/ticket-types", body)
    assert response.status_code == 400, response.content
    assert pointers(response.json()) == at
    order = TicketType.objects.of(shop).get(key="order")
    changed = api(shop).patch(f"/api/ticket-types/{order.public_id}", change)
    assert pointers(problem(changed, 400, "invalid")) == at


def test_a_type_with_tickets_is_not_deleted(api, shop):
    order = TicketType.objects.of(shop).get(key="order")
    TicketFactory(tenant=shop, type=order)
    assert problem(api(shop).delete(f"/api/ticket-types/{order.public_id}"), 409, "used")["usedBy"] == [
        "TK-1"
    ]


# /api/tokens


def test_a_token_is_shown_once(api, shop):
    program = api(shop)
    expires = instant_text(timezone.now() + timedelta(days=1))
    response = program.post("/api/tokens", {"name": "erp", "role": "agent", "expiresAt": expires})
    assert response.status_code == 201
    made = response.json()
    written = made.pop("token")
    assert shown(made, "prefix", "expiresAt") == {"name": "erp", "role": "agent", "lastUsedAt": None}
    assert written.startswith(made["prefix"])
    assert made["expiresAt"] == expires
    assert program.get(f"/api/tokens/{made['id']}").json() == made
    assert written not in program.get("/api/tokens").content.decode()
    assert written[13:] not in str(list(AuditEntry.objects.values()))
    assert (
        program.get("/api/me", headers={"Authorization": f"Bearer {written}"}).json()["token"]["name"]
        == "erp"
    )


def test_a_token_is_revoked(api, shop):
    token = TokenFactory(tenant=shop)
    assert api(shop).delete(f"/api/tokens/{token.public_id}").status_code == 204
    problem(api(shop).delete(f"/api/tokens/{token.public_id}"), 404, "not_found")
    assert api(shop).get("/api/me", headers={"Authorization": f"Bearer {token.written}"}).status_code == 401


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"role": "staff"}, "/role"),
        ({"role": None}, "/role"),
        ({"name": ""}, "/name"),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, "/expiresAt"),
        ({"token": "csb_mine"}, "/token"),
        ({"tenant": "stranger"}, "/tenant"),
    ],
)
def test_a_token_that_cannot_be(api, shop, change, pointer):
    body = {"name": "erp", "role": "agent", **change}
    assert pointers(problem(api(shop).post("/api/tokens", body), 400, "invalid")) == [pointer]


def test_tokens_are_no_ones_but_the_admins(api, shop, stranger):
    token = TokenFactory(tenant=shop)
    for role in ("viewer", "agent"):
        problem(api(shop, role).get("/api/tokens"), 403, "permission_denied")
    problem(api(stranger).get(f"/api/tokens/{token.public_id}"), 404, "not_found")
    problem(api(stranger).delete(f"/api/tokens/{token.public_id}"), 404, "not_found")
    assert ApiToken.objects.filter(pk=token.pk).exists()


def test_staff_tokens_are_in_no_tenants_list(api, staff_api, shop):
    names = {token["name"] for token in api(shop).get("/api/tokens").json()["results"]}
    assert names == {"shop admin"}


# /api/audit


def test_the_audit_log_tells_who_changed_what(api, shop, stranger):
    program = api(shop)
    made = program.post("/api/groups", {"key": "new", "name": "New"}).json()
    program.patch(f"/api/groups/{made['id']}", {"name": "Newer"})
    program.patch(f"/api/groups/{made['id']}", {"name": "Newer"})
    program.delete(f"/api/groups/{made['id']}")
    entries = program.get("/api/audit").json()["results"]
    assert [entry["action"] for entry in entries] == ["group.deleted", "group.changed", "group.created"]
    assert set(entries[1]) == {"id", "at", "actor", "action", "object", "before", "after"}
    assert entries[1]["actor"] == {"kind": "token", "name": "shop admin"}
    assert entries[1]["object"] == f"groups/{made['id']}"
    assert (entries[1]["before"]["name"], entries[1]["after"]["name"]) == ("New", "Newer")
    assert (entries[2]["before"], entries[0]["after"]) == (None, None)
    assert program.get(f"/api/audit/{entries[0]['id']}").json() == entries[0]
    assert api(stranger).get("/api/audit").json()["results"] == []
    problem(api(stranger).get(f"/api/audit/{entries[0]['id']}"), 404, "not_found")


def test_the_audit_log_is_filtered_and_append_only(api, shop):
    program = api(shop)
    program.post("/api/groups", {"key": "new", "name": "New"})
    program.post("/api/people", {"name": "New", "email": "new@shop.test"})
    assert len(program.get("/api/audit?action=person.created").json()["results"]) == 1
    soon = instant_text(timezone.now() + timedelta(hours=1))
    assert program.get(f"/api/audit?createdAfter={soon}").json()["results"] == []
    assert len(program.get(f"/api/audit?createdBefore={soon}").json()["results"]) == 2
    problem(program.post("/api/audit", {}), 405, "method_not_allowed")


def test_the_audit_log_is_not_for_agents(api, shop):
    problem(api(shop, "agent").get("/api/audit"), 403, "permission_denied")


# The stranger


@pytest.mark.parametrize(
    ("resource", "factory"),
    [("people", PersonFactory), ("groups", GroupFactory), ("ticket-types", TicketTypeFactory)],
)
def test_the_stranger_gets_404(api, shop, stranger, resource, factory):
    row = factory(tenant=shop)
    before = type(row).objects.filter(pk=row.pk).values().get()
    for method in ("get", "patch", "delete"):
        problem(getattr(api(stranger), method)(f"/api/{resource}/{row.public_id}"), 404, "not_found")
    assert type(row).objects.filter(pk=row.pk).values().get() == before
    assert str(row.public_id) not in api(stranger).get(f"/api/{resource}").content.decode()
