"""REST of connections and of the catalogue: who may, what is shown, what a stranger sees."""

import uuid
from decimal import Decimal

import pytest

from connectors import refusals, services
from connectors.models import Connection
from tests.factories import ConnectionFactory, LoginFactory, TokenFactory
from tests.fixtures import ProgramClient
from tests.stub_service import Reply
from tickets.events import Actor
from tickets.models import AuditEntry

SHOP = {
    "provider": "http",
    "name": "shop",
    "config": {"baseUrl": "https://shop.example"},
    "credentials": {"bearer": "t0ken-of-the-shop"},
    "limits": {"rate": {"count": 20, "perSec": 0.5}, "concurrency": 4},
}


@pytest.fixture
def connection(shop):
    return ConnectionFactory(tenant=shop, name="shop")


def test_a_connection_is_made_and_read(api, shop):
    admin = api(shop)
    made = admin.post("/api/connections", SHOP)
    assert made.status_code == 201
    body = made.json()
    assert body == {
        "id": body["id"],
        "provider": "http",
        "name": "shop",
        "config": {"baseUrl": "https://shop.example"},
        "credentials": {"bearer": True},
        "limits": {"rate": {"count": 20, "perSec": 0.5}, "concurrency": 4},
        "createdAt": body["createdAt"],
        "state": {"open": True, "reason": None, "closedUntil": None, "refusals": 0},
    }
    uuid.UUID(body["id"])
    assert body["createdAt"].endswith("Z")
    assert Connection.objects.of(shop).get().limits["rate"]["perSec"] == Decimal("0.5")
    for role in ("viewer", "agent", "admin"):
        assert api(shop, role).get(f"/api/connections/{body['id']}").json() == body
    assert admin.get("/api/connections").json() == {"results": [body], "next": None, "previous": None}


def test_no_answer_holds_a_secret(api, shop):
    admin = api(shop)
    made = admin.post("/api/connections", SHOP)
    address = f"/api/connections/{made.json()['id']}"
    bad = {"credentials": {"bearer": "t0ken with a blank"}}
    answers = [
        made,
        admin.get("/api/connections"),
        admin.get(address),
        admin.patch(address, {"credentials": {"bearer": "t0ken-again"}}),
        admin.patch(address, bad),
        admin.post("/api/connections", {**SHOP, **bad}),
        admin.get("/api/audit"),
        admin.delete(address),
    ]
    assert not any(b"t0ken" in answer.content for answer in answers)
    assert "t0ken" not in str(list(AuditEntry.objects.of(shop).values()))


def test_a_connection_is_changed_and_deleted(api, shop, connection):
    address = f"/api/connections/{connection.public_id}"
    changed = api(shop).patch(address, {"name": "e-shop"})
    assert (changed.status_code, changed.json()["name"]) == (200, "e-shop")
    assert api(shop).delete(address).status_code == 204
    assert api(shop).get(address).status_code == 404


def test_what_was_read_can_be_sent_back(api, shop):
    admin = api(shop)
    read = admin.post("/api/connections", SHOP).json()
    sent = {key: read[key] for key in ("name", "config", "credentials", "limits")}
    assert admin.patch(f"/api/connections/{read['id']}", sent).json() == read


@pytest.mark.parametrize("role", ["viewer", "agent"])
def test_only_admins_write(api, shop, connection, role):
    program = api(shop, role)
    address = f"/api/connections/{connection.public_id}"
    for answer in (
        program.post("/api/connections", SHOP),
        program.patch(address, {"name": "e-shop"}),
        program.delete(address),
        program.post(f"{address}/check"),
    ):
        assert answer.status_code == 403


def test_a_stranger_sees_nothing(api, shop, stranger, connection):
    program = api(stranger)
    address = f"/api/connections/{connection.public_id}"
    assert program.get("/api/connections").json()["results"] == []
    for answer in (
        program.get(address),
        program.get(f"{address}/state"),
        program.patch(address, {"name": "mine"}),
        program.delete(address),
        program.post(f"{address}/check"),
    ):
        assert answer.status_code == 404
    assert Connection.objects.of(shop).get().name == "shop"


def test_the_list_is_filtered_by_provider_and_name(api, shop, connection):
    ConnectionFactory(tenant=shop, name="post", provider="email")
    admin = api(shop)

    def names(query: str) -> list[str]:
        return [row["name"] for row in admin.get(f"/api/connections{query}").json()["results"]]

    assert names("") == ["post", "shop"]
    assert names("?provider=http") == ["shop"]
    assert names("?name=post") == ["post"]
    assert admin.get("/api/connections?colour=red").status_code == 400


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"provider": None}, "/provider"),
        ({"provider": "smoke"}, "/provider"),
        ({"name": ""}, "/name"),
        ({"name": "x" * 201}, "/name"),
        ({"config": []}, "/config"),
        ({"config": {}}, "/config/baseUrl"),
        ({"config": {"baseUrl": "http://jana:heslo@shop.example"}}, "/config/baseUrl"),
        ({"credentials": "t0ken"}, "/credentials"),
        ({"credentials": {"token": "x"}}, "/credentials/token"),
        ({"limits": {"rate": 5}}, "/limits/rate"),
        ({"limits": {"rate": {"count": 1, "perSec": 0}}}, "/limits/rate/perSec"),
        ({"state": {}}, "/state"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_a_bad_body_is_refused_with_its_pointer(api, shop, body, pointer):
    answer = api(shop).post("/api/connections", {**SHOP, **body})
    assert answer.status_code == 400
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]


def test_the_provider_of_a_connection_stays(api, shop, connection):
    answer = api(shop).patch(f"/api/connections/{connection.public_id}", {"provider": "email"})
    assert answer.status_code == 400


def test_a_used_connection_is_not_deleted(api, shop, connection, monkeypatch):
    monkeypatch.setattr(services, "connection_users", [lambda account: ["automations/1"]])
    answer = api(shop).delete(f"/api/connections/{connection.public_id}")
    assert (answer.status_code, answer.json()["usedBy"]) == (409, ["automations/1"])


def test_a_lost_key_hides_no_connection(api, shop, connection):
    Connection.objects.of(shop).update(credentials="v1.00000000.AAAA")
    assert api(shop).get("/api/connections").json()["results"][0]["credentials"] is None


def test_the_state_says_until_when_it_is_closed(api, shop, connection):
    until = refusals.close(connection, 60.0)
    expected = {
        "open": False,
        "reason": "rate",
        "closedUntil": until.isoformat().replace("+00:00", "Z"),
        "refusals": 1,
    }
    address = f"/api/connections/{connection.public_id}"
    assert api(shop).get(address).json()["state"] == expected
    assert api(shop, "viewer").get(f"{address}/state").json() == expected


def test_a_check_calls_the_service(committed, service):
    program = ProgramClient(HTTP_AUTHORIZATION=f"Bearer {TokenFactory(tenant=committed).written}")
    account = ConnectionFactory(tenant=committed, config={"baseUrl": service.url})
    address = f"/api/connections/{account.public_id}/check"
    body = program.post(address).json()
    assert (body["ok"], body["status"], body["code"]) == (True, 200, None)
    service.script("/", Reply(401, body=b"who are you?"))
    body = program.post(address).json()
    assert (body["ok"], body["status"], body["code"]) == (False, 401, "http.401")
    assert "401" in body["message"] and "who are you" not in str(body)
    service.script("/", Reply(429, headers={"Retry-After": "60"}))
    body = program.post(address).json()
    assert (body["ok"], body["code"], body["state"]["open"]) == (False, "http.429", False)
    assert len(service.calls()) == 3


def test_the_catalogue_lists_operations_with_their_schemas(api, shop):
    results = api(shop, "viewer").get("/api/catalog").json()["results"]
    entry = next(each for each in results if each["op"] == "http/request")
    assert set(entry) == {"op", "title", "provider", "idempotent", "inputs", "outputs"}
    assert (entry["provider"], entry["idempotent"]) == ("http", "depends")
    assert {"method", "path", "query", "headers", "json", "idempotencyKey"} <= set(
        entry["inputs"]["properties"]
    )
    assert entry["inputs"]["properties"]["method"]["enum"][0] == "GET"
    assert set(entry["outputs"]["properties"]) == {"status", "headers", "body"}
    assert isinstance(entry["inputs"]["properties"]["path"]["description"], str)
    assert [each["op"] for each in results] == sorted(each["op"] for each in results)


@pytest.mark.django_db
def test_staff_sees_connections_without_their_secrets(client, shop):
    account = services.create(shop, Actor("person", "Jana"), SHOP)
    client.force_login(LoginFactory(staff=True))
    page = client.get(f"/admin/connectors/connection/{account.pk}/change/")
    assert page.status_code == 200
    assert b"shop.example" in page.content
    assert b"t0ken" not in page.content
    assert account.credentials.encode() not in page.content
    assert client.get("/admin/connectors/connection/").status_code == 200
    assert client.get("/admin/connectors/connection/add/").status_code == 403
    client.post(f"/admin/connectors/connection/{account.pk}/change/", {"name": "e-shop", "provider": "email"})
    account.refresh_from_db()
    assert (account.name, account.provider) == ("e-shop", "http")
