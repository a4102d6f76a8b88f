"""A 429 closes the whole connection, for everybody, by the database's clock."""

import time
from datetime import timedelta

import pytest
from django.db import connection as database
from django.db.models import F

from connectors import client, refusals
from connectors.client import Request
from connectors.models import Connection
from csbot.lib.errors import Snooze, TerminalError
from tests.factories import ConnectionFactory
from tests.stub_service import Reply


def seconds_left(account: Connection) -> float:
    """Return for how long the connection is closed, as the database sees it."""
    with database.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM closed_until - clock_timestamp()) FROM connectors_connection WHERE id = %s",
            [account.pk],
        )
        return float(cursor.fetchone()[0])


def let_pass(account: Connection) -> None:
    """Let the pause of a connection be over."""
    Connection.objects.of(account.tenant_id).filter(pk=account.pk).update(
        closed_until=F("closed_until") - timedelta(days=2)
    )


def refusals_of(account: Connection) -> int:
    return Connection.objects.of(account.tenant_id).get(pk=account.pk).refusals


@pytest.fixture
def account(db) -> Connection:
    return ConnectionFactory()


def test_the_pause_doubles_up_to_a_quarter_of_an_hour(account):
    for count, expected in enumerate([30, 60, 120, 240, 480, 900, 900, 900], start=1):
        until = refusals.close(account, None)
        assert seconds_left(account) == pytest.approx(expected, abs=2)
        assert Connection.objects.of(account.tenant_id).get().closed_until == until
        assert refusals_of(account) == count
        let_pass(account)


def test_a_named_time_holds_instead(account):
    refusals.close(account, 7.0)
    assert seconds_left(account) == pytest.approx(7, abs=2)
    let_pass(account)
    refusals.close(account, 86_400.0)
    assert seconds_left(account) == pytest.approx(86_400, abs=2)


def test_calls_refused_together_count_once(account):
    for _ in range(8):
        refusals.close(account, None)
    assert refusals_of(account) == 1
    assert seconds_left(account) == pytest.approx(30, abs=2)
    refusals.close(account, 100.0)
    refusals.close(account, 50.0)
    assert seconds_left(account) == pytest.approx(100, abs=2)


def test_a_closed_connection_is_waited_for(account):
    assert refusals.expect_open(account) == 0
    until = refusals.close(account, None)
    with pytest.raises(Snooze) as caught:
        refusals.expect_open(account)
    assert (caught.value.reason, caught.value.until) == ("rate", until)
    let_pass(account)
    assert refusals.expect_open(account) == 1


def test_a_success_starts_counting_anew(account):
    assert refusals.forget(account) is False
    refusals.close(account, None)
    assert refusals.forget(account) is False, "a success under way since before does not open it"
    assert seconds_left(account) > 0
    let_pass(account)
    assert refusals.forget(account) is True
    assert refusals_of(account) == 0
    refusals.close(account, None)
    assert seconds_left(account) == pytest.approx(30, abs=2)


def test_a_deleted_connection_is_missing(account):
    Connection.objects.of(account.tenant_id).get().delete()
    with pytest.raises(TerminalError) as caught:
        refusals.expect_open(Connection(pk=account.pk or 1, tenant_id=account.tenant_id, name="shop"))
    assert caught.value.code == "missing.connection"


def test_closing_a_connection_closes_no_other(account):
    other = ConnectionFactory(tenant=account.tenant)
    refusals.close(account, None)
    assert refusals.expect_open(other) == 0


def send(account: Connection, url: str, method: str = "POST") -> int:
    request = Request(method, url)
    return client.send(
        request, tenant=account.tenant, connection=account, deadline=time.monotonic() + 10
    ).status


def test_a_429_closes_the_connection_for_every_method(service, committed):
    account = ConnectionFactory(tenant=committed)
    service.script("/orders", Reply(429, headers={"Retry-After": "60"}), Reply(json={}))
    with pytest.raises(Snooze) as caught:
        send(account, f"{service.url}/orders")
    assert caught.value.reason == "rate"
    assert seconds_left(account) == pytest.approx(60, abs=2)
    for method in ("GET", "POST", "DELETE"):
        with pytest.raises(Snooze):
            send(account, f"{service.url}/other", method)
    assert len(service.calls()) == 1, "a closed connection is not asked"
    let_pass(account)
    assert send(account, f"{service.url}/orders") == 200
    account.refresh_from_db()
    assert (account.refusals, account.closed_until) == (0, None)


@pytest.mark.parametrize("status", [404, 500])
def test_only_a_success_resets(service, committed, status):
    account = ConnectionFactory(tenant=committed)
    refusals.close(account, None)
    let_pass(account)
    service.script("/orders", Reply(status))
    with pytest.raises(Exception, match=f"http.{status}"):
        send(account, f"{service.url}/orders")
    assert refusals_of(account) == 1
