"""Incidents over HTTP: the client's level for the tenant, the admin level for staff alone."""

import uuid

import pytest

from automations.models import AutomationVersion
from incidents import services
from runtime.models import Run
from tests.factories import AutomationFactory, ConnectionFactory, RunFactory, TicketFactory
from tests.incidents.test_services import fail

KEYS = {
    "id", "title", "impact", "status", "count", "firstAt", "lastAt", "ticket", "automation", "connection",
}  # fmt: skip


def run_of(incident, **values):
    """A failed run that points to its incident, as the engine leaves it."""
    automation = AutomationFactory(tenant=incident.tenant)
    version = AutomationVersion.objects.create(
        tenant=incident.tenant, automation=automation, number=1, tree={}, created_by="Jana"
    )
    return RunFactory(
        tenant=incident.tenant,
        automation=automation,
        version=version,
        trigger=Run.Trigger.WEBHOOK,
        incident=incident,
        **values,
    )


def ids(answer):
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["results"]]


def test_the_list_is_newest_first_and_shows_the_clients_level_only(shop, api):
    first, second = fail(shop, cause="one"), fail(shop, cause="two")

    answer = api(shop, "viewer").get("/api/incidents")

    assert ids(answer) == [str(second.public_id), str(first.public_id)]
    assert set(answer.json()["results"][0]) == KEYS
    assert "401 came" not in answer.content.decode()


def test_one_incident_lists_its_runs_newest_first(shop, api):
    incident = fail(shop)
    runs = [run_of(incident) for _ in range(3)]

    answer = api(shop, "viewer").get(f"/api/incidents/{incident.public_id}")

    assert set(answer.json()) == KEYS | {"runs"}
    assert answer.json()["runs"] == [str(run.public_id) for run in reversed(runs)]


def test_of_many_runs_the_last_hundred_are_listed(shop, api):
    incident = fail(shop)
    one = run_of(incident)
    Run.objects.bulk_create(
        RunFactory.build(
            tenant=shop, automation=one.automation, version=one.version, trigger="webhook", incident=incident
        )
        for _ in range(120)
    )  # fmt: skip

    runs = api(shop).get(f"/api/incidents/{incident.public_id}").json()["runs"]

    assert len(runs) == 100
    assert str(one.public_id) not in runs


@pytest.mark.parametrize("role", ["viewer", "agent", "admin"])
def test_nobody_of_the_tenant_gets_the_detail(shop, api, role):
    incident = fail(shop)

    answer = api(shop, role).get(f"/api/incidents/{incident.public_id}")

    assert "detail" not in answer.json()
    assert "401 came" not in answer.content.decode()


def test_staff_get_the_detail_of_one_incident(shop, staff_api):
    incident = fail(shop)

    answer = staff_api.get(f"/api/incidents/{incident.public_id}", HTTP_X_TENANT="shop")

    assert answer.json()["detail"] == {"message": "401 came"}


def test_texts_come_in_the_readers_language(shop, api):
    fail(shop)
    client = api(shop)

    czech = client.get("/api/incidents", HTTP_ACCEPT_LANGUAGE="cs").json()["results"][0]["title"]
    english = client.get("/api/incidents", HTTP_ACCEPT_LANGUAGE="en").json()["results"][0]["title"]

    assert czech == "Automatizace „Orders“ nedoběhla do konce, data jsme neztratili."
    assert english == "The automation “Orders” did not finish, no data was lost."


def test_filters_narrow_the_list(shop, api):
    ticket, other = TicketFactory(tenant=shop), TicketFactory(tenant=shop)
    account = ConnectionFactory(tenant=shop)
    of_ticket = fail(shop, cause="ticket", ticket=ticket)
    of_run = fail(shop, cause="run")
    run_of(of_run, ticket=ticket)
    of_account = fail(shop, cause="account", connection=account, automation=None)
    resolved = services.resolve(
        fail(shop, cause="resolved", automation={"id": str(uuid.uuid4()), "name": "X"})
    )
    client = api(shop)

    def listed(**query):
        return set(ids(client.get("/api/incidents", query)))

    def public(*incidents):
        return {str(incident.public_id) for incident in incidents}

    assert listed(ticket=ticket.key) == public(of_ticket, of_run)
    assert listed(ticket=other.key) == set()
    assert listed(status="resolved") == public(resolved)
    assert listed(status="open", connection=account.public_id) == public(of_account)
    assert listed(automation=of_ticket.automation["id"]) == public(of_ticket, of_run)
    assert listed(automation=uuid.uuid4()) == set()


@pytest.mark.parametrize(
    "query",
    [
        "state=open",
        "status=closed",
        "ticket=4822",
        "ticket=TK-x",
        "automation=Orders",
        "connection=shop",
        "cursor=1",
    ],
)
def test_what_cannot_be_a_filter_is_refused(shop, api, query):
    answer = api(shop).get(f"/api/incidents?{query}")

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["errors"][0]["pointer"] == "/" + query.partition("=")[0]


def test_an_agent_acknowledges_and_resolves(shop, api):
    incident = fail(shop)
    client = api(shop, "agent")

    acknowledged = client.post(f"/api/incidents/{incident.public_id}/acknowledge")
    resolved = client.post(f"/api/incidents/{incident.public_id}/resolve")
    again = client.post(f"/api/incidents/{incident.public_id}/resolve")
    too_late = client.post(f"/api/incidents/{incident.public_id}/acknowledge")

    assert (acknowledged.status_code, acknowledged.json()["status"]) == (200, "acknowledged")
    assert (resolved.status_code, resolved.json()["status"]) == (200, "resolved")
    assert (again.status_code, again.json()["status"]) == (200, "resolved")
    assert (too_late.status_code, too_late.json()["code"]) == (409, "incident.resolved")


def test_a_body_that_nobody_reads_is_refused(shop, api):
    incident = fail(shop)

    answer = api(shop).post(f"/api/incidents/{incident.public_id}/resolve", {"comment": "done"})

    assert answer.status_code == 400
    assert answer.json()["errors"] == [{"pointer": "/comment", "message": "This key is not known."}]
    incident.refresh_from_db()
    assert incident.status == "open"


@pytest.mark.parametrize("action", ["acknowledge", "resolve"])
def test_a_viewer_only_looks(shop, api, action):
    incident = fail(shop)

    answer = api(shop, "viewer").post(f"/api/incidents/{incident.public_id}/{action}")

    assert answer.status_code == 403
    incident.refresh_from_db()
    assert incident.status == "open"


def test_the_stranger_sees_none_and_gets_404(shop, stranger, api):
    incident = fail(shop)
    client = api(stranger)
    address = f"/api/incidents/{incident.public_id}"

    assert ids(client.get("/api/incidents")) == []
    assert client.get(address).status_code == 404
    assert client.post(f"{address}/acknowledge").status_code == 404
    assert client.post(f"{address}/resolve").status_code == 404
    incident.refresh_from_db()
    assert incident.status == "open"


def test_the_strangers_ticket_finds_nothing_of_ours(shop, stranger, api):
    """Both tenants have a TK-1: the filter stays inside the tenant."""
    ticket = TicketFactory(tenant=shop)
    fail(shop, ticket=ticket)
    theirs = TicketFactory(tenant=stranger)
    assert theirs.key == ticket.key

    assert ids(api(stranger).get("/api/incidents", {"ticket": theirs.key})) == []


def test_nobody_gets_401(shop, client):
    incident = fail(shop)

    assert client.get("/api/incidents").status_code == 401
    assert client.get(f"/api/incidents/{incident.public_id}").status_code == 401


def test_a_page_costs_the_same_however_many_rows_it_has(shop, api, django_assert_max_num_queries):
    account = ConnectionFactory(tenant=shop)
    for number in range(30):
        fail(shop, cause=str(number), ticket=TicketFactory(tenant=shop), connection=account)
    client = api(shop)

    with django_assert_max_num_queries(4) as captured:
        assert len(ids(client.get("/api/incidents"))) == 30
    assert not any("COUNT(" in query["sql"] for query in captured.captured_queries)
