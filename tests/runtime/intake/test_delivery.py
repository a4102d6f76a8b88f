"""One delivery, one run (SPEC section 2.3): what identifies it, for how long, and when many come at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from runtime.intake import delivery
from runtime.models import Delivery, DeliveryCount
from tests.runtime.intake.conftest import DOC

pytestmark = pytest.mark.django_db


def age(**ago) -> None:
    """Let every delivery have come so long ago."""
    Delivery.objects.update(at=Now() - timedelta(**ago))


@pytest.mark.parametrize(
    "header",
    ["idempotency_key", "webhook_id", "x_github_delivery", "x_shopify_webhook_id", "IDEMPOTENCY_KEY"],
)
def test_a_known_header_identifies_a_delivery(webhook, header):
    shop = webhook()
    first = shop.post({"a": 1}, **{header: "d-1"})
    again = shop.post({"a": 1}, **{header: "d-1"})
    other = shop.post({"a": 1}, **{header: "d-2"})
    assert again.json() == {"status": "accepted", "runId": first.json()["runId"], "duplicate": True}
    assert other.json()["duplicate"] is False
    assert len(shop.runs()) == 2


def test_without_an_id_every_request_is_a_delivery(webhook):
    shop = webhook()
    assert [shop.post({"a": 1}).json()["duplicate"] for _ in range(2)] == [False, False]
    assert [shop.post({"a": 1}, idempotency_key=" ").json()["duplicate"] for _ in range(2)] == [False, False]


def test_the_same_id_with_another_body_is_refused_and_kept(webhook):
    shop = webhook()
    shop.post({"a": 1}, idempotency_key="1")
    answer = shop.post({"a": 2}, idempotency_key="1")
    assert answer.status == 422
    assert len(shop.runs()) == 1
    (kept,) = shop.kept()
    assert (kept.outcome, kept.refusal["status"], bytes(kept.raw)) == ("refused", 422, b'{"a":2}')


def test_woocommerces_id_counts_together_with_the_body_and_is_never_422(webhook):
    shop = webhook()
    ids = [shop.post(body, x_wc_webhook_delivery_id="abc") for body in ({"id": 1}, {"id": 2}, {"id": 1})]
    assert [answer.status for answer in ids] == [202, 202, 202]
    assert [answer.json()["duplicate"] for answer in ids] == [False, False, True]


@pytest.mark.parametrize("body", [{"id": 5}, {"id": "5"}, {"id": {"a": 1}}, {"id": True}])
def test_a_path_of_the_body_identifies_a_delivery(webhook, body):
    shop = webhook(dedupe={"path": "event.id"})
    first = shop.post({"event": body, "n": 1})
    again = shop.post({"event": body, "n": 1})
    assert again.json()["runId"] == first.json()["runId"]
    assert shop.post({"event": body, "n": 2}).status == 422


@pytest.mark.parametrize("body", [{}, {"id": None}, {"id": ""}, {"id": " "}, []])
def test_a_path_that_leads_to_nothing_identifies_nothing(webhook, body):
    shop = webhook(dedupe={"path": "id"})
    assert [shop.post(body).json()["duplicate"] for _ in range(2)] == [False, False]


def test_what_the_trigger_names_wins_over_the_known_headers(webhook):
    shop = webhook(dedupe={"header": "X-Shopify-Event-Id"})
    shop.post({"a": 1}, x_shopify_event_id="e", x_shopify_webhook_id="1")
    assert shop.post({"a": 1}, x_shopify_event_id="e", x_shopify_webhook_id="2").json()["duplicate"]
    shop.post({"a": 1}, x_shopify_webhook_id="3")
    assert shop.post({"a": 1}, x_shopify_webhook_id="3").json()["duplicate"]


def test_equal_ids_of_two_sources_are_two_deliveries(webhook):
    shop = webhook()
    assert not shop.post({"a": 1}, webhook_id="1").json()["duplicate"]
    assert not shop.post({"a": 1}, x_github_delivery="1").json()["duplicate"]


def test_equal_ids_of_two_webhooks_are_two_deliveries(webhook, stranger):
    one, other, foreign = webhook(), webhook(), webhook(tenant=stranger)
    for each in (one, other, foreign):
        assert not each.post({"a": 1}, idempotency_key="1").json()["duplicate"]


def test_a_very_long_id_is_told_apart_by_its_end(webhook):
    shop = webhook()
    assert not shop.post({"a": 1}, idempotency_key="x" * 5000 + "1").json()["duplicate"]
    assert not shop.post({"a": 1}, idempotency_key="x" * 5000 + "2").json()["duplicate"]
    assert shop.post({"a": 1}, idempotency_key="x" * 5000 + "1").json()["duplicate"]


def test_after_a_refusal_the_mended_body_is_welcome(webhook):
    shop = webhook(params=[DOC])
    assert shop.post({}, idempotency_key="1").status == 400
    assert shop.post({"document": {"id": "5"}}, idempotency_key="1").json()["duplicate"] is False


def test_for_seven_days_it_is_the_same_delivery_and_then_a_new_one(webhook):
    shop = webhook()
    first = shop.post({"a": 1}, idempotency_key="1")
    age(days=6, hours=23)
    assert shop.post({"a": 1}, idempotency_key="1").json()["runId"] == first.json()["runId"]
    age(days=7, seconds=1)
    later = shop.post({"a": 2}, idempotency_key="1")
    assert (later.status, later.json()["duplicate"]) == (202, False)
    assert shop.post({"a": 2}, idempotency_key="1").json()["runId"] == later.json()["runId"]


def test_the_old_ones_are_forgotten_in_portions(webhook):
    shop = webhook(params=[DOC])
    for number in range(3):
        shop.post({"document": {"id": number}})
        shop.post({})
    age(days=7, seconds=1)
    shop.post({})
    assert [delivery.forget_old(limit=4) for _ in range(3)] == [4, 2, 0]
    assert len(shop.runs()) == 3
    assert len(shop.kept()) == 1


def test_duplicates_and_refusals_are_counted_by_the_tenants_day(webhook):
    shop = webhook(params=[DOC])
    for _ in range(3):
        shop.post({"document": {"id": "5"}}, idempotency_key="1")
    shop.post({})
    shop.post({"document": {"id": "6"}}, idempotency_key="1")
    counted = DeliveryCount.objects.get(automation=shop.automation)
    assert (counted.duplicate, counted.refused) == (2, 2)


@pytest.mark.django_db(transaction=True)
def test_fifty_at_once_are_one_run(webhook):
    shop = webhook()
    ready = threading.Barrier(50)

    def post(number: int) -> dict:
        ready.wait()
        try:
            return shop.post({"a": 1}, idempotency_key="1").json()
        finally:
            connection.close()

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(post, range(50)))
    assert len(shop.runs()) == 1
    assert {answer["runId"] for answer in answers} == {str(shop.runs()[0].public_id)}
    assert sorted(answer["duplicate"] for answer in answers) == [False] + [True] * 49


@pytest.mark.django_db(transaction=True)
def test_of_two_bodies_at_once_under_one_id_one_is_taken(webhook):
    shop = webhook()
    ready = threading.Barrier(10)

    def post(number: int) -> int:
        ready.wait()
        try:
            return shop.post({"a": number % 2}, idempotency_key="1").status
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        statuses = list(pool.map(post, range(10)))
    assert sorted(statuses) == [202] * 5 + [422] * 5
    assert len(shop.runs()) == 1
