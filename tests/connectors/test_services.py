"""Connections are written here only: checked by their provider, sealed, audited."""

import pytest

from connectors import credentials, providers, refusals, services
from connectors.models import Connection
from csbot.lib.errors import RequestRefused
from tests.factories import TenantFactory
from tickets.events import Actor
from tickets.models import AuditEntry

pytestmark = pytest.mark.django_db

JANA = Actor("person", "Jana")
SHOP = {
    "provider": "http",
    "name": "shop",
    "config": {"baseUrl": "https://shop.example/api/"},
    "credentials": {"bearer": "t0ken-of-the-shop"},
    "limits": {"rate": {"count": 20, "perSec": 1}, "concurrency": 2},
}


@pytest.fixture
def tenant():
    return TenantFactory()


def faults_of(tenant, **values):
    with pytest.raises(RequestRefused) as caught:
        services.create(tenant, JANA, {**SHOP, **values})
    assert (caught.value.status, caught.value.code) == (400, "invalid")
    assert Connection.objects.of(tenant).count() == 0
    return {error["pointer"]: error["message"] for error in caught.value.errors}


def test_a_connection_is_stored_sealed(tenant):
    account = services.create(tenant, JANA, SHOP)
    stored = Connection.objects.of(tenant).get()
    assert stored.config == {"baseUrl": "https://shop.example/api"}
    assert stored.limits == {"rate": {"count": 20, "perSec": 1}, "concurrency": 2}
    assert "t0ken" not in stored.credentials
    assert credentials.unsealed(stored) == {"bearer": "t0ken-of-the-shop"}
    shape = services.connection_shape(account)
    assert shape["credentials"] == {"bearer": True}
    assert "t0ken" not in str(shape)


def test_defaults_of_the_provider_fill_the_limits(tenant):
    account = services.create(tenant, JANA, {"provider": "http", "name": "shop", "config": SHOP["config"]})
    assert services.connection_shape(account)["limits"] == {"rate": None, "concurrency": 4}
    assert services.connection_shape(account)["credentials"] == {}


def test_every_fault_is_listed_with_its_pointer(tenant):
    faults = faults_of(
        tenant,
        config={"baseUrl": "ftp://shop", "path": "/x"},
        credentials={"bearer": "s3cret value", "basic": {"username": "s3cret"}},
        limits={"rate": {"count": 0}, "concurrency": 0, "burst": 3},
    )
    assert set(faults) == {
        "/config/baseUrl",
        "/config/path",
        "/credentials/bearer",
        "/credentials/basic/password",
        "/limits/rate/count",
        "/limits/rate/perSec",
        "/limits/concurrency",
        "/limits/burst",
    }
    assert "s3cret" not in str(faults)


def test_a_missing_config_is_a_fault(tenant):
    with pytest.raises(RequestRefused) as caught:
        services.create(tenant, JANA, {"provider": "http", "name": "shop"})
    assert [error["pointer"] for error in caught.value.errors] == ["/config/baseUrl"]


def test_an_unknown_provider_is_a_fault(tenant):
    assert "http" in faults_of(tenant, provider="smoke-signals")["/provider"]


def test_a_name_is_taken_once_in_a_tenant(tenant):
    services.create(tenant, JANA, SHOP)
    with pytest.raises(RequestRefused) as caught:
        services.create(tenant, JANA, SHOP)
    assert (caught.value.status, caught.value.code) == (409, "exists")
    services.create(TenantFactory(), JANA, SHOP)
    other = services.create(tenant, JANA, {**SHOP, "name": "other"})
    with pytest.raises(RequestRefused) as caught:
        services.change(other, JANA, {"name": "shop"})
    assert caught.value.status == 409


def test_only_what_is_given_changes(tenant):
    account = services.create(tenant, JANA, SHOP)
    changed = services.change(account, JANA, {"name": "e-shop"})
    assert (changed.name, changed.config) == ("e-shop", {"baseUrl": "https://shop.example/api"})
    assert credentials.unsealed(changed) == {"bearer": "t0ken-of-the-shop"}
    changed = services.change(account, JANA, {"config": {"baseUrl": "https://new.example"}, "limits": None})
    assert changed.config == {"baseUrl": "https://new.example"}
    assert changed.limits == {}
    assert changed.name == "e-shop"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"bearer": True}, {"bearer": "t0ken-of-the-shop"}),
        ({"bearer": "another"}, {"bearer": "another"}),
        (
            {"basic": {"username": "jana", "password": "heslo"}},
            {"basic": {"username": "jana", "password": "heslo"}},
        ),
        (None, {}),
        ({}, {}),
    ],
)
def test_credentials_are_replaced_whole_and_their_marks_keep_them(tenant, given, kept):
    account = services.create(tenant, JANA, SHOP)
    changed = services.change(account, JANA, {"credentials": given})
    assert credentials.unsealed(Connection.objects.of(tenant).get(pk=changed.pk)) == kept


def test_a_change_leaves_a_closed_connection_closed(tenant):
    account = services.create(tenant, JANA, SHOP)
    until = refusals.close(account, 60.0)
    services.change(account, JANA, {"name": "e-shop"})
    stored = Connection.objects.of(tenant).get()
    assert (stored.closed_until, stored.refusals) == (until, 1)


def test_writes_are_audited_without_secrets(tenant):
    account = services.create(tenant, JANA, SHOP)
    services.change(account, JANA, {"name": "e-shop"})
    services.change(account, JANA, {"name": "e-shop"})
    services.change(account, JANA, {"credentials": {"bearer": "another-s3cret"}})
    services.delete(account, JANA)
    entries = list(AuditEntry.objects.of(tenant).order_by("pk"))
    assert [entry.action for entry in entries] == [
        "connection.created",
        "connection.changed",
        "connection.changed",
        "connection.deleted",
    ]
    assert {entry.object for entry in entries} == {f"connections/{account.public_id}"}
    assert entries[1].before["name"] == "shop" and entries[1].after["name"] == "e-shop"
    told = str([(entry.before, entry.after) for entry in entries])
    assert "t0ken" not in told and "s3cret" not in told


def test_a_used_connection_stays(tenant, monkeypatch):
    used = [f"automations/{number}" for number in range(30)]
    monkeypatch.setattr(services, "connection_users", [lambda account: used, lambda account: []])
    account = services.create(tenant, JANA, SHOP)
    with pytest.raises(RequestRefused) as caught:
        services.delete(account, JANA)
    assert (caught.value.status, caught.value.code) == (409, "used")
    assert caught.value.extra["usedBy"] == used[:20]
    used.clear()
    services.delete(account, JANA)
    services.delete(account, JANA)
    assert Connection.objects.of(tenant).count() == 0


def test_a_provider_is_registered_once():
    with pytest.raises(ValueError, match="twice"):
        providers.register(providers.find("http"))
    assert [each.name for each in providers.every()] == sorted(each.name for each in providers.every())
