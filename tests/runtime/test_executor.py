"""A run from claim to outcome: steps, branches, loops, errors, waiting, calls and sends, against the real database."""

import pytest

from connectors.models import Connection as ConnectionModel
from csbot.lib import database_clock, json
from csbot.lib.errors import RequestRefused
from incidents.models import Incident
from runtime import services
from runtime.execution import worker
from runtime.models import Run, RunLog, RunStep
from runtime.queue import states
from runtime.queue.claim import Claimer
from tests.factories import ConnectionFactory
from tests.stub_service import Reply
from tickets.events import SYSTEM
from tickets.models import Ticket, TicketEvent

pytestmark = pytest.mark.django_db(transaction=True)

UPSERT = {
    "id": "st_1",
    "type": "action",
    "op": "ticket/upsert",
    "inputs": {"externalId": "{{_body.id}}", "title": "Order {{_body.id}}"},
}


def action(id: str, op: str, inputs: dict, **more) -> dict:
    return {"id": id, "type": "action", "op": op, "inputs": inputs, **more}


def set_name(id: str, name: str, value, **more) -> dict:
    return action(id, "data/set", {"name": name, "value": value}, **more)


def when(id: str, field: str, operator: str, value=None, then=(), otherwise=()) -> dict:
    rule = {"fieldId": field, "operator": operator} | ({} if value is None else {"value": value})
    return {
        "id": id,
        "type": "condition",
        "match": "all",
        "rules": [rule],
        "then": list(then),
        "else": list(otherwise),
    }


def steps_of(run: Run) -> list[tuple[str, str]]:
    return list(RunStep.objects.filter(run=run).order_by("seq").values_list("path", "state"))


@pytest.fixture
def http(shop, service):
    """A connection to the foreign service of this test."""
    ConnectionFactory(tenant=shop, name="shop", config={"baseUrl": service.url})
    return service


def request_step(id: str = "st_2", method: str = "POST", path: str = "/orders", **more) -> dict:
    inputs = {"method": method, "path": path, **more.pop("inputs", {})}
    return action(id, "http/request", inputs, connection="shop", **more)


def test_a_run_makes_a_ticket_and_logs_it(shop, publish, enqueue, execute):
    run = execute(enqueue(publish(shop, [UPSERT]), {"id": "5001"}))
    assert run.status == Run.Status.DONE
    assert run.ticket.external_id == "5001"
    assert run.actions == 1
    created, event = TicketEvent.objects.of(shop).order_by("id")
    assert (created.kind, created.actor_kind, created.run_id) == ("created", "automation", run.public_id)
    assert event.kind == "event"


def test_branches_and_conditions_say_what_they_compared(shop, publish, enqueue, execute):
    tree = [
        when("st_1", "_body.result", "eq", "Missing data", [set_name("st_2", "way", "then")],
             [set_name("st_3", "way", "else")])
    ]  # fmt: skip
    run = execute(enqueue(publish(shop, tree), {"result": "Redirected"}))
    assert steps_of(run) == [("st_1", "done"), ("st_3", "done")]
    rule = RunStep.objects.get(run=run, path="st_1").rules[0]
    assert (rule["actual"], rule["arrived"], rule["met"]) == ("Redirected", True, False)


def test_a_loop_counts_every_step_and_keeps_the_last_value(shop, publish, enqueue, execute):
    tree = [
        {"id": "st_1", "type": "loop", "items": "{{_body.items}}", "as": "item",
         "steps": [set_name("st_2", "sku", "{{item.sku}}")]},
        set_name("st_3", "last", "{{sku}}"),
    ]  # fmt: skip
    run = execute(enqueue(publish(shop, tree), {"items": [{"sku": "a"}, {"sku": "b"}]}))
    assert steps_of(run) == [
        ("st_1", "done"),
        ("st_1/0/st_2", "done"),
        ("st_1/1/st_2", "done"),
        ("st_3", "done"),
    ]
    assert RunStep.objects.get(run=run, path="st_3").output == {"name": "last", "value": "b"}
    assert run.actions == 4


@pytest.mark.parametrize(("items", "status"), [(None, 4), ([], 4), ("x", 5), ({"a": 1}, 5), (7, 5)])
def test_items_of_a_loop(shop, publish, enqueue, execute, items, status):
    tree = [{"id": "st_1", "type": "loop", "items": "{{_body.items}}", "as": "item", "steps": []}]
    run = execute(enqueue(publish(shop, tree), {"items": items}))
    assert run.status == status
    if status == 5:
        assert run.error["code"] == "input.invalid"


def test_the_limit_of_steps_fails_loudly_and_repeats_nothing(shop, publish, enqueue, execute):
    loop = {"id": "st_1", "type": "loop", "items": "{{_body.items}}", "as": "item",
            "steps": [set_name("st_2", "n", "{{item}}")]}  # fmt: skip
    run = execute(enqueue(publish(shop, [loop]), {"items": list(range(1000))}))
    assert run.status == Run.Status.FAILED
    assert run.error["code"] == "limit.actions"
    assert run.actions == 1000
    written = list(RunStep.objects.filter(run=run).values_list("pk", "claim_no"))
    services.retry(run, SYSTEM)
    run = execute(run)
    assert run.error["code"] == "limit.actions"
    assert list(RunStep.objects.filter(run=run).values_list("pk", "claim_no")) == written


def test_a_step_never_overwrites_a_name_of_the_trigger(shop, publish, enqueue, execute, http):
    http.script("/orders", Reply(json={"ok": True}))
    params = [{"id": "f_status", "name": "status", "path": "status", "type": "string"}]
    tree = [
        request_step(method="GET"),
        set_name("st_3", "a", "{{status}}"),
        set_name("st_4", "b", "{{st_2.status}}"),
    ]
    automation = publish(shop, tree, {"kind": "manual", "params": params})
    run = execute(enqueue(automation, {"status": "paid"}))
    assert RunStep.objects.get(run=run, path="st_3").output["value"] == "paid"
    assert RunStep.objects.get(run=run, path="st_4").output["value"] == 200


def test_what_is_finished_is_not_repeated(shop, publish, enqueue, execute, http, settings):
    settings.CSBOT_BACKOFF = [0, 0, 0, 0, 0]
    http.script("/orders", Reply(status=503), Reply(status=503), Reply(json={"n": 1}))
    run = enqueue(publish(shop, [UPSERT, request_step()]), {"id": "5001"})
    for attempts in (1, 2):
        run = execute(run)
        assert (run.status, run.attempts) == (Run.Status.SCHEDULED, attempts)
        states.stage_due()
    run = execute(run)
    assert run.status == Run.Status.DONE
    calls = http.calls("/orders")
    assert len(calls) == 3
    assert len({call.headers["idempotency-key"] for call in calls}) == 1
    assert TicketEvent.objects.of(shop).filter(kind="event").count() == 1


def test_the_fifth_failure_is_the_last(shop, publish, enqueue, execute, http, settings):
    settings.CSBOT_BACKOFF = [0, 0, 0, 0, 0]
    http.script("/orders", Reply(status=503))
    run = enqueue(publish(shop, [request_step()]), {})
    for _ in range(5):
        run = execute(run)
        states.stage_due()
    assert (run.status, run.attempts) == (Run.Status.FAILED, 5)
    assert len(http.calls("/orders")) == 5
    assert run.incident is not None
    assert Incident.objects.of(shop).count() == 1


@pytest.mark.parametrize(
    ("on_error", "expected"),
    [
        ("continue", [("st_2", "failed"), ("st_9", "done")]),
        ({"steps": [set_name("st_3", "why", "{{error.message}}")]},
         [("st_2", "failed"), ("st_3", "done"), ("st_9", "done")]),
    ],
)  # fmt: skip
def test_on_error_acts_after_the_last_attempt(shop, publish, enqueue, execute, http, on_error, expected):
    http.script("/orders", Reply(status=404))
    tree = [request_step(onError=on_error), set_name("st_9", "end", True)]
    run = execute(enqueue(publish(shop, tree), {}))
    assert run.status == Run.Status.DONE
    assert steps_of(run) == expected
    assert run.incident is None


def test_an_unknown_outcome_is_left_to_a_person(shop, publish, enqueue, execute, http):
    http.script("/orders", Reply(then="reset", raw=b""))
    automation = publish(shop, [request_step(), set_name("st_9", "id", "{{st_2.body.id}}")])
    run = execute(enqueue(automation, {}))
    assert run.status == Run.Status.UNCERTAIN
    assert run.incident.status == "open"
    services.resolve(run, SYSTEM, "happened", {"body": {"id": 7}, "status": 200, "headers": {}})
    run = execute(run)
    assert run.status == Run.Status.DONE
    assert RunStep.objects.get(run=run, path="st_9").output["value"] == 7
    assert len(http.calls("/orders")) == 1
    run.incident.refresh_from_db()
    assert run.incident.status == "resolved"


@pytest.fixture
def in_review(shop, publish, enqueue, execute, http) -> Run:
    """A run whose call nobody knows the outcome of."""
    http.script("/orders", Reply(then="reset", raw=b""))
    return execute(enqueue(publish(shop, [request_step()]), {}))


@pytest.mark.parametrize(
    ("outputs", "pointers"),
    [
        ({"code": 200}, ["/outputs/code"]),
        ({"status": "200"}, ["/outputs/status"]),
        ({"status": True}, ["/outputs/status"]),
        ({"status": None}, ["/outputs/status"]),
        ({"status": 200, "headers": []}, ["/outputs/headers"]),
        ({"headers": {"x": 7, "y": 8}}, ["/outputs/headers"]),
        ({"a/b": 1, "status": [], "body": 1}, ["/outputs/a~1b", "/outputs/status"]),
    ],
)
def test_outputs_that_the_operation_cannot_have_are_refused(shop, api, in_review, outputs, pointers):
    body = {"decision": "happened", "outputs": outputs}
    response = api(shop, "agent").post(f"/api/runs/{in_review.public_id}/resolve", body)
    assert response.status_code == 400
    assert sorted(fault["pointer"] for fault in response.json()["errors"]) == pointers
    in_review.refresh_from_db()
    assert in_review.status == Run.Status.UNCERTAIN
    assert RunStep.objects.get(run=in_review).state == RunStep.State.UNKNOWN


@pytest.mark.parametrize("outputs", [None, {}, {"status": 201}, {"body": None}, {"headers": {"x": "7"}}])
def test_outputs_may_be_some_of_the_operations(shop, api, in_review, outputs):
    body = {"decision": "happened"} if outputs is None else {"decision": "happened", "outputs": outputs}
    response = api(shop, "agent").post(f"/api/runs/{in_review.public_id}/resolve", body)
    assert (response.status_code, response.json()["status"]) == (200, "queued")
    assert RunStep.objects.get(run=in_review).output == (outputs or {})


def test_doing_it_again_is_a_decision(shop, publish, enqueue, execute, http):
    http.script("/orders", Reply(then="reset", raw=b""), Reply(json={"id": 7}))
    run = execute(enqueue(publish(shop, [request_step()]), {}))
    run = services.resolve(run, SYSTEM, "again")
    assert execute(run).status == Run.Status.DONE
    assert len(http.calls("/orders")) == 2


def test_giving_up_fails_and_a_later_retry_asks_again(shop, publish, enqueue, execute, http):
    http.script("/orders", Reply(then="reset", raw=b""))
    run = execute(enqueue(publish(shop, [request_step()]), {}))
    run = services.resolve(run, SYSTEM, "giveUp")
    assert run.status == Run.Status.FAILED
    run = execute(services.retry(run, SYSTEM))
    assert run.status == Run.Status.UNCERTAIN
    assert len(http.calls("/orders")) == 1


@pytest.mark.parametrize(
    ("method", "key", "status", "calls"),
    [
        ("POST", None, Run.Status.UNCERTAIN, 0),
        ("POST", "order-1", Run.Status.DONE, 1),
        ("GET", None, Run.Status.DONE, 1),
    ],
)
def test_a_worker_that_died_during_a_call(shop, publish, enqueue, execute, http, method, key, status, calls):
    """The intent is on disk, the outcome is not: only a call that may be repeated is repeated."""
    inputs = {"idempotencyKey": key} if key else {}
    run = enqueue(publish(shop, [request_step(method=method, inputs=inputs)]), {})
    claimed = Claimer("test").next_run()
    RunStep.objects.create(
        tenant=shop, run=run, path="st_2", seq=1, step_id="st_2", op="http/request", type="action",
        state="started", claim_no=claimed.claim_no, idempotency_key=key or f"{run.public_id}:st_2",
    )  # fmt: skip
    states.release(claimed)
    assert execute(run).status == status
    assert len(http.calls("/orders")) == calls


def test_a_429_never_costs_an_attempt(shop, publish, enqueue, execute, http):
    http.script("/orders", Reply(status=429, headers={"Retry-After": "40"}), Reply(json={}))
    run = execute(enqueue(publish(shop, [request_step()]), {}))
    assert (run.status, run.attempts, run.wait_reason) == (Run.Status.SCHEDULED, 0, "rate")
    assert run.due_at >= database_clock.in_seconds(35)


def test_a_wait_holds_no_worker(shop, publish, enqueue, execute):
    tree = [action("st_1", "flow/wait", {"days": 2}), set_name("st_2", "end", True)]
    run = execute(enqueue(publish(shop, tree), {}))
    assert (run.status, run.wait_reason) == (Run.Status.SCHEDULED, "wait")
    begun = RunStep.objects.get(run=run, path="st_1").output["until"]
    past = database_clock.in_seconds(-1)
    Run.objects.filter(pk=run.pk).update(due_at=past)
    RunStep.objects.filter(run=run).update(output={"until": past.isoformat()})
    states.stage_due()
    assert begun > past.isoformat()
    assert execute(run).status == Run.Status.DONE


def test_flow_stop_and_fail_end_a_run(shop, publish, enqueue, execute):
    stop = [action("st_1", "flow/stop", {"message": "Enough."}), set_name("st_2", "end", True)]
    run = execute(enqueue(publish(shop, stop), {}))
    assert (run.status, steps_of(run)) == (Run.Status.DONE, [("st_1", "done")])
    fail = [action("st_1", "flow/fail", {"message": "No {{_body.id}}."})]
    run = execute(enqueue(publish(shop, fail), {"id": "7"}))
    assert run.error == {"code": "flow.fail", "message": "No 7.", "stepId": "st_1", "retryable": False}


def test_a_call_gives_back_names_of_the_called(shop, publish, enqueue, execute):
    params = [{"id": "f_n", "name": "n", "path": "n", "type": "integer", "required": True}]
    publish(
        shop, [set_name("st_1", "double", "{{n}}{{n}}")], {"kind": "manual", "params": params}, name="Double"
    )
    caller = publish(
        shop,
        [action("st_1", "flow/call", {"automation": "Double", "inputs": {"n": "{{_body.n}}"}}),
         set_name("st_2", "answer", "{{st_1.outputs.double}}")],
        name="Caller",
    )  # fmt: skip
    run = execute(enqueue(caller, {"n": "4"}))
    assert run.status == Run.Status.DONE, run.error
    assert RunStep.objects.get(run=run, path="st_2").output["value"] == "44"
    callee = Run.objects.of(shop).get(trigger="call")
    assert (callee.caused_by_id, callee.depth) == (run.pk, 2)


def test_a_failed_callee_fails_the_step(shop, publish, enqueue, execute):
    publish(shop, [action("st_1", "flow/fail", {"message": "No."})], name="Callee")
    caller = publish(
        shop, [action("st_1", "flow/call", {"automation": "Callee", "inputs": {}})], name="Caller"
    )
    run = execute(enqueue(caller, {}))
    assert run.status == Run.Status.FAILED
    assert run.error["code"] == "flow.fail"


def test_cancelling_a_caller_cancels_what_it_called(shop, publish, enqueue, execute):
    publish(shop, [action("st_1", "flow/wait", {"days": 2})], name="Callee")
    caller = publish(
        shop, [action("st_1", "flow/call", {"automation": "Callee", "inputs": {}})], name="Caller"
    )
    run = execute(enqueue(caller, {}))
    assert (run.status, run.wait_reason) == (Run.Status.BLOCKED, "wait")
    services.cancel(run, SYSTEM)
    assert Run.objects.of(shop).get(trigger="call").status == Run.Status.CANCELLED


def test_a_send_is_a_run_of_its_own(shop, publish, enqueue, execute, http):
    hostile = "{{_body.secret}}"
    step = request_step(wait=False, inputs={"json": {"text": "{{_body.text}}"}})
    run = execute(enqueue(publish(shop, [step]), {"text": hostile, "secret": "no"}))
    assert run.status == Run.Status.DONE
    sent = Run.objects.of(shop).get(trigger="send")
    assert (sent.status, sent.caused_by_id) == (Run.Status.DONE, run.pk)
    assert http.calls("/orders")[0].json == {"text": hostile}


def test_a_fault_in_code_is_a_bug_and_tells_staff_only(shop, publish, enqueue, execute, monkeypatch):
    automation = publish(shop, [UPSERT])

    def broken(*_args, **_kwargs):
        raise KeyError("boom")

    monkeypatch.setattr("tickets.services.upsert", broken)
    run = execute(enqueue(automation, {"id": "1"}))
    assert run.error["code"] == "bug"
    assert "boom" not in json.dumps(run.error)
    assert "KeyError" in run.incident.detail["trace"]["traceback"]
    assert Ticket.objects.of(shop).count() == 0


def test_a_paused_automation_fails_its_runs_with_one_incident(shop, publish, enqueue, execute):
    automation = publish(shop, [UPSERT])
    runs = [enqueue(automation, {"id": str(n)}) for n in range(3)]
    automation.state = "paused"
    automation.save()
    assert {execute(run).error["code"] for run in runs} == {"automation.paused"}
    assert Incident.objects.of(shop).get().count == 3


def test_a_draining_worker_hands_the_run_back(shop, publish, enqueue, monkeypatch):
    run = enqueue(publish(shop, [UPSERT, set_name("st_2", "end", True)]), {"id": "1"})
    claimed = Claimer("test").next_run()
    answers = iter([False, True])
    monkeypatch.setattr("runtime.queue.draining.has_begun", lambda: next(answers))
    worker.run_one(claimed)
    run.refresh_from_db()
    assert (run.status, run.attempts, steps_of(run)) == (Run.Status.READY, 0, [("st_1", "done")])


def test_an_incident_of_a_step_stays_when_its_run_passes(shop, publish, enqueue, execute):
    tree = [action("st_1", "incident/create", {"title": "Look", "impact": "None", "detail": {"a": 1}})]
    run = execute(enqueue(publish(shop, tree), {"id": "1"}))
    assert run.status == Run.Status.DONE
    incident = Incident.objects.of(shop).get()
    assert (incident.status, incident.title, incident.detail["a"]) == ("open", "Look", 1)
    assert list(incident.runs.values_list("public_id", flat=True)) == [run.public_id]


def test_flow_log_writes_into_run_and_ticket(shop, publish, enqueue, execute):
    run = execute(
        enqueue(publish(shop, [UPSERT, action("st_2", "flow/log", {"message": "Hello"})]), {"id": "1"})
    )
    assert RunLog.objects.get(run=run).params == {"message": "Hello"}
    assert list(TicketEvent.objects.of(shop).order_by("id").values_list("kind", flat=True)) == [
        "created",
        "event",
        "automation",
    ]


def test_a_rerun_that_passes_resolves_the_incident(shop, publish, enqueue, execute, http):
    http.script("/orders", Reply(status=404), Reply(json={}))
    run = execute(enqueue(publish(shop, [request_step()]), {}))
    assert run.incident.status == "open"
    again = services.rerun(run, SYSTEM)
    assert execute(Run.objects.get(pk=again.run_id)).status == Run.Status.DONE
    run.incident.refresh_from_db()
    assert run.incident.status == "resolved"


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("flow/wait", {"seconds": "{{_body.v}}"}),
        ("flow/wait", {"days": "{{_body.v}}"}),
        ("flow/pause", {"seconds": "{{_body.v}}"}),
        ("data/set", {"name": "{{_body.v}}", "value": 1}),
    ],
)
@pytest.mark.parametrize("value", ["1e30", 10**30, -1, "x", [], {"a": 1}, True])
def test_what_an_operation_cannot_take_is_wrong_input(shop, publish, enqueue, execute, op, inputs, value):
    run = execute(enqueue(publish(shop, [action("st_1", op, inputs)]), {"v": value}))
    assert run.status in (Run.Status.FAILED, Run.Status.DONE, Run.Status.SCHEDULED)
    if run.status == Run.Status.FAILED:
        assert run.error["code"] == "input.invalid"
        assert steps_of(run) == [("st_1", "failed")]


@pytest.mark.parametrize("value", [5, 12.5, True, "x", {"a": 1}, [1]])
def test_a_message_is_the_text_of_whatever_came(shop, publish, enqueue, execute, value):
    run = execute(
        enqueue(publish(shop, [action("st_1", "flow/log", {"message": "{{_body.v}}"})]), {"v": value})
    )
    assert run.status == Run.Status.DONE, run.error


def test_a_rendered_name_cannot_take_a_parameters_place(shop, publish, enqueue, execute):
    params = [{"id": "f_a", "name": "a", "path": "a", "type": "string"}]
    tree = [set_name("st_1", "{{_body.name}}", "HACK"), set_name("st_2", "seen", "{{a}}")]
    run = execute(
        enqueue(publish(shop, tree, {"kind": "manual", "params": params}), {"a": "mine", "name": "a"})
    )
    assert RunStep.objects.get(run=run, path="st_2").output["value"] == "mine"


def test_a_long_path_is_refused_when_saved_and_a_long_key_is_hashed(shop, publish, enqueue, execute, http):
    inner = [{**request_step(), "id": "s" * 97}]
    for index in range(3):
        inner = [{"id": f"{index}" + "l" * 96, "type": "loop", "items": [1], "as": "x", "steps": inner}]
    run = execute(enqueue(publish(shop, inner), {}))
    assert run.status == Run.Status.DONE, run.error
    assert len(http.calls("/orders")[0].headers["idempotency-key"]) < 255
    with pytest.raises(RequestRefused) as refused:
        publish(shop, [{"id": "9" + "l" * 96, "type": "loop", "items": [1], "as": "x", "steps": inner}])
    assert "limit.path" in str(refused.value.errors) or "Nested too deep" in str(refused.value.errors)


def test_a_quantum_gives_the_slot_back_at_a_step(shop, publish, enqueue, execute, monkeypatch):
    monkeypatch.setattr("runtime.execution.executor.QUANTUM_SECONDS", -1.0)
    run = enqueue(publish(shop, [UPSERT]), {"id": "1"})
    claimed = Claimer("test").next_run()
    worker.run_one(claimed)
    run.refresh_from_db()
    assert (run.status, run.attempts, run.rescues) == (Run.Status.READY, 0, 0)


def test_a_cancel_asked_for_meanwhile_beats_the_next_attempt(shop, publish, enqueue, execute, http):
    http.script("/orders", Reply(status=503))
    run = enqueue(publish(shop, [request_step()]), {})
    claimed = Claimer("test").next_run()
    Run.objects.filter(pk=run.pk).update(cancel_requested=True)
    worker.run_one(claimed)
    run.refresh_from_db()
    assert run.status == Run.Status.CANCELLED
    assert http.calls("/orders") == []


def test_a_day_of_waiting_counts_limits_only(shop, publish, enqueue, execute, http):
    http.script("/orders", Reply(status=429, headers={"Retry-After": "1"}))
    run = enqueue(publish(shop, [request_step(onError="continue")]), {})
    run = execute(run)
    assert run.waiting_since is not None
    Run.objects.filter(pk=run.pk).update(
        waiting_since=database_clock.in_seconds(-90_000), due_at=database_clock.in_seconds(-1)
    )
    ConnectionModel.objects.update(closed_until=None)
    states.stage_due()
    run = execute(run)
    assert run.status == Run.Status.DONE
    assert steps_of(run) == [("st_2", "failed")]
    assert "24 hours" in RunStep.objects.get(run=run).message
