"""The door over WSGI: every answer of SPEC section 2 and the order in which they are checked."""

import io
import logging

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from automations import services as automations
from automations.models import Automation, WebhookToken
from csbot.lib import metrics
from csbot.wsgi import application
from runtime.models import RunData
from tests.runtime.intake.conftest import AMOUNT, DOC, call
from tickets.events import SYSTEM
from tickets.models import Tenant

pytestmark = pytest.mark.django_db

FIXED_HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
}
SIGNED = {"scheme": "github", "secrets": ["s3cret"]}


class TestTaking:
    def test_an_event_is_answered_with_the_id_of_its_committed_run(self, webhook):
        documents = webhook(params=[DOC])
        answer = documents.post({"document": {"id": "5001"}})
        (run,) = documents.runs()
        assert answer.status == 202
        assert answer.json() == {"status": "accepted", "runId": str(run.public_id), "duplicate": False}
        assert (run.trigger, run.version, run.priority) == ("webhook", documents.automation.published, 5)

    def test_the_run_has_the_body_the_parameters_and_the_harmless_headers(self, webhook):
        documents = webhook(params=[DOC, AMOUNT])
        documents.post(
            b'{"document":{"id":"007"},"amount":"12.50","id":9007199254740993,"price":12.50}',
            "application/json; charset=utf-8",
            x_github_event="push", x_api_key="no", user_agent="shop/1", webhook_id="d1", authorization="no", cookie="n",
        )  # fmt: skip
        given = documents.input()
        assert given["params"] == {"docId": "007", "amount": pytest.approx(12.5)}
        assert given["body"]["id"] == 9007199254740993
        assert str(given["body"]["price"]) == "12.50"
        assert given["headers"] == {
            "content-type": "application/json; charset=utf-8",
            "x-github-event": "push",
            "user-agent": "shop/1",
            "webhook-id": "d1",
        }

    def test_the_bytes_are_kept_as_they_came(self, webhook):
        documents = webhook()
        raw = b'\xef\xbb\xbf{"a" : 1,\n "a":2}'
        documents.post(raw)
        data = RunData.objects.get(run=documents.runs()[0])
        assert bytes(data.raw) == raw
        assert data.content_type == "application/json"
        assert data.input["body"] == {"a": 2}

    def test_what_cannot_be_stored_is_replaced_and_what_did_not_fit_is_noted_in_the_log(self, webhook):
        documents = webhook(params=[AMOUNT])
        answer = documents.post(b'{"amount":{"no":"number"},"text":"a\\u0000b\\ud800"}')
        (run,) = documents.runs()
        assert answer.status == 202
        assert documents.input()["body"]["text"] == "a\ufffdb\ufffd"
        assert documents.input()["params"] == {}
        told = {line.code: line.params for line in run.log.order_by("id")}
        assert told["body.replaced"] == {"count": 2}
        assert told["param.notArrived"]["param"] == "amount"

    @pytest.mark.parametrize(
        ("raw", "type", "body"),
        [
            (b"", "application/json", {}),
            (b"", None, {}),
            (b"[1,2]", "application/json", [1, 2]),
            (b"7", "application/json", 7),
            (b'{"a":1}', "application/vnd.shop+json", {"a": 1}),
            (b'{"a":1}', "application/x-www-form-urlencoded", {"a": 1}),
            (b'{"a":1}', None, {"a": 1}),
            (b"hello", "text/plain", "hello"),
            (
                b"items[0][id]=7&x=%C5%BE",
                "application/x-www-form-urlencoded",
                {"items": [{"id": "7"}], "x": "ž"},
            ),
        ],
    )
    def test_bodies_of_all_types_are_taken(self, webhook, raw, type, body):
        any_body = webhook()
        assert any_body.post(raw, type).status == 202
        assert any_body.input()["body"] == body

    def test_a_line_of_the_triggers_order_key_is_taken(self, webhook):
        documents = webhook(orderKey="document.id")
        assert documents.post({"document": {"id": "5"}}).status == 202
        assert documents.post({"document": {"id": "5"}}).status == 202
        assert len({run.order_key for run in documents.runs()}) == 1
        assert documents.runs()[0].order_key is not None

    def test_the_priority_is_the_triggers(self, webhook):
        urgent = webhook(priority=0)
        urgent.post({})
        assert urgent.runs()[0].priority == 0

    def test_a_paused_automation_takes_the_event(self, webhook):
        documents = webhook()
        automations.pause(documents.automation, SYSTEM)
        assert documents.post({}).status == 202
        assert len(documents.runs()) == 1


class TestRefusing:
    def test_missing_and_wrong_parameters_are_all_named_at_once_and_never_their_values(self, webhook):
        other = {"id": "f_n", "name": "count", "path": "count", "type": "integer", "required": True}
        documents = webhook(params=[DOC, other])
        answer = documents.post({"count": "s3cret"})
        assert answer.status == 400
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["missing"] == [{"param": "docId", "path": "document.id", "type": "string"}]
        assert problem["invalid"] == [{"param": "count", "path": "count", "type": "integer", "got": "text"}]
        assert problem["status"] == 400
        assert b"s3cret" not in answer.content
        assert documents.runs() == []

    def test_a_body_that_is_no_json_is_400_with_its_place(self, webhook):
        answer = webhook().post(b'{"a":\n tru}')
        assert answer.status == 400
        assert (answer.json()["line"], answer.json()["column"]) == (2, 2)

    @pytest.mark.parametrize(
        ("raw", "type", "status"),
        [
            (b"<a/>", "application/xml", 415),
            (b"\x89PNG", "image/png", 415),
            (b"[" * 65 + b"]" * 65, "application/json", 413),
            (b"[" * 1_000_000, "application/json", 413),
            (b"[1e99999]", "application/json", 400),
            (b"[NaN]", "application/json", 400),
            (b'{"a":1}{"b":2}', "application/json", 400),
            (b'"\xff"', "application/json", 400),
        ],
    )
    def test_what_cannot_be_read_is_refused_with_its_own_status(self, webhook, raw, type, status):
        any_body = webhook()
        answer = any_body.post(raw, type)
        assert answer.status == status
        assert answer.json()["code"].startswith("body.")
        assert any_body.runs() == []

    def test_a_signature_is_demanded(self, webhook):
        documents = webhook(signature=SIGNED)
        answer = documents.post({}, x_hub_signature_256="sha256=00")
        assert answer.status == 401
        assert documents.post({}).status == 401
        assert documents.runs() == documents.kept() == []

    def test_above_the_rate_is_429_with_whole_seconds(self, webhook):
        slow = webhook(rate={"perSecond": 0.5, "burst": 2})
        assert [slow.post({}).status for _ in range(3)] == [202, 202, 429]
        assert slow.post({}).headers["retry-after"] == "2"

    def test_a_rate_of_nothing_is_closed(self, webhook):
        closed = webhook(rate={"perSecond": 0})
        answer = closed.post({})
        assert answer.status == 429
        assert int(answer.headers["retry-after"]) >= 1

    def test_the_default_rate_is_the_settings(self, webhook, settings):
        settings.CSBOT_WEBHOOK_RATE = (1, 1)
        usual = webhook()
        assert [usual.post({}).status for _ in range(2)] == [202, 429]

    def test_one_token_does_not_use_up_the_rate_of_another(self, webhook):
        first, second = (
            webhook(rate={"perSecond": 0.1, "burst": 1}),
            webhook(rate={"perSecond": 0.1, "burst": 1}),
        )
        assert [one.post({}).status for one in (first, first, second)] == [202, 429, 202]


@hypothesis_settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    raw=st.binary(max_size=200)
    | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    type=st.sampled_from(["application/json", "text/plain", "application/x-www-form-urlencoded", "a/b", ""])
    | st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=40),
    key=st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=40),
)
def test_whatever_is_sent_the_answer_is_one_of_the_table(webhook, raw, type, key):
    anything = webhook(params=[DOC], dedupe={"path": "document.id"}, rate={"perSecond": 1000, "burst": 1000})
    assert anything.post(raw, type, idempotency_key=key, x_any=key).status in (202, 400, 413, 415, 422)


class TestUnknown:
    def test_unknown_revoked_unpublished_and_suspended_answer_alike(self, webhook, shop, stranger):
        unknown = call("POST", "/webhook/none", b"{}", "application/json")
        revoked, suspended, unpublished = webhook(), webhook(tenant=stranger), webhook()
        automations.rotate_token(revoked.automation, SYSTEM, overlap_seconds=0)
        Tenant.objects.filter(pk=stranger.pk).update(suspended_at="2026-11-30T00:00Z")
        Automation.objects.filter(pk=unpublished.automation.pk).update(published=None, state="draft")
        for gone in (revoked, suspended, unpublished):
            answer = gone.post({})
            assert (answer.status, answer.headers, answer.content) == (404, unknown.headers, unknown.content)
            assert gone.get().status == 404
            assert gone.runs() == []

    @pytest.mark.parametrize(
        "path", ["/webhook", "/webhook/", "/webhook/a/b", "/webhook/%00%C5%BE", "/webhook/" + "x" * 5000]
    )
    def test_no_path_below_is_anything_else(self, path):
        answer = call("POST", path, b"{}", "application/json")
        assert answer.status == 404
        assert answer.headers["content-type"] == "application/problem+json"

    def test_an_older_token_works_through_its_overlap(self, webhook):
        documents = webhook()
        newer = automations.rotate_token(documents.automation, SYSTEM, overlap_seconds=60)
        assert documents.post({}).status == 202
        assert call("POST", f"/webhook/{newer}", b"{}", "application/json").status == 202
        WebhookToken.objects.exclude(expires_at=None).update(expires_at="2020-01-01T00:00Z")
        assert documents.post({}).status == 404

    def test_another_way_of_starting_is_no_webhook_any_more(self, webhook):
        documents = webhook()
        documents.automation = automations.publish(
            automations.save(documents.automation, SYSTEM, {"trigger": {"kind": "manual"}}).automation, SYSTEM
        )
        assert documents.post({}).status == 404


class TestMethods:
    @pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"])
    def test_others_are_405_with_allow_also_where_there_is_no_webhook(self, webhook, method):
        for path in (webhook().path, "/webhook/none"):
            answer = call(method, path)
            assert answer.status == 405
            assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"

    def test_head_is_get_without_a_body(self, webhook):
        documents = webhook()
        head, get = call("HEAD", documents.path), documents.get()
        assert (head.status, head.content) == (200, b"")
        assert head.headers == {**get.headers, "content-length": str(len(get.content))}
        assert (call("HEAD", "/webhook/none").status, call("HEAD", "/webhook/none").content) == (404, b"")

    def test_options_names_the_methods(self, webhook):
        answer = call("OPTIONS", webhook().path)
        assert (answer.status, answer.headers["allow"], answer.content) == (
            200,
            "GET, HEAD, OPTIONS, POST",
            b"",
        )
        assert call("OPTIONS", "/webhook/none").status == 404


class TestOrder:
    """405, 404, 429, 413 size, 401, reading, known delivery, contract: the first that fails answers."""

    def test_the_rate_comes_before_the_size(self, webhook, settings):
        settings.CSBOT_MAX_BODY = 10
        slow = webhook(rate={"perSecond": 0.1, "burst": 1})
        assert [slow.post(b"x" * 11).status for _ in range(2)] == [413, 429]

    def test_the_size_comes_before_the_signature(self, webhook, settings):
        settings.CSBOT_MAX_BODY = 10
        assert webhook(signature=SIGNED).post(b"x" * 11).status == 413

    def test_the_signature_comes_before_reading(self, webhook):
        assert webhook(signature=SIGNED).post(b"<a/>", "application/xml").status == 401

    def test_reading_comes_before_the_known_delivery(self, webhook):
        documents = webhook()
        documents.post({}, idempotency_key="1")
        assert documents.post(b"{", idempotency_key="1").status == 400

    def test_a_known_delivery_comes_before_the_contract(self, webhook):
        documents = webhook()
        first = documents.post({"a": 1}, idempotency_key="1")
        documents.edit(params=[DOC])
        again = documents.post({"a": 1}, idempotency_key="1")
        assert (again.status, again.json()["runId"]) == (202, first.json()["runId"])
        assert documents.post({"a": 2}, idempotency_key="1").status == 422
        assert documents.post({"a": 1}, idempotency_key="2").status == 400


class TestSize:
    def test_the_limit_itself_is_taken(self, webhook, settings):
        settings.CSBOT_MAX_BODY = 8
        documents = webhook()
        assert documents.post(b'{"a":12}').status == 202
        assert documents.post(b'{"a":123}').status == 413

    @pytest.mark.parametrize("length", ["1048577", "9" * 30])
    def test_a_declared_length_is_refused_before_a_byte_is_read(self, webhook, length):
        answer = _send(webhook(), _Unreadable(), CONTENT_LENGTH=length)
        assert answer == 413

    def test_of_a_chunked_body_no_more_is_read_than_the_limit(self, webhook):
        endless = _Endless()
        assert _send(webhook(), endless, HTTP_TRANSFER_ENCODING="chunked") == 413
        assert endless.given <= 1_048_576 + 65_536

    def test_a_chunked_body_is_read_to_its_end(self, webhook):
        documents = webhook()
        assert _send(documents, io.BytesIO(b'{"a":1}'), HTTP_TRANSFER_ENCODING="chunked") == 202
        assert documents.input()["body"] == {"a": 1}

    def test_a_body_that_breaks_off_is_no_event(self, webhook):
        documents = webhook()
        assert _send(documents, io.BytesIO(b"12"), CONTENT_LENGTH="3", CONTENT_TYPE="text/plain") == 400
        assert documents.runs() == documents.kept() == []

    @pytest.mark.parametrize("length", ["abc", "-1", "1.5", "٣"])
    def test_a_length_that_is_no_number_is_refused(self, webhook, length):
        assert _send(webhook(), io.BytesIO(b"{}"), CONTENT_LENGTH=length) == 400


class TestAnswer:
    def test_the_trigger_says_what_a_success_looks_like(self, webhook):
        comgate = webhook(answer={"status": 200, "body": "code=0&message=OK", "contentType": "text/plain"})
        first = comgate.post({}, idempotency_key="1")
        again = comgate.post({}, idempotency_key="1")
        for answer in (first, again):
            assert (answer.status, answer.content) == (200, b"code=0&message=OK")
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert len(comgate.runs()) == 1

    def test_only_another_status(self, webhook):
        answer = webhook(answer={"status": 200}).post({})
        assert answer.status == 200
        assert answer.json()["status"] == "accepted"

    def test_nothing(self, webhook):
        answer = webhook(answer={"status": 204}).post({})
        assert (answer.status, answer.content) == (204, b"")
        assert "content-type" not in answer.headers

    def test_no_success_repeats_the_request_or_is_a_command_to_telegram(self, webhook):
        answer = webhook().post({"method": "sendMessage", "chat_id": 1, "text": "echo"}, x_request_id="echo")
        assert set(answer.json()) == {"status", "runId", "duplicate"}
        assert b"echo" not in answer.content


class TestHarmlessness:
    @pytest.mark.parametrize("method", ["POST", "GET", "HEAD", "OPTIONS", "PUT"])
    def test_every_answer_has_the_headers_that_keep_it_from_being_a_page(self, webhook, method):
        for path in (webhook().path, "/webhook/none", "/webhook"):
            answer = call(method, path)
            assert answer.headers.items() >= FIXED_HEADERS.items()

    def test_the_token_is_in_no_log_no_metric_and_no_refusal(self, webhook, caplog, client, settings):
        caplog.set_level(logging.DEBUG)
        settings.CSBOT_MAX_BODY = 100
        documents = webhook(params=[DOC], rate={"perSecond": 0.1, "burst": 6})
        answers = [
            documents.post(raw, type, **headers)
            for raw, type, headers in [
                ({"document": {"id": "1"}}, "application/json", {"idempotency_key": "1"}),
                ({"document": {"id": "2"}}, "application/json", {"idempotency_key": "1"}),
                (b"x" * 101, "application/json", {}),
                (b"{", "application/json", {}),
                ({}, "application/json", {}),
                (b"<a/>", "application/xml", {}),
                ({}, "application/json", {}),
            ]
        ]
        assert [answer.status for answer in answers] == [202, 422, 413, 400, 400, 415, 429]
        for method in ("POST", "PUT"):
            client.generic(method, documents.path, b"{", content_type="application/json")
        assert documents.token not in caplog.text
        assert all(documents.token.encode() not in answer.content for answer in answers)
        assert documents.token not in client.get("/metrics").content.decode()

    def test_answers_are_counted_by_status(self, webhook):
        documents = webhook()
        counted = metrics.ingest_requests.labels(code="202")
        before = counted._value.get()
        documents.post({})
        assert counted._value.get() == before + 1


class TestDjangosUrl:
    """The same door through Django's URLs, for whoever serves them without `csbot.wsgi`."""

    def test_it_is_the_same(self, webhook, client):
        documents = webhook(params=[DOC])
        answer = client.post(documents.path, b'{"document":{"id":"5"}}', content_type="application/json")
        assert answer.status_code == 202
        assert answer.json()["runId"] == str(documents.runs()[0].public_id)
        assert answer.headers["Content-Security-Policy"] == FIXED_HEADERS["content-security-policy"]
        assert client.get("/webhook/none").json() == call("GET", "/webhook/none").json()

    def test_no_form_token_is_asked_for(self, webhook, client):
        client.handler.enforce_csrf_checks = True
        assert client.post(webhook().path, b"{}", content_type="application/json").status_code == 202


class _Unreadable:
    def read(self, size: int) -> bytes:
        raise AssertionError("nothing was to be read")


class _Endless:
    """A chunked body without an end."""

    def __init__(self) -> None:
        self.given = 0

    def read(self, size: int) -> bytes:
        self.given += size
        return b"x" * size


def _send(target, stream, **environ) -> int:
    """POST with this body stream and environment; return the status."""
    said: list[str] = []
    given = {
        "REQUEST_METHOD": "POST", "PATH_INFO": target.path, "QUERY_STRING": "", "SERVER_NAME": "localhost",
        "SERVER_PORT": "80", "wsgi.input": stream, "wsgi.url_scheme": "http", "wsgi.input_terminated": True, **environ,
    }  # fmt: skip
    b"".join(application(given, lambda status, headers: said.append(status)))
    return int(said[0].split()[0])
