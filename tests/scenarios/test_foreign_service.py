"""Steps that call a foreign service: repeated with the same key, failed at once, or left to a person."""

import uuid

import pytest

from tests.stub_service import Reply

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


@pytest.fixture
def shop(company, foreign):
    """A company with a connection to the foreign service."""
    company.post(
        "/api/connections",
        {
            "provider": "http",
            "name": "shop",
            "config": {"baseUrl": f"http://127.0.0.1:{foreign.port}"},
            "credentials": {"bearer": "s3cret-canary"},
        },
        201,
    )
    return company


def _steps(path: str, **inputs) -> list[dict]:
    return [
        {"id": "st_1", "type": "action", "op": "ticket/upsert", "inputs": {"externalId": "{{id}}", "title": "Order"}},
        {
            "id": "st_2",
            "type": "action",
            "op": "http/request",
            "connection": "shop",
            "inputs": {"method": "POST", "path": path, "json": {"id": "{{id}}"}, **inputs},
        },
    ]  # fmt: skip


def _start(shop, path: str, **inputs) -> str:
    trigger = {"kind": "manual", "params": [{"id": "f_id", "name": "id", "path": "id", "type": "string"}]}
    timeout = inputs.pop("timeoutSec", None)
    steps = _steps(path, **inputs)
    if timeout:
        steps[1]["timeoutSec"] = timeout
    automation = shop.automation("Send", steps, trigger)
    return shop.post(f"/api/automations/{automation}/run", {"body": {"id": path}}, 202)["runId"]


def test_a_flaky_service_is_asked_again_with_the_same_key(shop, foreign):
    path = f"/{uuid.uuid4().hex}"
    foreign.script(path, Reply(status=503), Reply(status=503), Reply(json={"ok": True}))
    run = shop.run_when(_start(shop, path), "done", "failed")
    assert run["status"] == "done", run["error"]
    calls = foreign.calls(path)
    assert len(calls) == 3
    assert len({call.headers["idempotency-key"] for call in calls}) == 1
    assert run["attempts"] == 2
    assert [(step["stepId"], step["attempt"]) for step in run["steps"]] == [("st_1", 1), ("st_2", 3)]
    ticket = shop.get(f"/api/tickets/{run['ticket']}/log")["results"]
    assert [entry["kind"] for entry in ticket] == ["created", "event"]
    assert "s3cret-canary" not in str(run)


def test_a_404_fails_at_once_with_one_incident(shop, foreign):
    path = f"/{uuid.uuid4().hex}"
    foreign.script(path, Reply(status=404))
    run = shop.run_when(_start(shop, path), "done", "failed")
    assert run["status"] == "failed"
    assert run["error"]["code"] == "http.404"
    assert run["error"]["stepId"] == "st_2"
    assert run["error"]["retryable"] is False
    assert len(foreign.calls(path)) == 1
    incidents = shop.get("/api/incidents")["results"]
    assert len(incidents) == 1
    assert incidents[0]["count"] == 1


def test_a_post_without_an_answer_is_left_to_a_person(shop, foreign):
    path = f"/{uuid.uuid4().hex}"
    foreign.script(path, Reply(delay=4.0))
    run = shop.run_when(_start(shop, path, timeoutSec=1), "done", "failed", "review")
    assert run["status"] == "review"
    assert run["error"]["code"] == "net.unknown"
    assert len(foreign.calls(path)) == 1
    assert len(shop.get("/api/incidents")["results"]) == 1
    shop.post(f"/api/runs/{run['id']}/resolve", {"decision": "happened", "outputs": {"status": 200}})
    assert shop.run_when(run["id"], "done", "failed")["status"] == "done"
    assert len(foreign.calls(path)) == 1
    assert shop.get("/api/incidents")["results"][0]["status"] == "resolved"


def test_a_post_with_its_own_key_is_repeated_after_a_500(shop, foreign):
    path = f"/{uuid.uuid4().hex}"
    foreign.script(path, Reply(status=500), Reply(json={"ok": True}))
    run = shop.run_when(_start(shop, path, idempotencyKey="order-{{id}}"), "done", "failed", "review")
    assert run["status"] == "done"
    assert [call.headers["idempotency-key"] for call in foreign.calls(path)] == [f"order-{path}"] * 2


def test_a_post_without_a_key_is_not_repeated_after_a_500(shop, foreign):
    path = f"/{uuid.uuid4().hex}"
    foreign.script(path, Reply(status=500))
    run = shop.run_when(_start(shop, path), "done", "failed", "review")
    assert run["status"] == "review"
    assert len(foreign.calls(path)) == 1
    shop.post(f"/api/runs/{run['id']}/resolve", {"decision": "giveUp"})
    assert shop.run_when(run["id"], "failed")["status"] == "failed"


def test_no_private_address_is_reached(company):
    company.post(
        "/api/connections",
        {"provider": "http", "name": "shop", "config": {"baseUrl": "http://169.254.169.254"}, "credentials": {}},
        201,
    )  # fmt: skip
    run = company.run_when(_start(company, "/latest/meta-data"), "done", "failed", "review")
    assert run["status"] == "failed"
    assert run["error"]["code"] == "input.invalid"
