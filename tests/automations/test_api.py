"""REST of automations, and that a stranger sees none of it."""

import uuid

import pytest

from automations import services, tokens
from automations.models import Automation
from tests.automations import trees
from tests.factories import ConnectionFactory
from tickets.events import Actor
from tickets.models import AuditEntry, TicketType

JANA = Actor("person", "Jana")
LIST = "/api/automations"
READS = ["", "/versions", "/versions/1", "/versions/1/diff", "/webhook", "/export"]
WRITES = [
    ("patch", "", {"name": "x"}),
    ("delete", "", None),
    ("put", "/draft", {"trigger": {}, "steps": []}),
    ("post", "/publish", {}),
    ("post", "/pause", {}),
    ("post", "/resume", {}),
    ("post", "/versions/1/restore", {}),
    ("post", "/webhook/rotate", {}),
]


@pytest.fixture
def live(shop):
    return services.publish(services.create(shop, JANA, trees.orders()).automation, JANA)


def path(automation, rest=""):
    return f"{LIST}/{automation.public_id}{rest}"


class TestCreating:
    def test_a_new_one_is_a_draft(self, shop, api):
        answer = api(shop).post(LIST, trees.orders())
        assert answer.status_code == 201
        told = answer.json()
        assert uuid.UUID(told.pop("id"))
        assert told.pop("createdAt").endswith("Z")
        assert told.pop("updatedAt").endswith("Z")
        assert told == {
            "name": "Orders",
            "state": "draft",
            "version": None,
            "trigger": trees.webhook(),
            "steps": [trees.upsert()],
            "unpublishedChanges": True,
            "faults": [],
            "warnings": [],
        }
        assert answer["ETag"] == '"1"'

    def test_400_lists_every_fault_with_its_pointer(self, shop, api):
        raw = trees.orders(
            steps=[trees.upsert(type="unheard-of"), {"id": "st_x", "type": "action", "op": "no/such"}]
        )
        answer = api(shop).post(LIST, raw)
        assert answer.status_code == 400
        assert answer["Content-Type"] == "application/problem+json"
        problem = answer.json()
        assert problem["code"] == "automation.invalid"
        assert {"/steps/0/inputs/type", "/steps/1/op"} <= {fault["pointer"] for fault in problem["errors"]}

    @pytest.mark.parametrize(
        ("raw", "pointer"),
        [
            ({"trigger": {}, "steps": []}, "/name"),
            (trees.orders(name="x" * 201), "/name"),
            (trees.orders(trigger=[]), "/trigger"),
            (trees.orders(steps={}), "/steps"),
            (trees.orders(state="active"), "/state"),
            ({"name": "x", "steps": []}, "/trigger"),
            ({"name": "x", "trigger": {"kind": "manual"}}, "/steps"),
        ],
    )
    def test_a_body_of_another_shape(self, shop, api, raw, pointer):
        answer = api(shop).post(LIST, raw)
        assert answer.status_code == 400
        assert pointer in [fault["pointer"] for fault in answer.json()["errors"]]

    def test_warnings_come_with_the_answer(self, shop, api):
        rule = {"fieldId": "f_order", "operator": "gt", "value": "7"}
        condition = {
            "id": "st_if",
            "type": "condition",
            "match": "all",
            "rules": [rule],
            "then": [],
            "else": [],
        }
        answer = api(shop).post(LIST, trees.orders(steps=[condition]))
        assert answer.status_code == 201
        assert all(set(warning) == {"pointer", "code", "message"} for warning in answer.json()["warnings"])
        assert answer.json()["warnings"]

    def test_secrets_never_come_back(self, shop, api):
        program = api(shop)
        made = program.post(
            LIST, trees.orders(trigger=trees.signed("canary", verify={"kind": "hub", "token": "canary"}))
        )
        address = f"{LIST}/{made.json()['id']}"
        program.post(f"{address}/publish")
        answers = [made, program.get(LIST), program.get(address), program.get(f"{address}/export")]
        answers += [
            program.get(f"{address}/versions/1"),
            program.get(f"{address}/versions/1/diff"),
            program.get("/api/audit"),
        ]
        assert [answer.status_code for answer in answers] == [201, 200, 200, 200, 200, 200, 200]
        assert not [answer for answer in answers if b"canary" in answer.content]
        assert made.json()["trigger"]["signature"]["secrets"] == ["•••"]

    def test_what_was_read_can_be_sent_back(self, shop, api):
        program = api(shop)
        made = program.post(LIST, trees.orders(trigger=trees.signed("a", "b"))).json()
        answer = program.patch(f"{LIST}/{made['id']}", {"trigger": made["trigger"], "steps": made["steps"]})
        assert answer.status_code == 200
        automation = Automation.objects.of(shop).get()
        token = tokens.current(services.publish(automation, JANA))
        assert services.webhook_of(token).secrets().signature == ("a", "b")


class TestReading:
    def test_the_list_is_newest_first_and_filtered(self, shop, api, live):
        services.create(shop, JANA, trees.orders(name="Second"))
        names = [one["name"] for one in api(shop).get(LIST).json()["results"]]
        assert names == ["Second", "Orders"]
        assert [one["name"] for one in api(shop).get(f"{LIST}?state=active").json()["results"]] == ["Orders"]
        assert [one["name"] for one in api(shop).get(f"{LIST}?name=Second").json()["results"]] == ["Second"]
        assert api(shop).get(f"{LIST}?state=no").status_code == 400
        assert api(shop).get(f"{LIST}?no=x").status_code == 400

    def test_pages(self, shop, api):
        for number in range(3):
            services.create(shop, JANA, trees.orders(name=f"No. {number}"))
        program, seen, address = api(shop), [], f"{LIST}?pageSize=2"
        while address:
            page = program.get(address).json()
            seen += [one["name"] for one in page["results"]]
            address = page["next"]
        assert seen == ["No. 2", "No. 1", "No. 0"]

    def test_one_has_the_findings_of_its_draft(self, shop, api, live):
        services.save_draft(live, JANA, {"steps": [7]})
        told = api(shop).get(path(live)).json()
        assert told["faults"][0]["pointer"] == "/steps/0"
        assert (told["state"], told["version"], told["unpublishedChanges"]) == ("active", 1, True)

    def test_a_viewer_reads_and_does_not_write(self, shop, api, live):
        for rest in READS:
            assert api(shop, "viewer").get(path(live, rest)).status_code == 200, rest
        for role in ("viewer", "agent"):
            for method, rest, body in WRITES:
                assert getattr(api(shop, role), method)(path(live, rest), body).status_code == 403, rest
            assert api(shop, role).post(LIST, trees.orders()).status_code == 403
            assert api(shop, role).post(f"{LIST}/import", trees.orders()).status_code == 403

    def test_staff_reads_by_naming_the_tenant(self, shop, staff_api, live):
        assert staff_api.get(path(live), HTTP_X_TENANT="shop").json()["name"] == "Orders"
        assert staff_api.get(path(live)).status_code == 400


class TestStrangers:
    @pytest.mark.parametrize("rest", READS)
    def test_cannot_read(self, stranger, api, live, rest):
        absent = api(stranger).get(f"{LIST}/{uuid.uuid4()}{rest}")
        foreign = api(stranger).get(path(live, rest))
        assert foreign.status_code == absent.status_code == 404
        ignoring = {"instance": None}
        assert {**foreign.json(), **ignoring} == {**absent.json(), **ignoring}

    @pytest.mark.parametrize(("method", "rest", "body"), WRITES)
    def test_cannot_write(self, stranger, api, live, method, rest, body):
        assert getattr(api(stranger), method)(path(live, rest), body).status_code == 404
        live.refresh_from_db()
        assert (live.name, live.state, live.revision) == ("Orders", "active", 2)

    def test_see_an_empty_list(self, stranger, api, live):
        assert api(stranger).get(LIST).json()["results"] == []

    def test_cannot_use_the_shops_names_in_their_trees(self, shop, stranger, api):
        ConnectionFactory(tenant=shop, name="shop")
        callee = services.create(shop, JANA, trees.orders()).automation
        raw = {
            "name": "x",
            "trigger": {"kind": "manual"},
            "steps": [trees.request(), trees.call(str(callee.public_id))],
        }
        answer = api(stranger).post(LIST, raw)
        pointers = {fault["pointer"] for fault in answer.json()["errors"]}
        assert {"/steps/0/connection", "/steps/1/inputs/automation"} <= pointers


class TestChanging:
    def test_if_match_of_the_answer_is_taken_and_a_stale_one_is_412(self, shop, api, live):
        program = api(shop)
        tag = program.get(path(live))["ETag"]
        changed = program.patch(path(live), {"name": "New"}, HTTP_IF_MATCH=tag)
        assert changed.status_code == 200
        assert changed["ETag"] == '"3"'
        for method, rest, body in (("patch", "", {"name": "x"}), ("post", "/publish", {})):
            stale = getattr(program, method)(path(live, rest), body, HTTP_IF_MATCH=tag)
            assert stale.status_code == 412
            assert stale["ETag"] == '"3"'

    @pytest.mark.parametrize(
        ("tag", "status"),
        [("*", 200), ('"1", "2"', 200), ('W/"2"', 412), ("2", 412), ('"x"', 412), ("", 412), ('"2"', 200)],
    )
    def test_if_match_as_http_has_it(self, shop, api, live, tag, status):
        assert api(shop).patch(path(live), {"name": "x"}, HTTP_IF_MATCH=tag).status_code == status

    def test_a_draft_is_kept_with_its_faults(self, shop, api, live):
        answer = api(shop).put(path(live, "/draft"), {"trigger": {"kind": "x"}, "steps": [{}]})
        assert answer.status_code == 200
        assert set(answer.json()) == {"faults", "warnings"}
        assert "/trigger/kind" in [fault["pointer"] for fault in answer.json()["faults"]]
        assert answer["ETag"] == '"3"'
        assert api(shop).post(path(live, "/publish")).status_code == 400
        stale = api(shop).put(path(live, "/draft"), {"trigger": {}, "steps": []}, HTTP_IF_MATCH='"2"')
        assert stale.status_code == 412

    def test_publish_pause_resume(self, shop, api):
        program = api(shop)
        made = program.post(LIST, trees.orders()).json()
        address = f"{LIST}/{made['id']}"
        published = program.post(f"{address}/publish").json()
        assert (published["id"], published["state"], published["version"]) == (made["id"], "active", 1)
        assert published["unpublishedChanges"] is False
        assert program.post(f"{address}/pause").json()["state"] == "paused"
        assert program.post(f"{address}/resume").json()["state"] == "active"

    def test_pausing_a_draft_is_409(self, shop, api):
        draft = services.create(shop, JANA, trees.orders()).automation
        assert api(shop).post(path(draft, "/pause")).status_code == 409

    def test_deleting(self, shop, api, live):
        assert api(shop).delete(path(live)).status_code == 204
        assert api(shop).get(path(live)).status_code == 404

    def test_a_connection_that_a_tree_uses_is_not_deleted(self, shop, api):
        connection = ConnectionFactory(tenant=shop, name="shop")
        automation = services.create(shop, JANA, trees.orders(steps=[trees.request()])).automation
        answer = api(shop).delete(f"/api/connections/{connection.public_id}")
        assert answer.status_code == 409
        assert answer.json()["usedBy"] == [f"automations/{automation.public_id}"]

    def test_changes_are_audited(self, shop, api, live):
        api(shop).patch(path(live), {"name": "New"})
        entry = AuditEntry.objects.of(shop).latest("pk")
        assert (entry.action, entry.actor["kind"], entry.after) == (
            "automation.changed",
            "token",
            {"name": "New"},
        )


class TestVersions:
    @pytest.fixture
    def second(self, live):
        services.save(live, JANA, {"steps": [trees.upsert(title="Other")]})
        return services.publish(live, JANA)

    def test_are_listed_newest_first(self, shop, api, second):
        results = api(shop).get(path(second, "/versions")).json()["results"]
        assert [(one["number"], one["createdBy"], one["published"]) for one in results] == [
            (2, "Jana", True),
            (1, "Jana", False),
        ]

    def test_one_has_its_tree(self, shop, api, second):
        told = api(shop).get(path(second, "/versions/1")).json()
        assert told["steps"] == [trees.upsert()]
        assert api(shop).get(path(second, "/versions/3")).status_code == 404

    def test_a_diff_is_against_the_one_before_or_what_is_asked_for(self, shop, api, second):
        services.save(second, JANA, {"steps": []})
        change = {
            "pointer": "/steps/0/inputs/title",
            "change": "changed",
            "id": "st_ticket",
            "from": "Order {{orderId}}",
            "to": "Other",
        }
        get = api(shop).get
        assert get(path(second, "/versions/2/diff")).json() == {"from": 1, "to": 2, "changes": [change]}
        back = get(path(second, "/versions/1/diff?against=2")).json()
        assert (back["from"], back["changes"][0]["to"]) == (2, "Order {{orderId}}")
        draft = get(path(second, "/versions/2/diff?against=draft")).json()
        assert (draft["from"], draft["changes"][0]["change"]) == ("draft", "added")
        first = get(path(second, "/versions/1/diff")).json()
        assert first["from"] is None
        assert {line["change"] for line in first["changes"]} == {"added"}
        for query in ("against=x", "against=-1", "other=1"):
            assert get(path(second, f"/versions/2/diff?{query}")).status_code == 400
        assert get(path(second, "/versions/2/diff?against=9")).status_code == 404

    def test_one_becomes_the_draft_again(self, shop, api, second):
        told = api(shop).post(path(second, "/versions/1/restore")).json()
        assert (told["version"], told["steps"], told["unpublishedChanges"]) == (2, [trees.upsert()], True)
        stale = api(shop).post(path(second, "/versions/1/restore"), HTTP_IF_MATCH='"1"')
        assert stale.status_code == 412


class TestWebhook:
    @pytest.mark.parametrize("role", ["agent", "admin"])
    def test_who_works_sees_the_whole_address(self, shop, api, live, role, settings):
        told = api(shop, role).get(path(live, "/webhook")).json()
        assert set(told) == {"method", "url", "params", "sample", "curl"}
        assert told["method"] == "POST"
        assert told["url"] == f"{settings.CSBOT_PUBLIC_URL}/webhook/{tokens.current(live)}"
        assert told["url"] in told["curl"]
        assert told["sample"] == {"data": {"order": {"id": "orderId"}}}
        assert told["params"] == [trees.ORDER_PARAM]

    def test_who_only_reads_does_not(self, shop, api, live):
        answer = api(shop, "viewer").get(path(live, "/webhook"))
        assert answer.json()["url"].endswith("/webhook/•••")
        assert tokens.current(live).encode() not in answer.content

    def test_there_is_none_for_other_triggers(self, shop, api):
        manual = services.create(shop, JANA, trees.orders(trigger={"kind": "manual"}, steps=[])).automation
        for role in ("viewer", "admin"):
            assert api(shop, role).get(path(manual, "/webhook")).status_code == 404
        assert api(shop).post(path(manual, "/webhook/rotate")).status_code == 404

    def test_rotating_answers_with_the_new_address(self, shop, api, live):
        older = tokens.current(live)
        told = api(shop).post(path(live, "/webhook/rotate"), {"overlapSec": 60}).json()
        assert told["url"].endswith(tokens.current(live))
        assert tokens.current(live) != older
        assert services.webhook_of(older)
        api(shop).post(path(live, "/webhook/rotate"), {"overlapSec": 0})
        assert services.webhook_of(older) is None

    @pytest.mark.parametrize("seconds", [-1, 2_592_001, "x", 1.5, None])
    def test_an_overlap_has_limits(self, shop, api, live, seconds):
        answer = api(shop).post(path(live, "/webhook/rotate"), {"overlapSec": seconds})
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["pointer"] == "/overlapSec"

    def test_a_repeated_rotation_neither_rotates_twice_nor_tells_the_address_again(self, shop, api, live):
        program = api(shop)
        first = program.post(path(live, "/webhook/rotate"), {}, HTTP_IDEMPOTENCY_KEY="k1")
        again = program.post(path(live, "/webhook/rotate"), {}, HTTP_IDEMPOTENCY_KEY="k1")
        assert first.json()["url"].endswith(tokens.current(live))
        assert (again.json()["url"], again.json()["curl"]) == (None, None)


class TestExchange:
    def test_an_export_carries_names_instead_of_ids_and_no_secret(self, shop, api):
        connection = ConnectionFactory(tenant=shop, name="shop")
        kind = TicketType.objects.of(shop).get(key="order")
        steps = [trees.upsert(type=str(kind.public_id)), trees.request(connection=str(connection.public_id))]
        raw = trees.orders(trigger=trees.signed("canary"), steps=steps)
        automation = services.create(shop, JANA, raw).automation
        told = api(shop, "viewer").get(path(automation, "/export")).json()
        assert told == {
            "format": "csbot.automation/1",
            "name": "Orders",
            "trigger": trees.signed("•••"),
            "steps": [trees.upsert(), trees.request()],
            "connections": [{"name": "shop", "provider": "http"}],
        }

    def test_an_import_is_a_draft_whose_connections_are_found_by_name(self, shop, stranger, api):
        ConnectionFactory(tenant=shop, name="shop")
        automation = services.create(shop, JANA, trees.orders(steps=[trees.request()])).automation
        services.publish(automation, JANA)
        exported = api(shop).get(path(automation, "/export")).json()
        missing = api(stranger).post(f"{LIST}/import", exported)
        assert missing.status_code == 201
        assert missing.json()["state"] == "draft"
        assert [fault["pointer"] for fault in missing.json()["faults"]] == ["/steps/0/connection"]
        ConnectionFactory(tenant=stranger, name="shop")
        found = api(stranger).post(f"{LIST}/import", exported).json()
        assert (found["state"], found["version"], found["faults"]) == ("draft", None, [])
        assert found["id"] != exported.get("id")

    def test_an_import_asks_for_the_secrets(self, shop, stranger, api):
        automation = services.create(
            shop, JANA, trees.orders(trigger=trees.signed("canary"), steps=[])
        ).automation
        exported = api(shop).get(path(automation, "/export")).json()
        told = api(stranger).post(f"{LIST}/import", exported).json()
        assert [fault["code"] for fault in told["faults"]] == ["secret.missing"]

    @pytest.mark.parametrize(
        ("change", "pointer"),
        [
            ({"format": "csbot.automation/2"}, "/format"),
            ({"surplus": 1}, "/surplus"),
            ({"steps": 7}, "/steps"),
        ],
    )
    def test_what_is_no_export_is_refused(self, shop, api, change, pointer):
        answer = api(shop).post(f"{LIST}/import", {**trees.orders(), **change})
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["pointer"] == pointer
