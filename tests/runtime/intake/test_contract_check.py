"""An edited contract laid over the events that came."""

import pytest

from csbot.lib.errors import RequestRefused
from runtime.intake import contract_check
from runtime.models import RunData
from tests.runtime.intake.conftest import AMOUNT, DOC

pytestmark = pytest.mark.django_db

COUNT = {"id": "f_count", "name": "count", "path": "count", "type": "integer", "required": True}


def test_it_tells_what_would_be_refused_not_arrive_and_was_never_there(webhook):
    documents = webhook()
    bodies = [
        {"document": {"id": "1"}, "count": 1, "amount": "1.50"},
        {"document": {"id": "2"}, "count": "many", "amount": "much"},
        {"count": None, "amount": None},
    ]
    for body in bodies:
        documents.post(body)
    never = {"id": "f_never", "name": "never", "path": "a.b.c", "type": "string", "required": False}
    answer = contract_check.check(documents.automation, [DOC, COUNT, AMOUNT, never], 100)
    first, second, third = documents.runs()
    assert answer["checked"] == 3
    assert answer["refused"] == [
        {
            "runId": str(third.public_id),
            "missing": [
                {"param": "docId", "path": "document.id", "type": "string"},
                {"param": "count", "path": "count", "type": "integer"},
            ],
            "invalid": [],
        },
        {
            "runId": str(second.public_id),
            "missing": [],
            "invalid": [{"param": "count", "path": "count", "type": "integer", "got": "text"}],
        },
    ]
    assert answer["notArrived"] == {"docId": 1, "count": 1, "amount": 2, "never": 3}
    assert answer["neverSeen"] == ["a.b.c"]
    assert first.public_id not in {entry["runId"] for entry in answer["refused"]}


def test_only_the_last_ones_of_this_automation_that_still_have_a_body(webhook, stranger):
    documents, other, foreign = webhook(), webhook(), webhook(tenant=stranger)
    for number in range(4):
        documents.post({"n": number})
    other.post({})
    foreign.post({})
    assert contract_check.check(documents.automation, [DOC], 3)["checked"] == 3
    RunData.objects.filter(run=documents.runs()[0]).update(input={})
    assert contract_check.check(documents.automation, [DOC], 100)["checked"] == 3


def test_nothing_came_yet(webhook):
    assert contract_check.check(webhook().automation, [DOC], 100) == {
        "checked": 0, "refused": [], "notArrived": {}, "neverSeen": ["document.id"],
    }  # fmt: skip


def test_faults_of_the_contract_have_pointers(webhook):
    with pytest.raises(RequestRefused) as refused:
        contract_check.check(webhook().automation, [{"name": "a", "type": "nothing"}, {}], 100)
    assert refused.value.status == 400
    assert {fault["pointer"] for fault in refused.value.errors} == {"/params/0/type", "/params/1/name"}
