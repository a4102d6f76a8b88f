"""How a webhook is reached: address, parameters, sample, curl and the help of GET."""

import shlex

import pytest
from django.utils import translation

from automations import contract, webhook
from automations.contract import Values
from automations.models import Automation, AutomationVersion
from csbot.lib.json import loads

URL = "https://desk.example.test/webhook/tok"
ORDER = {"id": "f_order", "name": "orderId", "path": "data.order.id", "type": "string", "required": True}
PRICE = {"id": "f_price", "name": "price", "path": "data.price", "type": "number", "required": False}
TRIGGER = {"kind": "webhook", "params": [ORDER, PRICE]}


def test_the_address_is_built_from_the_public_url(settings):
    settings.CSBOT_PUBLIC_URL = "https://desk.example.test"
    assert webhook.address("tok") == URL


def test_description_has_method_address_parameters_and_a_sample_that_fulfils_the_contract():
    told = webhook.description(URL, TRIGGER)
    assert told["method"] == "POST"
    assert told["url"] == URL
    assert told["params"] == [ORDER, PRICE]
    params = contract.parse_params(TRIGGER["params"])
    values = contract.extract(params, told["sample"], zone=None)
    assert isinstance(values, Values)
    assert set(values.values) == {"orderId", "price"}


@pytest.mark.parametrize("name", ["orderId", "kolik'je", "$(reboot)", '"'])
def test_curl_sends_exactly_the_sample(name):
    sample = {"data": {"order": {"id": name}}}
    parts = shlex.split(webhook.curl(URL, sample))
    assert parts[:4] == ["curl", "-X", "POST", URL]
    assert parts[parts.index("-H") + 1] == "Content-Type: application/json"
    assert loads(parts[parts.index("-d") + 1]) == sample


@pytest.mark.parametrize("params", [None, "nonsense", [], [7], [{"name": "a.b", "path": 3}], {"id": 1}])
def test_an_unfinished_contract_can_be_described_too(params):
    told = webhook.description(URL, {"kind": "webhook", "params": params})
    assert told["url"] == URL
    assert isinstance(told["params"], list)


def test_help_tells_a_sender_what_it_needs_and_no_secret():
    signature = {"scheme": "hmac", "secrets": ["•••"], "header": "x-sign", "algorithm": "sha256"}
    told = webhook.help_of(URL, {**TRIGGER, "signature": signature})
    assert told["params"][0] == {key: ORDER[key] for key in ("name", "path", "type", "required")}
    assert "application/json" in told["contentTypes"]
    assert told["signature"] == {"scheme": "hmac", "header": "x-sign", "algorithm": "sha256"}
    assert {"202", "400", "401", "404", "413", "415", "422", "429", "503"} == set(told["answers"])
    assert webhook.help_of(URL, TRIGGER)["signature"] is None


def test_help_tells_the_answer_that_the_trigger_sets():
    told = webhook.help_of(URL, {**TRIGGER, "answer": {"status": 200}, "onRefusal": "park"})
    assert "200" in told["answers"]
    assert not {"202", "400"} & set(told["answers"])


def test_help_names_the_largest_body_of_this_installation(settings):
    settings.CSBOT_MAX_BODY = 4711
    with translation.override("en"):
        assert "4711" in webhook.help_of(URL, TRIGGER)["answers"]["413"]


@pytest.mark.parametrize(
    ("published", "draft", "found"),
    [
        (None, TRIGGER, TRIGGER),
        (None, {"kind": "manual"}, None),
        (TRIGGER, {"kind": "manual"}, TRIGGER),
        ({"kind": "manual"}, TRIGGER, TRIGGER),
        (TRIGGER, {**TRIGGER, "params": []}, TRIGGER),
        (None, {"kind": ["webhook"]}, None),
        (None, {}, None),
    ],
)
def test_senders_meet_the_published_trigger_before_that_the_drafts(published, draft, found):
    version = AutomationVersion(tree={"trigger": published, "steps": []}) if published else None
    automation = Automation(draft={"trigger": draft, "steps": []}, published=version)
    assert webhook.trigger_of(automation) == found
