"""Bodies that made no run: kept within their bounds, parked, listed, replayed once."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from automations import services as automations
from csbot.lib.errors import RequestRefused
from incidents.models import Incident
from runtime.intake import rejected
from runtime.models import Delivery, DeliveryCount, Run
from tests.runtime.intake.conftest import DOC
from tickets.events import SYSTEM

pytestmark = pytest.mark.django_db

GOOD = {"document": {"id": "5"}}


def listed(webhook) -> list[dict]:
    return [rejected.representation(kept) for kept in rejected.list_for(webhook.automation)]


class TestKeeping:
    def test_a_refused_body_is_kept_with_its_reason(self, webhook):
        documents = webhook(params=[DOC])
        documents.post({"a": 1}, x_request_id="7")
        documents.post(b"{")
        broken, incomplete = listed(documents)
        assert set(incomplete) == {"id", "at", "status", "reason", "missing", "invalid"}
        assert incomplete["status"] == broken["status"] == 400
        assert incomplete["missing"] == [{"param": "docId", "path": "document.id", "type": "string"}]
        assert "docId" in incomplete["reason"]
        assert "not JSON" in broken["reason"]
        (kept, _) = documents.kept()
        assert bytes(kept.raw) == b'{"a":1}'
        assert kept.headers == {"content-type": "application/json", "x-request-id": "7"}

    def test_other_refusals_are_not_kept(self, webhook, settings):
        settings.CSBOT_MAX_BODY = 10
        documents = webhook(rate={"perSecond": 0.1, "burst": 3})
        statuses = [
            documents.post(*sent).status for sent in [(b"<a/>", "image/png"), (b"x" * 11,), (b"[" * 9,)]
        ]
        assert statuses == [415, 413, 400]
        assert documents.post({}).status == 429
        assert [kept.refusal["status"] for kept in documents.kept()] == [400]

    def test_at_most_a_thousand_the_oldest_go_first_and_the_count_stays(self, webhook, monkeypatch):
        monkeypatch.setattr(rejected, "MAX_KEPT", 3)
        documents, other = webhook(params=[DOC]), webhook(params=[DOC])
        other.post({"other": True})
        for number in range(5):
            documents.post({"n": number})
        assert [bytes(kept.raw) for kept in documents.kept()] == [b'{"n":2}', b'{"n":3}', b'{"n":4}']
        assert len(other.kept()) == 1
        assert DeliveryCount.objects.get(automation=documents.automation).refused == 5

    def test_at_most_so_many_bytes(self, webhook, monkeypatch):
        monkeypatch.setattr(rejected, "MAX_KEPT_BYTES", 100)
        documents = webhook(params=[DOC])
        for letter in ("a", "b", "c"):
            documents.post({"n": letter * 40})
        assert [bytes(kept.raw)[6:7] for kept in documents.kept()] == [b"b", b"c"]

    def test_after_seven_days_they_are_not_shown(self, webhook):
        documents = webhook(params=[DOC])
        documents.post({})
        Delivery.objects.update(at=Now() - timedelta(days=7, seconds=1))
        assert listed(documents) == []

    def test_another_automation_and_another_tenant_see_nothing(self, webhook, stranger):
        documents, other, foreign = webhook(params=[DOC]), webhook(), webhook(tenant=stranger)
        documents.post({})
        assert listed(other) == listed(foreign) == []
        (kept,) = documents.kept()
        assert rejected.replay(foreign.automation, [kept.public_id]) == []

    @pytest.mark.django_db(transaction=True)
    def test_the_bound_holds_for_many_at_once(self, webhook, monkeypatch):
        monkeypatch.setattr(rejected, "MAX_KEPT", 5)
        documents = webhook(params=[DOC])
        ready = threading.Barrier(12)

        def post(number: int) -> int:
            ready.wait()
            try:
                return documents.post({"n": number}).status
            finally:
                connection.close()

        with ThreadPoolExecutor(12) as pool:
            assert list(pool.map(post, range(12))) == [400] * 12
        assert len(documents.kept()) == 5
        assert DeliveryCount.objects.get(automation=documents.automation).refused == 12


class TestParking:
    def test_a_parked_body_is_a_success_for_its_sender_and_an_incident_for_the_tenant(self, webhook, shop):
        documents = webhook(params=[DOC], onRefusal="park")
        answer = documents.post({"a": 1})
        assert answer.status == 202
        assert answer.json() == {"status": "accepted", "runId": None, "duplicate": False}
        assert documents.post(b"{").status == 202
        assert [entry["status"] for entry in listed(documents)] == [400, 400]
        incident = Incident.objects.of(shop).get()
        assert (incident.code, incident.count, incident.status) == ("delivery.parked", 2, "open")
        assert incident.automation["name"] == "Documents"
        assert documents.runs() == []

    def test_the_triggers_answer_is_given(self, webhook):
        documents = webhook(params=[DOC], onRefusal="park", answer={"status": 200, "body": "OK"})
        answer = documents.post({})
        assert (answer.status, answer.content) == (200, b"OK")

    def test_it_is_remembered_like_a_taken_one(self, webhook, shop):
        documents = webhook(params=[DOC], onRefusal="park")
        documents.post({"a": 1}, idempotency_key="1")
        again = documents.post({"a": 1}, idempotency_key="1")
        assert again.json() == {"status": "accepted", "runId": None, "duplicate": True}
        assert documents.post({"a": 2}, idempotency_key="1").status == 422
        assert Incident.objects.of(shop).get().count == 1

    def test_a_broken_body_under_a_known_id_is_no_second_parking(self, webhook):
        documents = webhook(params=[DOC], onRefusal="park")
        documents.post(b"{", idempotency_key="1")
        assert documents.post(b"{", idempotency_key="1").json()["duplicate"] is True
        assert documents.post(b"{{", idempotency_key="1").status == 422

    def test_it_stays_remembered_when_its_body_had_to_make_room(self, webhook, monkeypatch):
        monkeypatch.setattr(rejected, "MAX_KEPT", 1)
        documents = webhook(params=[DOC], onRefusal="park")
        documents.post({"a": 1}, idempotency_key="1")
        documents.post({"a": 2}, idempotency_key="2")
        assert len(listed(documents)) == 1
        assert documents.post({"a": 1}, idempotency_key="1").json()["duplicate"] is True

    def test_other_refusals_stay_refusals(self, webhook):
        documents = webhook(params=[DOC], onRefusal="park")
        assert documents.post(b"<a/>", "application/xml").status == 415


class TestReplaying:
    def test_after_mending_the_contract_all_of_them_become_runs(self, webhook):
        documents = webhook(params=[DOC])
        documents.post({"id": "1"}, x_shop="a")
        documents.post({"id": "2"})
        documents.post(b"{")
        documents.edit(params=[{**DOC, "path": "id"}])
        replayed = rejected.replay(documents.automation, None)
        assert [result.status for result in replayed] == ["accepted", "accepted", "refused"]
        assert [str(run.public_id) for run in documents.runs()] == [
            str(result.run_id) for result in replayed[:2]
        ]
        run = documents.runs()[0]
        assert run.version == documents.automation.published
        assert run.data.input == {
            "body": {"id": "1"},
            "headers": {"content-type": "application/json", "x-shop": "a"},
            "params": {"docId": "1"},
        }
        assert bytes(run.data.raw) == b'{"id":"1"}'
        assert [entry["status"] for entry in listed(documents)] == [400]
        assert rejected.replay(documents.automation, None)[0].status == "refused"
        assert len(documents.runs()) == 2

    def test_one_by_one(self, webhook):
        documents = webhook(params=[DOC])
        documents.post({"id": "1"})
        documents.post({"id": "2"})
        documents.edit(params=[])
        (first, _) = documents.kept()
        (result,) = rejected.replay(documents.automation, [first.public_id, uuid.uuid4()])
        assert (result.id, result.status) == (first.public_id, "accepted")
        assert len(listed(documents)) == 1

    def test_what_is_refused_again_shows_the_reasons_of_today(self, webhook):
        documents = webhook(params=[DOC])
        documents.post({})
        documents.edit(params=[{**DOC, "name": "other"}])
        (result,) = rejected.replay(documents.automation, None)
        assert result.missing == listed(documents)[0]["missing"] == [
            {"param": "other", "path": "document.id", "type": "string"}
        ]  # fmt: skip

    def test_a_delivery_taken_meanwhile_is_not_repeated(self, webhook):
        documents = webhook(params=[DOC])
        documents.post({}, idempotency_key="1")
        taken = documents.post(GOOD, idempotency_key="1")
        documents.edit(params=[])
        (result,) = rejected.replay(documents.automation, None)
        assert (result.status, str(result.run_id)) == ("duplicate", taken.json()["runId"])
        assert len(documents.runs()) == 1
        assert listed(documents) == []

    @pytest.mark.parametrize("on_refusal", ["refuse", "park"])
    def test_a_replayed_one_is_remembered(self, webhook, on_refusal):
        documents = webhook(params=[DOC], onRefusal=on_refusal)
        documents.post({}, idempotency_key="1")
        documents.edit(params=[])
        (result,) = rejected.replay(documents.automation, None)
        again = documents.post({}, idempotency_key="1")
        assert again.json() == {"status": "accepted", "runId": str(result.run_id), "duplicate": True}

    def test_another_body_under_a_known_id_becomes_a_run_only_when_it_is_named(self, webhook):
        documents = webhook()
        first = documents.post({"a": 1}, idempotency_key="1")
        documents.post({"a": 2}, idempotency_key="1")
        assert rejected.replay(documents.automation, None) == []
        (kept,) = documents.kept()
        (result,) = rejected.replay(documents.automation, [kept.public_id])
        assert result.status == "accepted"
        assert documents.post({"a": 1}, idempotency_key="1").json()["runId"] == first.json()["runId"]

    def test_only_an_active_webhook_takes_them(self, webhook):
        documents = webhook(params=[DOC])
        documents.post({})
        documents.automation = automations.pause(documents.automation, SYSTEM)
        with pytest.raises(RequestRefused) as refused:
            rejected.replay(documents.automation, None)
        assert refused.value.status == 409
        documents.automation = automations.resume(documents.automation, SYSTEM)
        manual = automations.save(documents.automation, SYSTEM, {"trigger": {"kind": "manual"}}).automation
        with pytest.raises(RequestRefused) as refused:
            rejected.replay(automations.publish(manual, SYSTEM), None)
        assert refused.value.status == 409

    @pytest.mark.django_db(transaction=True)
    def test_two_replays_at_once_make_one_run_of_each(self, webhook):
        documents = webhook(params=[DOC])
        for number in range(10):
            documents.post({"n": number}, idempotency_key=str(number))
        documents.edit(params=[])
        ready = threading.Barrier(4)

        def replay(_: int) -> int:
            ready.wait()
            try:
                return len(
                    [one for one in rejected.replay(documents.automation, None) if one.status == "accepted"]
                )
            finally:
                connection.close()

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(replay, range(4))) == 10
        assert Run.objects.filter(automation=documents.automation).count() == 10
