"""Trying a draft: what each step would do, which tickets would change, where versions differ; nothing changes."""

import psycopg
import pytest
from django.db import connection

from automations import services as automations
from incidents.models import Incident
from runtime.models import Run, RunLog, RunStep
from tests.factories import ConnectionFactory, TicketFactory
from tests.stub_service import Reply
from tickets.events import SYSTEM
from tickets.models import Person, Ticket, TicketCounter, TicketEvent

pytestmark = pytest.mark.django_db(transaction=True)

ORDER = {"id": "f_id", "name": "orderId", "path": "id", "type": "string", "required": True}
WEBHOOK = {"kind": "webhook", "params": [ORDER]}
NEW = {"externalId": "{{orderId}}", "title": "Order {{orderId}}", "type": "order", "status": "new"}


def action(id: str, op: str, inputs: dict, **more) -> dict:
    return {"id": id, "type": "action", "op": op, "inputs": inputs, **more}


def upsert(id: str = "st_1", **inputs) -> dict:
    return action(id, "ticket/upsert", {**NEW, **inputs})


def set_name(id: str, name: str, value) -> dict:
    return action(id, "data/set", {"name": name, "value": value})


def request_step(id: str = "st_2", **inputs) -> dict:
    return action(id, "http/request", {"method": "POST", "path": "/orders", **inputs}, connection="shop")


def when(id: str, *rules: tuple, then=(), otherwise=(), match: str = "all") -> dict:
    told = [dict(zip(("fieldId", "operator", "value"), rule, strict=False)) for rule in rules]
    return {
        "id": id,
        "type": "condition",
        "match": match,
        "rules": told,
        "then": list(then),
        "else": list(otherwise),
    }


def loop(id: str, items, *steps: dict) -> dict:
    return {"id": id, "type": "loop", "items": items, "as": "item", "steps": list(steps)}


@pytest.fixture
def draft(shop):
    """`draft(steps, trigger)` makes an automation that was never published."""

    def make(steps, trigger=None, name="Orders"):
        return automations.create(
            shop, SYSTEM, {"name": name, "trigger": trigger or WEBHOOK, "steps": steps}
        ).automation

    return make


@pytest.fixture
def edit():
    """`edit(automation, steps)` changes the draft and leaves what is published."""

    def change(automation, steps, **more):
        return automations.save(automation, SYSTEM, {"steps": steps, **more}).automation

    return change


@pytest.fixture
def http(shop, service):
    ConnectionFactory(tenant=shop, name="shop", config={"baseUrl": service.url})
    return service


@pytest.fixture
def try_out(api, shop):
    """`try_out(automation, body)` answers the test's JSON; keywords are sent instead of a body."""

    def post(automation, body=None, *, language="en", status=200, **asked):
        asked = {**asked, "body": body} if body is not None else asked
        answer = api(shop, "agent").post(
            f"/api/automations/{automation.public_id}/test", asked, headers={"Accept-Language": language}
        )
        assert answer.status_code == status, answer.content
        return answer.json()

    return post


def steps_of(answer, run: int = 0) -> dict:
    return {step["path"]: step for step in answer["runs"][run]["steps"]}


def everything() -> list:
    tables = (Ticket, TicketEvent, TicketCounter, Run, RunStep, RunLog, Incident, Person)
    return [list(table.objects.order_by("pk").values()) for table in tables]


def test_a_draft_that_was_never_published_tells_what_it_would_do(draft, try_out):
    automation = draft(
        [upsert(tags=["waiting"]), action("st_2", "ticket/assign-least-busy", {"group": "warehouse"})]
    )
    before = everything()
    answer = try_out(automation, {"id": "5001"})
    assert everything() == before
    assert answer["differences"] == []
    first, second = answer["runs"][0]["steps"]
    assert set(first) == {"stepId", "path", "op", "status", "inputs", "effect", "message"}
    assert (first["stepId"], first["path"], first["op"]) == ("st_1", "st_1", "ticket/upsert")
    assert first["status"] == "would"
    assert first["inputs"]["title"] == "Order 5001"
    assert first["effect"].startswith("Creates a ticket: Title: – → Order 5001")
    assert first["message"] is None
    assert "Assignee: – → " in second["effect"]
    (ticket,) = answer["runs"][0]["tickets"]
    assert ticket["number"] is None
    assert ticket["changes"]["title"] == {"from": None, "to": "Order 5001"}
    assert ticket["changes"]["assignee"]["to"]["name"] in {"Jana", "Karel", "Lenka"}


def test_an_existing_ticket_is_changed_in_the_answer_only(draft, try_out, shop):
    ticket = TicketFactory(tenant=shop, external_id="5001", status=None)
    steps = [upsert(update=True, title="New"), action("st_2", "ticket/close", {}),
             action("st_3", "ticket/set-status", {"status": "handed over"}),
             action("st_4", "ticket/comment", {"text": "Done {{ticket.status}}", "public": True})]  # fmt: skip
    before = everything()
    answer = try_out(draft(steps), {"id": "5001"})
    assert everything() == before
    steps = steps_of(answer)
    assert steps["st_1"]["effect"].startswith(
        f"Writes the event into the log of {ticket.key}. Changes {ticket.key}"
    )
    assert steps["st_2"]["effect"] == f"Changes {ticket.key}: Closed."
    assert steps["st_4"]["effect"] == f"Writes a public reply to {ticket.key}: Done handed over"
    (changed,) = answer["runs"][0]["tickets"]
    assert changed["number"] == ticket.key
    assert changed["changes"]["status"] == {"from": None, "to": "handed over"}
    assert changed["changes"]["closed"] == {"from": False, "to": True}


def test_no_other_automation_is_started(draft, publish, try_out, shop):
    publish(shop, [action("st_1", "ticket/add-tags", {"tags": ["seen"]})], {"kind": "ticket"}, name="Watcher")
    try_out(draft([upsert()]), {"id": "1"})
    assert Run.objects.count() == 0


def test_branches_tell_why_and_skipped_ones_with_the_lines(draft, try_out):
    inner = when("st_3", ("_body.a", "isEmpty"), then=[set_name("st_4", "deep", 1)])
    automation = draft([when("st_1", ("_body.kind", "eq", "order"), then=[set_name("st_2", "way", "then"), inner],
                             otherwise=[set_name("st_5", "way", "else")])])  # fmt: skip
    answer = try_out(automation, {"id": "1", "kind": "error"})
    line = '_body.kind eq order: not met | _body.kind = "error", compared with "order"'
    steps = answer["runs"][0]["steps"]
    assert [(step["path"], step["status"]) for step in steps] == [
        ("st_1", "would"), ("st_2", "skipped"), ("st_3", "skipped"), ("st_4", "skipped"), ("st_5", "would")
    ]  # fmt: skip
    assert (steps[0]["effect"], steps[0]["message"]) == ("The condition is not met.", line)
    assert steps[0]["inputs"]["rules"][0]["actual"] == "error"
    assert {step["message"] for step in steps[1:4]} == {line}
    assert steps[4]["effect"] == "Names a value: way = else"


def test_it_reads_in_czech(draft, try_out):
    automation = draft(
        [upsert(), when("st_2", ("_body.kind", "isEmpty"), then=[action("st_3", "flow/stop", {})])]
    )
    steps = steps_of(try_out(automation, {"id": "1"}, language="cs"))
    assert steps["st_1"]["effect"].startswith("Založí ticket: Název: – → Order 1")
    assert steps["st_2"]["message"] == "_body.kind isEmpty: splněno | _body.kind = nedorazilo"
    assert steps["st_3"]["effect"] == "Ukončí běh jako hotový."


def test_loops_keep_paths_names_and_counts(draft, try_out):
    automation = draft(
        [
            loop("st_1", "{{_body.items}}", set_name("st_2", "sku", "{{item}}")),
            set_name("st_3", "last", "{{sku}}"),
        ]
    )
    steps = steps_of(try_out(automation, {"id": "1", "items": ["a", "b"]}))
    assert list(steps) == ["st_1", "st_1/0/st_2", "st_1/1/st_2", "st_3"]
    assert steps["st_1"]["effect"] == "Repeats its steps for 2 items."
    assert steps["st_3"]["inputs"]["value"] == "b"


def test_a_refused_body_names_what_is_missing(draft, try_out):
    problem = try_out(draft([upsert()]), {"other": 1}, status=400)
    assert problem["code"] == "contract"
    assert problem["missing"] == [{"param": "orderId", "path": "id", "type": "string"}]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (action("st_1", "flow/fail", {"message": "No {{orderId}}."}), "No 1."),
        (upsert(status="unheard of"), "unheard of"),
        (action("st_1", "ticket/close", {}), "There is no ticket"),
        (upsert(externalId="{{_body.nothing}}"), "externalId"),
        (loop("st_1", "{{_body.id}}", set_name("st_9", "x", 1)), "has to be an array"),
        (set_name("st_1", "x", "{{_body.id | number: 2 | date: 'Y'}}"), "expected a date"),
    ],
)
def test_a_step_that_would_fail_says_why_and_the_rest_is_not_reached(draft, try_out, step, why):
    answer = try_out(draft([step, set_name("st_8", "end", True)]), {"id": "1"})
    (told,) = answer["runs"][0]["steps"]
    assert told["status"] == "would"
    assert told["effect"].startswith("The step fails: ")
    assert why in told["message"]


def test_on_error_goes_on_as_a_run_would(draft, try_out):
    handled = {"steps": [set_name("st_2", "why", "{{error.message}}")]}
    steps = [action("st_1", "flow/fail", {"message": "No."}, onError=handled), set_name("st_3", "end", True)]
    told = steps_of(try_out(draft(steps), {"id": "1"}))
    assert list(told) == ["st_1", "st_2", "st_3"]
    assert told["st_2"]["inputs"]["value"] == "No."


def test_the_limit_of_steps_is_told(draft, try_out):
    automation = draft([loop("st_1", "{{_body.items}}", set_name("st_2", "n", "{{item}}"))])
    answer = try_out(automation, {"id": "1", "items": list(range(1001))})
    assert len(answer["runs"][0]["steps"]) == 1001
    assert "1000 executed steps" in answer["runs"][0]["steps"][-1]["message"]


# What only a call would tell


def test_nothing_is_called_and_what_depends_on_the_answer_says_so(draft, try_out, http):
    steps = [
        request_step(json={"id": "{{orderId}}"}),
        set_name("st_3", "remote", "{{st_2.body.id}}"),
        set_name("st_4", "text", "Number {{remote | default: 'x'}}"),
        upsert("st_5", externalId="{{st_2.body.id}}"),
        action("st_6", "ticket/close", {}),
    ]
    answer = try_out(draft(steps), {"id": "5001"})
    assert http.calls("/orders") == []
    told = steps_of(answer)
    assert told["st_2"]["effect"] == "Calls http/request over the connection shop; the test calls nothing."
    assert told["st_2"]["inputs"]["json"] == {"id": "5001"}
    assert told["st_3"]["inputs"]["value"] == "{{st_2.body.id}}"
    assert told["st_3"]["message"] == "It depends on st_2.body.id, which is not known in a test."
    assert told["st_4"]["inputs"]["value"] == "Number {{st_2.body.id}}"
    assert told["st_5"]["effect"].startswith("ticket/upsert depends on st_2.body.id")
    assert told["st_6"]["effect"].startswith("ticket/close depends on ticket,")
    assert answer["runs"][0]["tickets"] == []


def test_a_filter_over_an_unknown_value_leaves_it_as_written(draft, try_out, http):
    steps = [
        request_step(),
        set_name("st_3", "day", {"at": "{{st_2.body.day | date: 'Y'}}", "id": "{{orderId}}"}),
    ]
    told = steps_of(try_out(draft(steps), {"id": "1"}))
    assert told["st_3"]["inputs"]["value"] == {"at": "{{st_2.body.day | date: 'Y'}}", "id": "1"}


def test_of_an_undecided_condition_both_ways_are_shown_apart(draft, try_out, http):
    steps = [
        upsert(),
        request_step(),
        when("st_3", ("st_2.status", "eq", 200),
             then=[set_name("st_4", "way", "then"), action("st_5", "ticket/close", {})],
             otherwise=[set_name("st_6", "way", "else"), set_name("st_7", "is", "{{ticket.closed}}")]),
        set_name("st_8", "after", "{{way}}"),
        when("st_9", ("ticket.closed", "isTrue"), then=[action("st_10", "flow/stop", {})]),
    ]  # fmt: skip
    answer = try_out(draft(steps), {"id": "1"})
    told = steps_of(answer)
    assert told["st_3"]["message"] == "st_2.status eq 200: not known in a test | it depends on st_2.status"
    assert told["st_5"]["effect"].endswith("Closed.")
    assert told["st_5"]["message"] == "Only if the condition st_3 is met."
    assert told["st_7"]["inputs"]["value"] is False
    assert told["st_7"]["message"] == "Only if the condition st_3 is not met."
    assert told["st_8"]["inputs"]["value"] == "{{way}}"
    assert "ticket.closed" in told["st_9"]["message"]
    assert "closed" not in answer["runs"][0]["tickets"][0]["changes"]


@pytest.mark.parametrize(
    ("match", "operator", "way"), [("any", "isNotEmpty", "then"), ("all", "isEmpty", "else")]
)
def test_a_known_rule_can_decide_beside_an_unknown_one(draft, try_out, http, match, operator, way):
    decided = when("st_3", ("st_2.status", "eq", 200), ("orderId", operator), match=match,
                   then=[set_name("st_4", "way", "then")], otherwise=[set_name("st_5", "way", "else")])  # fmt: skip
    told = steps_of(try_out(draft([request_step(), decided]), {"id": "1"}))
    assert {
        step["inputs"]["value"]
        for step in told.values()
        if step["op"] == "data/set" and step["status"] == "would"
    } == {way}


def test_when_one_way_ends_the_run_what_follows_says_so(draft, try_out, http):
    ends = when("st_3", ("st_2.status", "eq", 404), then=[action("st_4", "flow/fail", {"message": "Gone."})])
    told = steps_of(try_out(draft([request_step(), ends, set_name("st_5", "n", 1)]), {"id": "1"}))
    assert told["st_4"]["message"] == "Only if the condition st_3 is met.\nGone."
    assert told["st_5"]["message"] == "Only if the run does not end in st_3."


def test_a_loop_over_an_answer_shows_one_pass(draft, try_out, http):
    steps = [
        request_step(),
        loop("st_3", "{{st_2.body.items}}", set_name("st_4", "sku", "{{item.sku}}")),
        set_name("st_5", "x", "{{sku}}"),
    ]
    told = steps_of(try_out(draft(steps), {"id": "1"}))
    assert "each item of st_2.body.items" in told["st_3"]["effect"]
    assert told["st_3/0/st_4"]["inputs"]["value"] == "{{item.sku}}"
    assert told["st_3/0/st_4"]["message"].startswith("Once for each item of the loop st_3.")
    assert told["st_5"]["inputs"]["value"] == "{{sku}}"


def test_a_missing_connection_is_told(draft, try_out, http):
    automation = draft([action("st_2", "http/request", {"path": "/x"}, connection="{{orderId}}")])
    told = steps_of(try_out(automation, {"id": "lost"}))
    assert "There is no connection 'lost'" in told["st_2"]["message"]


def test_waits_calls_sends_and_incidents_only_say_so(draft, publish, try_out, shop, http):
    publish(shop, [set_name("st_1", "n", 1)], name="Callee")
    steps = [
        action("st_1", "flow/wait", {"days": 2}),
        action("st_2", "flow/call", {"automation": "Callee", "inputs": {}}),
        set_name("st_3", "n", "{{st_2.outputs.n}}"),
        {**request_step("st_4"), "wait": False},
        action("st_5", "incident/create", {"title": "Look"}),
        action("st_6", "flow/log", {"message": "Hello"}),
        set_name("st_7", "id", "{{st_5.incident}}"),
    ]
    before = everything()
    told = steps_of(try_out(draft(steps), {"id": "1"}))
    assert everything() == before
    assert told["st_1"]["effect"].startswith("Waits until ")
    assert told["st_2"]["effect"] == "Starts the automation Callee; the test starts nothing."
    assert told["st_3"]["inputs"]["value"] == "{{st_2.outputs.n}}"
    assert told["st_4"]["effect"].startswith("Puts a call of http/request over shop into the queue")
    assert told["st_5"]["effect"] == "Opens an incident: Look"
    assert told["st_6"]["effect"] == "Writes into the log: Hello"
    assert told["st_7"]["inputs"]["value"] == "{{st_5.incident}}"


def test_a_ticket_that_stays_locked_is_waited_for_but_not_long(shop, draft, try_out):
    ticket = TicketFactory(tenant=shop, external_id="5001")
    automation = draft([upsert(update=True, title="New")])
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT 1 FROM tickets_ticket WHERE id = %s FOR UPDATE", [ticket.pk])
        assert try_out(automation, {"id": "5001"}, status=503)["code"] == "test.busy"
        other.rollback()
    assert steps_of(try_out(automation, {"id": "5001"}))["st_1"]["status"] == "would"


def test_a_test_that_takes_too_long_ends_and_says_so(draft, try_out, monkeypatch):
    monkeypatch.setattr("runtime.execution.dryrun.LONGEST_SECONDS", 0.0)
    (told,) = try_out(draft([upsert()]), {"id": "1"})["runs"][0]["steps"]
    assert (told["status"], told["effect"]) == (
        "skipped",
        "The test of this event was stopped after 0 seconds.",
    )


# Stored events


def test_a_stored_run_is_tried_with_the_answers_that_it_got(
    shop, publish, enqueue, execute, edit, try_out, http
):
    http.script("/orders", Reply(json={"id": 7}))
    automation = publish(shop, [request_step()], WEBHOOK)
    run = execute(enqueue(automation, {"id": "1"}, trigger="webhook"))
    edit(automation, [request_step(), set_name("st_3", "remote", "{{st_2.body.id}}")])
    answer = try_out(automation, runId=str(run.public_id))
    assert answer["runs"][0]["runId"] == str(run.public_id)
    told = steps_of(answer)
    assert told["st_2"]["message"] == "The answer recorded in the run was used."
    assert told["st_3"]["inputs"]["value"] == 7
    assert len(http.calls("/orders")) == 1


def test_the_last_events_newest_first_and_where_no_event_goes(shop, publish, enqueue, try_out):
    tree = [
        when(
            "st_1",
            ("_body.kind", "eq", "order"),
            then=[set_name("st_2", "n", 1)],
            otherwise=[set_name("st_3", "n", 2)],
        ),
        when("st_4", ("_body.kind", "eq", "ordr"), then=[set_name("st_5", "n", 3)]),
        loop("st_6", "{{_body.items}}", set_name("st_7", "x", 1)),
    ]
    automation = publish(shop, tree, WEBHOOK)
    runs = [
        enqueue(automation, {"id": "1", "kind": kind}, trigger="webhook")
        for kind in ("order", "error", "order")
    ]
    answer = try_out(automation, last=2)
    assert [run["runId"] for run in answer["runs"]] == [str(run.public_id) for run in reversed(runs[1:])]
    assert answer["neverTaken"] == ["/steps/1/then", "/steps/2/steps"]
    assert try_out(automation, last=1)["neverTaken"] == ["/steps/0/else", "/steps/1/then", "/steps/2/steps"]


def test_a_stored_event_that_the_draft_refuses_is_told_in_its_run(shop, publish, enqueue, edit, try_out):
    automation = publish(shop, [upsert()], WEBHOOK)
    enqueue(automation, {"id": "1"}, trigger="webhook")
    more = {"name": "total", "path": "total", "type": "number", "required": True}
    edit(automation, [upsert()], trigger={"kind": "webhook", "params": [ORDER, more]})
    answer = try_out(automation, last=5, against="published")
    assert answer["runs"][0]["steps"] == []
    assert answer["runs"][0]["missing"] == [{"param": "total", "path": "total", "type": "number"}]
    assert answer["differences"][0]["published"] is None
    assert answer["differences"][0]["draft"]["missing"][0]["param"] == "total"


def test_a_ticket_run_is_tried_on_the_present_ticket(shop, draft, try_out):
    ticket = TicketFactory(tenant=shop, status="new")
    steps = [
        when(
            "st_1", ("status", "changedTo", "new"), then=[action("st_2", "ticket/add-tags", {"tags": ["a"]})]
        )
    ]
    automation = draft(steps, {"kind": "ticket", "on": ["changed"]})
    body = {"ticket": ticket.key, "changes": {"status": {"from": None, "to": "new"}}}
    answer = try_out(automation, body)
    assert steps_of(answer)["st_2"]["effect"] == f"Changes {ticket.key}: Tags: – → a."
    assert try_out(automation, {"ticket": "TK-999"}, status=400)["errors"][0]["pointer"] == "/body/ticket"


# Beside the published version


def test_equal_versions_differ_nowhere(shop, publish, enqueue, try_out, http):
    steps = [upsert(), action("st_2", "flow/wait", {"seconds": 5}), request_step("st_3", json={"t": "{{ticket}}"}),
             action("st_4", "incident/create", {"title": "{{st_1.ticket.updatedAt}}"}),
             action("st_5", "ticket/assign-least-busy", {"group": "it"})]  # fmt: skip
    automation = publish(shop, steps, WEBHOOK)
    for number in range(3):
        enqueue(automation, {"id": str(number)}, trigger="webhook")
    assert try_out(automation, last=50, against="published")["differences"] == []


def test_differences_by_run_and_path(shop, publish, enqueue, edit, try_out):
    ways = {"then": [set_name("st_2", "n", 1)], "otherwise": [set_name("st_3", "n", 2)]}
    automation = publish(shop, [when("st_1", ("_body.total", "gt", 100), **ways), upsert("st_4")], WEBHOOK)
    small, large = (enqueue(automation, {"id": "1", "total": n}, trigger="webhook") for n in (60, 900))
    edit(automation, [when("st_1", ("_body.total", "gt", 50), **ways), upsert("st_4", title="Hello")])
    found = {
        (one["runId"], one["path"]): one
        for one in try_out(automation, last=9, against="published")["differences"]
    }
    assert found.keys() == {
        (str(large.public_id), "st_4"), *((str(small.public_id), path) for path in ("st_1", "st_2", "st_3", "st_4"))
    }  # fmt: skip
    branch = found[(str(small.public_id), "st_1")]
    assert branch["published"]["effect"] == "The condition is not met."
    assert branch["draft"]["effect"] == "The condition is met."
    title = found[(str(large.public_id), "st_4")]
    assert (title["published"]["inputs"]["title"], title["draft"]["inputs"]["title"]) == ("Order 1", "Hello")


def test_without_a_published_version_there_is_nothing_to_compare(draft, try_out):
    problem = try_out(draft([upsert()]), {"id": "1"}, against="published", status=409)
    assert problem["code"] == "automation.draft"
