"""Who may try a draft, over what, and what is no question."""

import pytest

from automations import services as automations
from runtime.models import RunData
from tickets.events import SYSTEM

pytestmark = pytest.mark.django_db(transaction=True)

STOP = {"id": "st_1", "type": "action", "op": "flow/stop", "inputs": {}}


def upsert() -> dict:
    return {"id": "st_1", "type": "action", "op": "ticket/upsert", "inputs": {"externalId": "{{_body.id}}"}}


def address(automation) -> str:
    return f"/api/automations/{automation.public_id}/test"


@pytest.fixture
def draft(shop):
    """`draft(steps)` makes an automation that was never published."""

    def make(steps):
        raw = {"name": "Orders", "trigger": {"kind": "manual", "params": []}, "steps": steps}
        return automations.create(shop, SYSTEM, raw).automation

    return make


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"body": {}, "last": 3},
        {"last": 0},
        {"last": 201},
        {"runId": "x"},
        {"body": {}, "against": "draft"},
    ],
)
def test_a_question_that_is_none_is_400(api, shop, draft, asked):
    automation = draft([upsert()])
    assert api(shop).post(address(automation), asked).status_code == 400


def test_another_tenants_run_is_unknown_as_is_one_of_another_automation(
    api, shop, stranger, publish, enqueue, draft
):
    automation = draft([upsert()])
    for owner in (stranger, shop):
        foreign = enqueue(publish(owner, [STOP]), {"id": "1"})
        answer = api(shop).post(address(automation), {"runId": str(foreign.public_id)})
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["pointer"] == "/runId"


def test_a_stranger_finds_nothing_and_a_viewer_may_not(api, shop, stranger, draft):
    automation = draft([upsert()])
    assert api(stranger).post(address(automation), {"body": {"id": "1"}}).status_code == 404
    assert api(shop, "viewer").post(address(automation), {"body": {"id": "1"}}).status_code == 403


def test_an_unfinished_draft_is_tried_as_far_as_it_can_be(api, shop, draft):
    automation = draft([upsert()])
    automations.save_draft(automation, SYSTEM, {"steps": [{**STOP, "op": "no/such"}]})
    answer = api(shop).post(address(automation), {"body": {"id": "1"}})
    assert "no operation no/such" in answer.json()["runs"][0]["steps"][0]["message"]
    automations.save_draft(automation, SYSTEM, {"steps": [{"type": "condition"}]})
    answer = api(shop).post(address(automation), {"body": {"id": "1"}})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"].startswith("/steps/0")


def test_a_run_without_its_event_is_left_out(api, shop, publish, enqueue):
    automation = publish(shop, [STOP])
    kept, sent, stripped = (
        enqueue(automation, {}),
        enqueue(automation, {}, trigger="send"),
        enqueue(automation, {}),
    )
    RunData.objects.filter(run=stripped).delete()
    answer = api(shop).post(address(automation), {"last": 10}).json()
    assert [run["runId"] for run in answer["runs"]] == [str(kept.public_id)]
    for run in (sent, stripped):
        assert api(shop).post(address(automation), {"runId": str(run.public_id)}).status_code == 400


def test_an_event_of_nothing_says_nothing_of_branches(api, draft, shop):
    answer = api(shop).post(address(draft([STOP])), {"last": 10}).json()
    assert answer == {"runs": [], "differences": [], "neverTaken": []}


@pytest.mark.parametrize(("limit", "value"), [("LONGEST_SECONDS", -1.0), ("MOST_STEPS", -1)])
def test_what_does_not_fit_into_one_test_is_counted(api, shop, publish, enqueue, monkeypatch, limit, value):
    automation = publish(shop, [STOP])
    for _ in range(3):
        enqueue(automation, {})
    monkeypatch.setattr(f"runtime.trial.{limit}", value)
    answer = api(shop).post(address(automation), {"last": 10}).json()
    assert (answer["runs"], answer["notTried"]) == ([], 3)
