"""`/api/tickets` over HTTP: shapes, filters, refusals and rights."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from tests.factories import TicketTypeFactory
from tests.tickets.desk import JANA, ROBOT, kinds
from tickets import services
from tickets.models import Person, Ticket

pytestmark = pytest.mark.django_db

TICKET_KEYS = {
    "number", "externalId", "title", "description", "type", "status", "closed", "closedAt", "tags", "assignee",
    "group", "fields", "requester", "createdAt", "updatedAt", "version",
}  # fmt: skip


@pytest.fixture
def client(shop, api):
    """A program of the shop that may write tickets."""
    return api(shop, "agent")


@pytest.fixture
def ticket(shop):
    """TK-1 of the shop."""
    return services.create(
        shop,
        JANA,
        {"title": "Order", "type": "order", "status": "new", "tags": ["a"], "externalId": "5001"},
    )


def pointers(response):
    assert response["Content-Type"] == "application/problem+json"
    return [error["pointer"] for error in response.json()["errors"]]


def numbers(response):
    assert response.status_code == 200, response.content
    return [one["number"] for one in response.json()["results"]]


class TestOne:
    def test_creating_answers_201_and_the_ticket(self, shop, client):
        body = {
            "title": "Order 5001",
            "type": "order",
            "status": "new",
            "tags": ["a"],
            "externalId": "5001",
            "fields": {"color": "red"},
        }
        response = client.post("/api/tickets", body)

        assert response.status_code == 201
        shown = response.json()
        assert shown == services.representation(Ticket.objects.of(shop).get())
        assert set(shown) == TICKET_KEYS
        assert {key: shown[key] for key in body} == body
        assert (shown["number"], shown["version"], shown["closed"], shown["closedAt"]) == (
            "TK-1",
            1,
            False,
            None,
        )
        assert (shown["assignee"], shown["group"], shown["requester"], shown["description"]) == (None,) * 4
        assert shown["createdAt"].endswith("Z")

    def test_reading(self, client, ticket):
        assert client.get("/api/tickets/TK-1").json() == services.representation(ticket)

    def test_money_keeps_its_digits(self, shop, client):
        amount = {"id": "f_amount", "key": "amount", "label": "Amount", "type": "number", "required": False}
        TicketTypeFactory(tenant=shop, key="invoice", fields=[amount])
        body = b'{"title": "x", "type": "invoice", "fields": {"amount": 12.50}}'

        response = client.post("/api/tickets", body, content_type="application/json")

        assert b'"amount":12.50' in response.content
        assert services.read(shop, 1).fields == {"amount": Decimal("12.50")}

    @pytest.mark.parametrize(
        "number", ["TK-2", "1", "5001", "TK-0", "TK-99999999999999999999", "x", "TK-1%00"]
    )
    def test_what_does_not_exist(self, client, ticket, number):
        assert client.get(f"/api/tickets/{number}").status_code == 404

    def test_patching_changes_what_is_there_and_merges_fields(self, client, ticket):
        response = client.patch("/api/tickets/TK-1", {"status": "handed over", "fields": {"color": "red"}})

        assert response.status_code == 200
        shown = response.json()
        assert (shown["status"], shown["fields"], shown["title"], shown["version"]) == (
            "handed over",
            {"color": "red"},
            "Order",
            2,
        )
        assert client.patch("/api/tickets/TK-1", {"fields": {"color": None}}).json()["fields"] == {}
        assert client.patch("/api/tickets/TK-1", {"tags": ["b"]}).json()["tags"] == ["b"]

    def test_an_answer_sent_back_is_no_change(self, client, ticket):
        services.assign(ticket.tenant, 1, JANA, person="jana@shop.test", group="warehouse")
        shown = client.get("/api/tickets/TK-1").json()
        settable = {
            key: shown[key]
            for key in TICKET_KEYS - {"number", "closedAt", "createdAt", "updatedAt", "version"}
        }

        assert client.patch("/api/tickets/TK-1", settable).json() == shown

    def test_a_stale_version_is_409(self, client, ticket):
        assert client.patch("/api/tickets/TK-1", {"version": 1, "title": "A"}).status_code == 200
        response = client.patch("/api/tickets/TK-1", {"version": 1, "title": "B"})

        assert response.status_code == 409
        assert (response.json()["code"], response.json()["version"]) == ("ticket.stale", 2)

    def test_a_taken_external_id_is_409(self, client, ticket):
        response = client.post("/api/tickets", {"title": "x", "externalId": "5001"})

        assert response.status_code == 409
        assert pointers(response) == ["/externalId"]

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ({"title": 5}, ["/title"]),
            ({"title": "x" * 501, "tags": ["y" * 201]}, ["/title", "/tags"]),
            ({"title": "a\x00b"}, ["/title"]),
            ({"status": "lost"}, ["/status"]),
            ({"type": "nothing"}, ["/type"]),
            ({"group": "nothing", "assignee": "nobody@shop.test"}, ["/group", "/assignee"]),
            ({"fields": {"size": 1, "a/b": 2}}, ["/fields/size", "/fields/a~1b"]),
            ({"closed": "yes"}, ["/closed"]),
            ({"number": "TK-7"}, ["/number"]),
            ({"version": "1"}, ["/version"]),
            ({"version": True}, ["/version"]),
            ({"colour": "red"}, ["/colour"]),
            ({"requester": {"name": "x" * 201}}, ["/requester"]),
            ({"assignee": ["x"]}, ["/assignee"]),
            ({"assignee": {"name": "Jana"}}, ["/assignee"]),
        ],
    )
    def test_what_is_wrong_is_400_with_its_pointer(self, client, ticket, body, expected):
        response = client.patch("/api/tickets/TK-1", body)

        assert response.status_code == 400, response.content
        assert sorted(pointers(response)) == sorted(expected)
        assert services.read(ticket.tenant, 1).version == 1

    def test_creating_needs_a_title(self, client):
        response = client.post("/api/tickets", {})

        assert response.status_code == 400
        assert pointers(response) == ["/title"]

    @pytest.mark.parametrize("method", ["put", "delete"])
    def test_other_methods_are_405(self, client, ticket, method):
        assert getattr(client, method)("/api/tickets/TK-1", {}).status_code == 405


class TestActions:
    def test_close_and_reopen(self, client, ticket):
        closed = client.post("/api/tickets/TK-1/close")
        assert (closed.status_code, closed.json()["closed"]) == (200, True)
        assert closed.json()["closedAt"].endswith("Z")
        reopened = client.post("/api/tickets/TK-1/reopen")
        assert (reopened.status_code, reopened.json()["closed"], reopened.json()["closedAt"]) == (
            200,
            False,
            None,
        )

    def test_assign(self, shop, client, ticket):
        jana = Person.objects.of(shop).get(name="Jana")

        response = client.post("/api/tickets/TK-1/assign", {"person": str(jana.public_id)})
        assert response.status_code == 200
        assert response.json()["assignee"] == {"id": str(jana.public_id), "name": "Jana"}
        response = client.post("/api/tickets/TK-1/assign", {"person": None})
        assert (response.status_code, response.json()["assignee"]) == (200, None)
        response = client.post("/api/tickets/TK-1/assign", {"leastBusy": "dispatch"})
        assert (response.json()["assignee"]["name"], response.json()["group"]["name"]) == (
            "Marek",
            "Dispatch",
        )
        response = client.post("/api/tickets/TK-1/assign", {"group": "warehouse"})
        assert (response.json()["assignee"], response.json()["group"]["name"]) == (None, "Warehouse")

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ({}, [""]),
            ({"person": "nobody@shop.test"}, ["/person"]),
            ({"person": 5}, ["/person"]),
            ({"person": ""}, [""]),
            ({"group": "nothing"}, ["/group"]),
            ({"group": "w\x00"}, ["/group"]),
            ({"leastBusy": "nothing"}, ["/leastBusy"]),
            ({"leastBusy": "warehouse", "group": "it"}, [""]),
            ({"team": "it"}, ["/team"]),
        ],
    )
    def test_assigning_to_nobody_known_is_400(self, client, ticket, body, expected):
        response = client.post("/api/tickets/TK-1/assign", body)

        assert response.status_code == 400, response.content
        assert pointers(response) == expected

    def test_comments(self, client, ticket):
        response = client.post("/api/tickets/TK-1/comments", {"text": "Packed.", "public": True})

        assert response.status_code == 201
        entry = response.json()
        assert (entry["kind"], entry["data"]) == ("comment", {"text": "Packed.", "public": True})
        assert entry["actor"] == {"kind": "token", "name": "shop agent"}
        client.post("/api/tickets/TK-1/comments", {"text": "Hm."})
        listed = client.get("/api/tickets/TK-1/comments").json()["results"]
        assert [one["data"] for one in listed] == [entry["data"], {"text": "Hm.", "public": False}]

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ({}, ["/text"]),
            ({"text": " "}, ["/text"]),
            ({"text": 5}, ["/text"]),
            ({"text": "x", "public": "perhaps"}, ["/public"]),
            ({"text": "x", "loud": True}, ["/loud"]),
        ],
    )
    def test_a_bad_comment_is_400(self, client, ticket, body, expected):
        response = client.post("/api/tickets/TK-1/comments", body)

        assert response.status_code == 400
        assert pointers(response) == expected

    def test_the_log_is_oldest_first_and_has_its_exact_shape(self, shop, client, ticket):
        services.change(shop, 1, ROBOT, {"status": "handed over"})
        client.post("/api/tickets/TK-1/close")

        response = client.get("/api/tickets/TK-1/log")

        assert set(response.json()) == {"results", "next", "previous"}
        entries = response.json()["results"]
        assert [entry["kind"] for entry in entries] == ["created", "changed", "changed"]
        assert entries[1] == {
            "id": entries[1]["id"],
            "at": entries[1]["at"],
            "kind": "changed",
            "actor": {"kind": "automation", "name": "Orders v3"},
            "message": "Status: new → handed over",
            "data": {"changes": {"status": {"from": "new", "to": "handed over"}}},
            "runId": None,
        }

    def test_pages_of_the_log_follow_one_another(self, shop, client, ticket):
        for number in range(5):
            services.comment(shop, 1, JANA, str(number), public=False)

        first = client.get("/api/tickets/TK-1/log?pageSize=4").json()
        second = client.get(first["next"]).json()

        texts = [entry["data"].get("text") for entry in first["results"] + second["results"]]
        assert texts == [None, "0", "1", "2", "3", "4"]
        assert second["next"] is None

    def test_the_log_takes_no_filters(self, client, ticket):
        assert client.get("/api/tickets/TK-1/log?status=new").status_code == 400


class TestList:
    @pytest.fixture
    def tickets(self, shop, ticket):
        """TK-1 … TK-4."""
        services.create(
            shop,
            JANA,
            {
                "title": "Žluťoučký kůň",
                "type": "error",
                "tags": ["a", "b"],
                "assignee": "jana@shop.test",
                "group": "warehouse",
                "requester": {"name": "Čeněk Řehoř", "email": "cenek@example.test"},
            },
        )
        services.create(
            shop, JANA, {"title": "100 % wool_coat", "description": "a příliš long story", "closed": True}
        )
        services.create(shop, JANA, {"title": "Order 1", "type": "order", "group": "it"})

    def test_newest_first(self, client, tickets):
        response = client.get("/api/tickets")

        assert numbers(response) == ["TK-4", "TK-3", "TK-2", "TK-1"]
        assert set(response.json()["results"][0]) == TICKET_KEYS

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("status=new", ["TK-1"]),
            ("closed=true", ["TK-3"]),
            ("closed=false", ["TK-4", "TK-2", "TK-1"]),
            ("type=order", ["TK-4", "TK-1"]),
            ("type=nothing", []),
            ("tag=a", ["TK-2", "TK-1"]),
            ("tag=b", ["TK-2"]),
            ("assignee=jana@shop.test", ["TK-2"]),
            ("assignee=JANA@shop.test", ["TK-2"]),
            ("assignee=none", ["TK-4", "TK-3", "TK-1"]),
            ("assignee=00000000-0000-4000-8000-000000000000", []),
            ("group=warehouse", ["TK-2"]),
            ("externalId=5001", ["TK-1"]),
            ("q=zlutoucky kun", ["TK-2"]),
            ("q=KŮŇ", ["TK-2"]),
            ("q=kun zlut", ["TK-2"]),
            ("q=cenek rehor", ["TK-2"]),
            ("q=cenek@", ["TK-2"]),
            ("q=5001", ["TK-1"]),
            ("q=tk-3", ["TK-3"]),
            ("q=TK-9", []),
            ("q=1", ["TK-4", "TK-3", "TK-1"]),
            ("q=100 %25", ["TK-3"]),
            ("q=%25", ["TK-3"]),
            ("q=wool_coat", ["TK-3"]),
            ("q=woolxcoat", []),
            ("q=prilis", ["TK-3"]),
            ("q=", ["TK-4", "TK-3", "TK-2", "TK-1"]),
            ("type=order&closed=false&group=it", ["TK-4"]),
            ("createdAfter=2000-01-01T00:00:00Z", ["TK-4", "TK-3", "TK-2", "TK-1"]),
            ("createdAfter=2999-01-01T00:00:00Z", []),
        ],
    )
    def test_filters(self, client, tickets, query, expected):
        assert numbers(client.get(f"/api/tickets?{query}")) == expected

    def test_updated_after_means_changes_comments_and_events(self, shop, client, tickets):
        Ticket.objects.of(shop).update(updated_at=timezone.now() - timedelta(hours=1))
        since = timezone.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        services.comment(shop, 1, JANA, "Hm.", public=False)
        services.upsert(shop, ROBOT, "5001", {}, update=False)
        services.change(shop, 2, JANA, {"title": "Kůň"})

        assert numbers(client.get(f"/api/tickets?updatedAfter={since}")) == ["TK-2", "TK-1"]
        assert numbers(client.get("/api/tickets?q=zlutoucky")) == []

    @pytest.mark.parametrize(
        "query",
        [
            "closed=perhaps",
            "assignee=jana",
            "createdAfter=yesterday",
            "colour=red",
            "tag=a&tag=b",
            "cursor=x",
            "pageSize=0",
            "q=%00",
        ],
    )
    def test_a_bad_filter_is_400(self, client, tickets, query):
        assert client.get(f"/api/tickets?{query}").status_code == 400

    def test_pages(self, client, tickets):
        first = client.get("/api/tickets?pageSize=3&closed=false")
        assert numbers(first) == ["TK-4", "TK-2", "TK-1"]
        assert first.json()["next"] is None
        first = client.get("/api/tickets?pageSize=3")
        second = client.get(first.json()["next"])
        assert numbers(first) + numbers(second) == ["TK-4", "TK-3", "TK-2", "TK-1"]

    def test_takes_the_same_queries_for_many_as_for_few(self, client, tickets, django_assert_max_num_queries):
        with django_assert_max_num_queries(4):
            client.get("/api/tickets")


class TestBulk:
    def test_edits_each_by_itself(self, shop, client, ticket):
        services.create(shop, JANA, {"title": "No type"})
        services.create(shop, JANA, {"title": "Error", "type": "error"})
        body = {
            "numbers": ["TK-3", "TK-1", "TK-9", "x", "TK-2"],
            "set": {"status": "handed over", "group": "it"},
            "addTags": ["b"],
            "removeTags": ["a"],
            "close": True,
        }

        response = client.post("/api/tickets/bulk", body)

        assert response.status_code == 200
        results = response.json()["results"]
        assert [(one["number"], one["status"]) for one in results] == [
            ("TK-3", 400),
            ("TK-1", 200),
            ("TK-9", 404),
            ("x", 404),
            ("TK-2", 200),
        ]
        assert results[1] == {"number": "TK-1", "status": 200}
        first = services.read(shop, 1)
        assert (first.status, first.group.key, first.tags, first.closed) == ("handed over", "it", ["b"], True)
        assert kinds(first) == ["created", "changed"]
        assert services.read(shop, 3).closed is False

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ({}, "/numbers"),
            ({"numbers": []}, "/numbers"),
            ({"numbers": "TK-1"}, "/numbers"),
            ({"numbers": ["TK-1"] * 201}, "/numbers"),
            ({"numbers": ["TK-1"], "set": {"title": 5}}, "/set/title"),
            ({"numbers": ["TK-1"], "set": {"externalId": "1"}}, "/set/externalId"),
            ({"numbers": ["TK-1"], "set": {"colour": "red"}}, "/set/colour"),
            ({"numbers": ["TK-1"], "addTags": "a"}, "/addTags"),
            ({"numbers": ["TK-1"], "close": "perhaps"}, "/close"),
            ({"numbers": ["TK-1"], "delete": True}, "/delete"),
        ],
    )
    def test_what_is_wrong_for_all_is_400(self, client, ticket, body, expected):
        response = client.post("/api/tickets/bulk", body)

        assert response.status_code == 400, response.content
        assert pointers(response) == [expected]
        assert services.read(ticket.tenant, 1).version == 1


REQUESTS = [
    ("get", "/api/tickets/TK-1", None),
    ("patch", "/api/tickets/TK-1", {"title": "Mine"}),
    ("get", "/api/tickets/TK-1/log", None),
    ("get", "/api/tickets/TK-1/comments", None),
    ("post", "/api/tickets/TK-1/comments", {"text": "x"}),
    ("post", "/api/tickets/TK-1/close", {}),
    ("post", "/api/tickets/TK-1/reopen", {}),
    ("post", "/api/tickets/TK-1/assign", {"group": "warehouse"}),
    ("post", "/api/tickets/TK-1/assign", {"leastBusy": "warehouse"}),
]


class TestRights:
    @pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
    def test_a_stranger_gets_404(self, stranger, api, ticket, method, path, body):
        response = getattr(api(stranger), method)(path, body)

        assert response.status_code == 404
        assert "Order" not in response.content.decode()
        assert kinds(ticket) == ["created"]

    def test_a_stranger_lists_searches_and_edits_nothing(self, stranger, api, ticket):
        client = api(stranger)

        assert numbers(client.get("/api/tickets")) == []
        assert numbers(client.get("/api/tickets?q=order")) == []
        assert numbers(client.get("/api/tickets?externalId=5001")) == []
        results = client.post("/api/tickets/bulk", {"numbers": ["TK-1"], "close": True}).json()["results"]
        assert [one["status"] for one in results] == [404]
        assert kinds(ticket) == ["created"]

    def test_a_stranger_cannot_be_given_work_by_the_shop(self, stranger, client, ticket):
        foreign = Person.objects.of(stranger).get()

        response = client.post("/api/tickets/TK-1/assign", {"person": str(foreign.public_id)})
        assert (response.status_code, response.json()["code"]) == (400, "missing.person")

    @pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
    def test_a_viewer_reads_only(self, shop, api, ticket, method, path, body):
        response = getattr(api(shop, "viewer"), method)(path, body)

        assert response.status_code == (200 if method == "get" else 403)

    @pytest.mark.parametrize("path", ["/api/tickets", "/api/tickets/bulk"])
    def test_a_viewer_creates_nothing(self, shop, api, path):
        assert api(shop, "viewer").post(path, {"title": "x"}).status_code == 403


@pytest.mark.parametrize(
    ("accepted", "created"), [("cs", "Vytvořeno"), ("en", "Created"), ("cs-CZ,en;q=0.5", "Vytvořeno")]
)
def test_the_log_speaks_the_readers_language(client, ticket, accepted, created):
    entry = client.get("/api/tickets/TK-1/log", headers={"Accept-Language": accepted}).json()["results"][0]

    assert entry["message"] == created
