"""Incidents: one for a cause while it is not resolved, also when many fail at the same moment."""

import threading
import uuid
from decimal import Decimal

import pytest
from django.db import connection, transaction
from django.db.utils import IntegrityError

from csbot.lib.errors import RequestRefused
from incidents import services
from incidents.events import incident_resolved
from incidents.models import Incident
from tests.factories import ConnectionFactory, TenantFactory, TicketFactory

ORDERS = {"id": "11111111-1111-4111-8111-111111111111", "name": "Orders"}


def fail(tenant, cause="orders/st_1/http.401", **values):
    """Open the incident of a failed call, as the engine does."""
    given = {
        "code": "http.401",
        "params": {"automation": "Orders"},
        "detail": {"message": "401 came"},
        "automation": ORDERS,
    }
    return services.open_incident(tenant, cause=cause, **{**given, **values})


def test_a_first_failure_founds_an_open_incident(shop):
    ticket = TicketFactory(tenant=shop)
    account = ConnectionFactory(tenant=shop, name="shop")

    incident = fail(shop, ticket=ticket, connection=account, detail={"price": Decimal("12.50")})

    incident.refresh_from_db()
    assert (incident.tenant, incident.status, incident.count) == (shop, "open", 1)
    assert (incident.ticket, incident.connection, incident.automation) == (ticket, account, ORDERS)
    assert incident.detail == {"price": Decimal("12.50")}
    assert incident.first_at == incident.last_at or incident.first_at < incident.last_at
    assert incident.notified_at is None


def test_the_same_cause_counts_and_keeps_the_newest_detail(shop):
    first = fail(shop, detail={"run": "first"})
    again = fail(shop, detail={"run": "second"})

    assert again.pk == first.pk
    assert again.count == 2
    assert again.detail == {"run": "second"}
    assert again.first_at == first.first_at
    assert again.last_at > first.last_at


def test_an_acknowledged_incident_goes_on_counting_and_stays_acknowledged(shop):
    services.acknowledge(fail(shop))

    again = fail(shop)

    assert (again.count, again.status) == (2, "acknowledged")


def test_after_resolving_the_next_failure_founds_a_new_incident(shop):
    first = services.resolve(fail(shop))

    second = fail(shop)

    assert second.pk != first.pk
    assert (second.count, second.status) == (1, "open")


def test_another_cause_and_another_tenant_have_incidents_of_their_own(shop, stranger):
    ours = fail(shop)
    other_error = fail(shop, cause="orders/st_1/http.404")
    theirs = fail(stranger)

    assert len({ours.pk, other_error.pk, theirs.pk}) == 3
    assert list(Incident.objects.of(stranger)) == [theirs]


def test_failures_of_several_tickets_name_the_automation_for_good(shop):
    jana, karel = TicketFactory(tenant=shop), TicketFactory(tenant=shop)
    for ticket in (jana, karel, karel):
        incident = fail(shop, ticket=ticket, params={"automation": "Orders", "ticket": ticket.key})

    shown = services.representation(incident, "en")

    assert shown["ticket"] == karel.key
    assert shown["title"] == "The automation “Orders” did not finish, no data was lost."


def test_failures_of_one_ticket_name_the_ticket(shop):
    ticket = TicketFactory(tenant=shop)
    for _ in range(2):
        incident = fail(shop, ticket=ticket, params={"automation": "Orders", "ticket": ticket.key})

    title = services.representation(incident, "en")["title"]

    assert title == f"The automation at ticket {ticket.key} did not finish, no data was lost."


@pytest.mark.parametrize("owned", [{"ticket": TicketFactory}, {"connection": ConnectionFactory}])
def test_an_incident_never_points_into_another_tenant(shop, stranger, owned):
    (name, make), = owned.items()  # fmt: skip
    with pytest.raises(ValueError, match="another tenant"):
        fail(shop, **{name: make(tenant=stranger)})


def test_causes_longer_than_the_column_stay_apart(shop):
    beginning = "x" * 400

    one, two, one_again = (fail(shop, cause=beginning + end) for end in ("1", "2", "1"))

    assert one.pk == one_again.pk != two.pk
    assert len(one.cause) == 300


def test_what_postgresql_cannot_store_becomes_a_replacement_character(shop):
    incident = fail(
        shop,
        cause="a\x00b",
        title="half \ud800 a pair",
        detail={"body\x00": ["\x00", "\\u0000", {"deep": "\udfff"}]},
    )

    incident.refresh_from_db()
    assert "\ufffd" in incident.title
    assert incident.detail["body\ufffd"][:2] == ["\ufffd", "\\u0000"]


def test_acknowledging_twice_is_once_and_a_resolved_one_is_refused(shop):
    incident = fail(shop)

    assert services.acknowledge(incident).status == "acknowledged"
    assert services.acknowledge(incident).status == "acknowledged"

    services.resolve(incident)
    with pytest.raises(RequestRefused) as refused:
        services.acknowledge(incident)
    assert (refused.value.status, refused.value.code) == (409, "incident.resolved")


def test_resolving_twice_keeps_the_first_instant(shop):
    incident = services.resolve(fail(shop))
    resolved_at = incident.resolved_at

    assert services.resolve(incident).resolved_at == resolved_at
    assert incident.status == "resolved"


@pytest.mark.django_db(transaction=True)
def test_who_waits_is_told_once_and_inside_the_transaction(shop):
    incident = fail(shop)
    told = []

    def listen(incident_id, **_):
        assert connection.in_atomic_block
        told.append(incident_id)

    incident_resolved.connect(listen)
    try:
        services.resolve(incident)
        services.resolve(incident)
    finally:
        incident_resolved.disconnect(listen)

    assert told == [incident.pk]


def test_it_resolves_itself_only_when_the_engine_says_so(shop):
    incident = fail(shop)

    assert not services.resolve_if_passed(incident.pk, lambda: False)
    assert services.resolve_if_passed(incident.pk, lambda: True)
    assert not services.resolve_if_passed(incident.pk, lambda: True)

    incident.refresh_from_db()
    assert incident.status == "resolved"


def test_a_resolved_incident_without_an_instant_is_refused_by_the_database(shop):
    incident = fail(shop)
    with pytest.raises(IntegrityError), transaction.atomic():
        Incident.objects.of(shop).filter(pk=incident.pk).update(status="resolved")


def test_representation_has_exactly_the_keys_of_the_contract(shop):
    ticket = TicketFactory(tenant=shop)
    account = ConnectionFactory(tenant=shop, name="shop")
    incident = fail(shop, ticket=ticket, connection=account)

    listed = services.representation(incident, "en")
    whole = services.representation(incident, "en", with_runs=True, with_detail=True)

    assert list(listed) == [
        "id", "title", "impact", "status", "count", "firstAt", "lastAt", "ticket", "automation", "connection",
    ]  # fmt: skip
    assert set(whole) - set(listed) == {"runs", "detail"}
    assert uuid.UUID(listed["id"]) == incident.public_id
    assert listed["ticket"] == ticket.key
    assert listed["automation"] == ORDERS
    assert listed["connection"] == {"id": str(account.public_id), "name": "shop"}
    assert listed["firstAt"].endswith("Z")
    assert whole["runs"] == []


def test_texts_that_an_automation_gave_win(shop):
    incident = fail(shop, code="incident.created", title="Converter is down", impact="No invoices go out.")

    shown = services.representation(incident, "cs")

    assert (shown["title"], shown["impact"]) == ("Converter is down", "No invoices go out.")


# At the same moment


def in_threads(count, work):
    """Run `work(index)` in `count` threads that begin together; return results, re-raise the first error."""
    gate, results, errors = threading.Barrier(count), [], []

    def one(index):
        try:
            gate.wait(10)
            results.append(work(index))
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=[index]) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    if errors:
        raise errors[0]
    return results


@pytest.mark.django_db(transaction=True)
def test_failures_at_the_same_moment_make_one_incident_that_counted_each():
    tenant = TenantFactory()

    def work(_index):
        with transaction.atomic():
            return fail(tenant).pk

    assert len(set(in_threads(12, work))) == 1
    assert Incident.objects.of(tenant).get().count == 12


@pytest.mark.django_db(transaction=True)
def test_a_failure_that_meets_resolving_is_never_swallowed_by_it():
    """Every failure is counted on some incident, and one that came after the resolving stands open."""
    tenant = TenantFactory()
    fail(tenant)

    def work(index):
        if index % 3 == 0:
            return [services.resolve(incident) for incident in Incident.objects.of(tenant)]
        with transaction.atomic():
            return fail(tenant)

    in_threads(12, work)

    assert sum(Incident.objects.of(tenant).values_list("count", flat=True)) == 1 + 8
    assert Incident.objects.of(tenant).exclude(status="resolved").count() <= 1


@pytest.mark.django_db(transaction=True)
def test_a_failure_that_joins_while_the_engine_asks_is_seen_or_founds_a_new_one():
    tenant = TenantFactory()
    incident = fail(tenant)
    asked, answered = threading.Event(), threading.Event()

    def has_passed():
        asked.set()
        # The failure below waits for the row that is held here; it cannot slip in between.
        answered.wait(0.3)
        return True

    def join():
        asked.wait(10)
        with transaction.atomic():
            fail(tenant)
        answered.set()

    in_threads(2, lambda index: join() if index else services.resolve_if_passed(incident.pk, has_passed))

    old, new = Incident.objects.of(tenant).order_by("pk")
    assert (old.status, old.count) == ("resolved", 1)
    assert (new.status, new.count) == ("open", 1)
