"""The door over HTTP: every answer of SPEC section 2, in the order in which they are checked."""

import pytest

from tests.runtime.intake.conftest import DOC

pytestmark = pytest.mark.django_db


def test_an_event_is_answered_with_the_id_of_its_committed_run(webhook):
    orders = webhook(params=[DOC])
    answer = orders.post({"document": {"id": "5001"}})
    (run,) = orders.runs()
    assert answer.status == 202
    assert answer.json() == {"status": "accepted", "runId": str(run.public_id), "duplicate": False}
    assert run.trigger == "webhook"
    assert orders.input()["params"] == {"docId": "5001"}
