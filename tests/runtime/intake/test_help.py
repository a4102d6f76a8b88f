"""GET on a webhook's address: help for its sender as JSON and as a page, or a challenge's echo."""

import re

import pytest

from tests.runtime.intake.conftest import AMOUNT, DOC

pytestmark = pytest.mark.django_db

VERIFY = {"kind": "hub", "token": "v3rify"}


class TestHelp:
    def test_json_by_default(self, webhook):
        documents = webhook(params=[DOC, AMOUNT])
        answer = documents.get()
        assert answer.headers["content-type"] == "application/json"
        told = answer.json()
        assert (told["method"], told["url"]) == ("POST", f"http://testserver{documents.path}")
        assert told["params"][0] == {
            "name": "docId",
            "path": "document.id",
            "type": "string",
            "required": True,
        }
        assert "application/json" in told["contentTypes"]
        assert {"202", "400", "401", "404", "413", "415", "422", "429", "503"} <= set(told["answers"])

    def test_the_sample_is_taken(self, webhook):
        documents = webhook(params=[DOC, AMOUNT])
        assert documents.post(documents.get().json()["sample"]).status == 202

    def test_a_page_for_a_browser(self, webhook):
        documents = webhook(params=[DOC], signature={"scheme": "github", "secrets": ["s3cret"]})
        answer = documents.get(accept="text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
        page = answer.content.decode()
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert documents.path in page
        assert "document.id" in page
        assert "scheme: github" in page
        assert "s3cret" not in page

    def test_the_page_may_use_its_own_style_and_nothing_else(self, webhook):
        answer = webhook().get(accept="text/html")
        policy = answer.headers["content-security-policy"]
        (nonce,) = re.findall(r"style-src 'nonce-([\w-]+)'", policy)
        page = answer.content.decode()
        assert policy == f"sandbox; default-src 'none'; style-src 'nonce-{nonce}'"
        assert f'<style nonce="{nonce}">' in page
        assert "<script" not in page
        assert "style=" not in page
        assert "http" not in page.replace("http://testserver", "")
        assert webhook().get(accept="text/html").headers["content-security-policy"] != policy

    def test_names_are_no_markup(self, webhook, shop):
        documents = webhook(params=[{**DOC, "path": "<b>"}])
        page = documents.get(accept="text/html").content.decode()
        assert "<b>" not in page

    @pytest.mark.parametrize(
        ("accept", "is_page"),
        [
            ("", False),
            ("*/*", False),
            ("application/json, text/html", True),
            ("application/json, text/html;q=0.5", False),
            ("text/html;q=0", False),
            ("text/html;q=much", False),
            ("TEXT/HTML", True),
        ],
    )
    def test_what_accept_asks_for(self, webhook, accept, is_page):
        answer = webhook().get(accept=accept)
        assert answer.headers["content-type"].startswith("text/html" if is_page else "application/json")

    @pytest.mark.parametrize(
        ("asked", "language"),
        [("cs", "cs"), ("en-GB,cs;q=0.5", "en"), ("de, cs;q=0.1", "cs"), ("", "en"), ("x", "en")],
    )
    def test_the_language_is_the_readers_or_the_tenants(self, webhook, asked, language):
        page = webhook().get(accept="text/html", accept_language=asked).content.decode()
        assert f'<html lang="{language}">' in page


class TestChallenge:
    def test_it_is_echoed_as_text_after_the_token_matched(self, webhook):
        answer = webhook(verify=VERIFY).get(
            "hub.mode=subscribe&hub.verify_token=v3rify&hub.challenge=115<b>8"
        )
        assert (answer.status, answer.content) == (200, b"115<b>8")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"

    @pytest.mark.parametrize("token", ["other", "", "v3rif", "ž"])
    def test_another_token_is_refused_without_an_echo(self, webhook, token):
        answer = webhook(verify=VERIFY).get(
            f"hub.mode=subscribe&hub.verify_token={token}&hub.challenge=1158201444"
        )
        assert answer.status == 401
        assert b"1158201444" not in answer.content

    def test_no_token_is_refused(self, webhook):
        assert webhook(verify=VERIFY).get("hub.mode=subscribe&hub.challenge=1").status == 401

    def test_another_mode_is_refused(self, webhook):
        assert webhook(verify=VERIFY).get("hub.mode=x&hub.verify_token=v3rify&hub.challenge=1").status == 400

    @pytest.mark.parametrize(("length", "status"), [(256, 200), (257, 400)])
    def test_so_long_a_challenge_is_echoed(self, webhook, length, status):
        challenge = "1" * length
        answer = webhook(verify=VERIFY).get(
            f"hub.mode=subscribe&hub.verify_token=v3rify&hub.challenge={challenge}"
        )
        assert answer.status == status
        assert (challenge.encode() in answer.content) == (status == 200)

    def test_without_a_challenge_it_is_help(self, webhook):
        assert webhook(verify=VERIFY).get().json()["method"] == "POST"

    def test_a_trigger_that_does_not_verify_gives_help(self, webhook):
        answer = webhook().get("hub.mode=subscribe&hub.verify_token=v3rify&hub.challenge=1158201444")
        assert answer.json()["method"] == "POST"
        assert b"1158201444" not in answer.content

    def test_more_fields_than_any_challenge_has_are_help(self, webhook):
        assert webhook(verify=VERIFY).get("&".join(f"a{n}=1" for n in range(100))).status == 200
