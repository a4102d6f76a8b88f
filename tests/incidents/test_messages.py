"""What the client reads: every error code has its texts in both languages, and nothing untrue is promised."""

import dataclasses
import re

import pytest

from connectors import providers
from incidents import messages

HTTP = [f"http.{status}" for status in (301, 400, 401, 403, 404, 405, 409, 410, 418, 422, 429, 500, 502, 503)]
CODES = [code for code in messages.ERROR_CODES if code != "http.<status>"] + HTTP
ORDERS = {"ticket": "TK-4822", "automation": "Orders", "connection": "shop"}


@pytest.mark.parametrize("code", [*CODES, *messages.TITLES])
@pytest.mark.parametrize("params", [ORDERS, {"automation": "Orders"}, {}, dict.fromkeys(ORDERS)])
def test_every_code_has_both_sentences_in_both_languages(code, params):
    english, czech = (messages.texts(code, params, language) for language in ("en", "cs"))

    assert messages.has_text(code)
    for shown in (english.title, english.impact, czech.title, czech.impact):
        assert shown
        assert "%(" not in shown
        assert "None" not in shown
    assert english.title != czech.title
    assert english.impact != czech.impact


def test_the_tone_of_the_contract():
    shown = messages.texts("http.401", ORDERS, "cs")

    assert shown.title == "Automatizace u ticketu TK-4822 nedoběhla do konce, data jsme neztratili."
    assert shown.impact.startswith("Služba „shop“ nám odmítla přístup.")


@pytest.mark.parametrize(
    ("params", "title"),
    [
        (ORDERS, "The automation at ticket TK-4822 did not finish, no data was lost."),
        ({**ORDERS, "several": True}, "The automation “Orders” did not finish, no data was lost."),
        ({"automation": "Orders"}, "The automation “Orders” did not finish, no data was lost."),
        ({}, "An automation did not finish, no data was lost."),
    ],
)
def test_the_title_names_the_ticket_else_the_automation(params, title):
    assert messages.texts("http.401", params, "en").title == title


@pytest.mark.parametrize(
    ("code", "params"),
    [("net.unknown", ORDERS), ("http.500", {**ORDERS, "uncertain": True}), ("net.unknown", {})],
)
@pytest.mark.parametrize("language", ["en", "cs"])
def test_nothing_is_promised_where_nobody_knows(code, params, language):
    shown = messages.texts(code, params, language)

    assert not re.search("no data was lost|neztratili", f"{shown.title} {shown.impact}")
    assert re.search("not certain|není jisté", shown.title, re.IGNORECASE)
    assert re.search("decides|nerozhodne", shown.impact)


@pytest.mark.parametrize(
    ("known", "unknown"), [("http.302", "http.3"), ("http.418", "http.teapot"), ("http.599", "ftp.500")]
)
def test_statuses_without_a_text_of_their_own_read_by_their_class(known, unknown):
    assert messages.has_text(known)
    assert not messages.has_text(unknown)
    assert messages.texts(unknown, {}, "en").impact == messages.UNKNOWN_IMPACT


def test_an_author_speaks_for_himself():
    said = messages.texts("flow.fail", {**ORDERS, "message": "50 % of the items are missing"}, "en")

    assert said.impact == "The automation ended itself and says: 50 % of the items are missing"
    assert messages.texts("flow.fail", ORDERS, "en").impact != said.impact


def test_names_are_data_and_never_a_format():
    shown = messages.texts("http.404", {"automation": "%(ticket)s %d", "connection": "100 %s"}, "en")

    assert "“%(ticket)s %d”" in shown.title
    assert "“100 %s”" in shown.impact


@pytest.fixture
def teleport(monkeypatch):
    """A provider with a code of its own, as adding one to `connectors/providers` would declare it."""
    said = {"en": ("The beam is off.", "Switch it on."), "cs": ("Paprsek je vypnutý.", "Zapněte ho.")}
    provider = dataclasses.replace(providers.find("http"), name="teleport", texts={"teleport.off": said})
    monkeypatch.setitem(providers._providers, provider.name, provider)


@pytest.mark.usefixtures("teleport")
def test_a_provider_speaks_of_its_own_codes():
    assert messages.has_text("teleport.off")
    assert messages.texts("teleport.off", ORDERS, "cs") == messages.Texts(
        "Paprsek je vypnutý.", "Zapněte ho."
    )
    assert messages.texts("teleport.off", ORDERS, "en").impact == "Switch it on."


@pytest.mark.usefixtures("teleport")
def test_also_a_providers_code_promises_nothing_where_nobody_knows():
    assert "not certain" in messages.texts("teleport.off", {"uncertain": True}, "en").title
