"""Real senders with the shapes, signatures and ids that they send (CONNECTORS section 7), through the whole door."""

import base64
import hmac
import time
from decimal import Decimal
from urllib.parse import urlencode

import pytest

from tests.runtime.intake.conftest import call

pytestmark = pytest.mark.django_db

SECRET = "s3cret"


def param(name: str, path: str, type: str = "string", required: bool = True) -> dict:
    return {"id": f"f_{name}", "name": name, "path": path, "type": type, "required": required}


def mac(raw: bytes, algorithm: str = "sha256") -> bytes:
    return hmac.digest(SECRET.encode(), raw, algorithm)


def test_github_signs_a_form_or_json_and_repeats_the_id_at_redelivery(webhook):
    pushes = webhook(params=[param("ref", "ref")], signature={"scheme": "github", "secrets": [SECRET]})
    raw = b'{"ref":"refs/heads/main","head_commit":null}'
    headers = {
        "x_hub_signature_256": f"sha256={mac(raw).hex()}",
        "x_github_delivery": "72d3162e",
        "x_github_event": "push",
    }
    first, again = pushes.post(raw, **headers), pushes.post(raw, **headers)
    assert (first.status, again.json()["duplicate"]) == (202, True)
    assert pushes.input()["headers"]["x-github-event"] == "push"
    assert "x-hub-signature-256" not in pushes.input()["headers"]


def test_github_form_has_json_in_one_field(webhook):
    pushes = webhook(params=[param("payload", "payload", "object")])
    raw = urlencode({"payload": '{"ref":"refs/heads/main"}'}).encode()
    assert pushes.post(raw, "application/x-www-form-urlencoded").status == 202
    assert pushes.input()["params"] == {"payload": {"ref": "refs/heads/main"}}


def test_stripe_signs_with_a_timestamp_and_names_the_event_in_the_body(webhook):
    payments = webhook(
        params=[
            param("amount", "data.object.amount", "integer"),
            param("order", "data.object.metadata.order\\.id"),
        ],
        signature={"scheme": "stripe", "secrets": ["old", SECRET]},
        dedupe={"path": "id"},
    )
    raw = b'{"id":"evt_1","data":{"object":{"amount":2000,"metadata":{"order.id":"5001"}}}}'
    at = int(time.time())
    headers = {"stripe_signature": f"t={at},v1={mac(f'{at}.'.encode() + raw).hex()},v0=ab"}
    first, again = payments.post(raw, **headers), payments.post(raw, **headers)
    assert (first.status, again.json()["runId"]) == (202, first.json()["runId"])
    assert payments.input()["params"] == {"amount": 2000, "order": "5001"}
    late = {"stripe_signature": f"t={at - 301},v1={mac(f'{at - 301}.'.encode() + raw).hex()}"}
    assert payments.post(raw, **late).status == 401


def test_shopify_keeps_64_bit_ids_and_money(webhook):
    orders = webhook(
        params=[
            param("order", "id", "integer"),
            param("total", "total_price", "number"),
            param("note", "note", required=False),
        ],
        signature={"scheme": "shopify", "secrets": [SECRET]},
    )
    raw = b'{"id":820982911946154508,"total_price":"398.00","note":null,"line_items":[{"price":"199.00"}]}'
    answer = orders.post(
        raw, x_shopify_hmac_sha256=base64.b64encode(mac(raw)).decode(), x_shopify_webhook_id="b54557e4"
    )
    assert answer.status == 202
    assert orders.input()["params"] == {"order": 820982911946154508, "total": Decimal("398.00")}


def test_shoptet_signs_with_sha1_and_wants_200(webhook):
    orders = webhook(
        params=[param("order", "eventInstance")],
        signature={"scheme": "shoptet", "secrets": [SECRET]},
        answer={"status": 200},
    )
    raw = b'{"eshopId":1,"event":"order:create","eventCreated":"2026-11-02T12:45:08+0100","eventInstance":"2026000012"}'
    assert orders.post(raw, shoptet_webhook_signature=mac(raw, "sha1").hex()).status == 200


def test_shoptets_mass_event_is_a_list_written_as_text(webhook):
    orders = webhook(params=[param("orders", "eventInstance", "array")])
    orders.post(b'{"event":"mass:order","eventInstance":"[\\"2026000012\\",\\"2026000013\\"]"}')
    assert orders.input()["params"] == {"orders": ["2026000012", "2026000013"]}


class TestWooCommerce:
    @pytest.fixture
    def orders(self, webhook):
        return webhook(
            params=[param("order", "id", "integer")], signature={"scheme": "woocommerce", "secrets": [SECRET]}
        )

    def test_an_order_is_signed(self, orders):
        raw = b'{"id":727,"total":"29.35","line_items":[{"price":3.75}],"meta_data":[]}'
        signed = {
            "x_wc_webhook_signature": base64.b64encode(mac(raw)).decode(),
            "x_wc_webhook_delivery_id": "a",
        }
        assert orders.post(raw, **signed).status == 202
        assert orders.post(raw, **signed).json()["duplicate"] is True

    def test_its_ping_is_unsigned_wants_exactly_200_and_is_no_event(self, orders):
        assert orders.post(b"webhook_id=11", "application/x-www-form-urlencoded").status == 200
        assert orders.runs() == orders.kept() == []

    @pytest.mark.parametrize(
        "raw", [b"webhook_id=11&id=5", b"webhook_id=", b"id=5", b'{"webhook_id":11}', b""]
    )
    def test_nothing_else_passes_unsigned(self, orders, raw):
        assert orders.post(raw, "application/x-www-form-urlencoded").status == 401

    def test_a_ping_to_another_sender_s_webhook_is_none(self, webhook):
        github = webhook(signature={"scheme": "github", "secrets": [SECRET]})
        assert github.post(b"webhook_id=11", "application/x-www-form-urlencoded").status == 401


def test_a_standard_webhook_is_signed_and_deduplicated_by_its_id(webhook):
    events = webhook(signature={"scheme": "standard", "secrets": [SECRET]})
    raw, at = b'{"type":"user.created"}', int(time.time())
    signed = base64.b64encode(mac(f"msg_1.{at}.".encode() + raw)).decode()
    headers = {"webhook_id": "msg_1", "webhook_timestamp": str(at), "webhook_signature": f"v1,{signed}"}
    assert events.post(raw, **headers).json()["duplicate"] is False
    assert events.post(raw, **headers).json()["duplicate"] is True


def test_bitrix_sends_a_nested_form(webhook):
    deals = webhook(params=[param("deal", "data.FIELDS.ID"), param("application", "auth.application_token")])
    form = {"event": "ONCRMDEALADD", "data[FIELDS][ID]": "7", "auth[application_token]": "abc"}
    assert deals.post(urlencode(form).encode(), "application/x-www-form-urlencoded").status == 202
    assert deals.input()["params"] == {"deal": "7", "application": "abc"}


def test_comgate_wants_its_own_words(webhook):
    payments = webhook(
        params=[param("payment", "transId"), param("price", "price", "integer")],
        answer={"status": 200, "body": "code=0&message=OK", "contentType": "text/plain"},
    )
    form = urlencode({"transId": "AB12", "price": "12900", "status": "PAID", "test": "true"}).encode()
    answer = payments.post(form, "application/x-www-form-urlencoded; charset=UTF-8")
    assert (answer.status, answer.content) == (200, b"code=0&message=OK")
    assert payments.input()["params"] == {"payment": "AB12", "price": 12900}


def test_telegram_is_deduplicated_by_its_update_and_given_no_command(webhook):
    updates = webhook(
        params=[param("text", "message.text", required=False)], dedupe={"path": "update_id"}, onRefusal="park"
    )
    raw = '{"update_id":10000,"message":{"text":"Ahoj č","chat":{"id":1}}}'.encode()
    first, again = updates.post(raw), updates.post(raw)
    assert first.status == 202
    assert again.json()["runId"] == first.json()["runId"]
    assert "method" not in first.json()


def test_messenger_verifies_by_get_and_signs_like_github(webhook):
    pages = webhook(
        signature={"scheme": "github", "secrets": [SECRET]},
        verify={"kind": "hub", "token": "t"},
        answer={"status": 200},
    )
    assert pages.get("hub.mode=subscribe&hub.verify_token=t&hub.challenge=42").content == b"42"
    raw = b'{"object":"page","entry":[{"messaging":[{"message":{"mid":"m1","text":"\\u010d"}}]}]}'
    assert pages.post(raw, x_hub_signature_256=f"sha256={mac(raw).hex()}").status == 200


def test_amazon_sends_json_as_text_and_cloudevents_an_array(webhook):
    notices = webhook(params=[param("type", "Type")])
    assert notices.post(b'{"Type":"Notification"}', "text/plain; charset=UTF-8").status == 202
    batch = webhook(params=[param("first", "0.id")])
    assert batch.post(b'[{"id":"1"},{"id":"2"}]', "application/cloudevents-batch+json").status == 202


def test_an_empty_post_is_an_empty_object(webhook):
    notices = webhook()
    assert call("POST", notices.path).status == 202
    assert notices.input()["body"] == {}
