"""Secrets of a trigger: out of the document, sealed for one automation, kept by their marks."""

import uuid

import pytest

from automations import trigger_secrets
from automations.trigger_secrets import NONE, TriggerSecrets, put_back, take_out
from csbot.lib import crypto

STORED = TriggerSecrets(("first secret", "second secret"), "hub token")


def webhook(secrets=None, token=None, **signature):
    trigger = {"kind": "webhook", "params": []}
    if secrets is not None:
        trigger["signature"] = {"scheme": "github", "secrets": secrets, **signature}
    if token is not None:
        trigger["verify"] = {"kind": "hub", "token": token}
    return trigger


@pytest.mark.parametrize(
    ("sent", "kept", "taken", "marks"),
    [
        (["a"], (), ("a",), ["•••"]),
        (["a", "b"], (), ("a", "b"), ["•••", "•••2"]),
        (["•••"], ("a",), ("a",), ["•••"]),
        (["•••", "new"], ("old",), ("old", "new"), ["•••", "•••2"]),
        (["•••2"], ("old", "new"), ("new",), ["•••"]),
        (["•••2", "•••"], ("old", "new"), ("new", "old"), ["•••", "•••2"]),
        (["•••1"], ("a",), ("a",), ["•••"]),
        (["•••x"], ("a",), ("•••x",), ["•••"]),
        ([], ("a",), (), []),
        ([""], (), (), [""]),
        ([7, None, {"secret": "x"}], (), (), [None, None, None]),
    ],
)
def test_signature_secrets(sent, kept, taken, marks):
    masked, secrets, faults = take_out(webhook(sent), TriggerSecrets(kept))
    assert (secrets.signature, masked["signature"]["secrets"], faults) == (taken, marks, [])


@pytest.mark.parametrize("sent", [["•••"], ["•••3"], ["•••0"]])
def test_a_mark_of_nothing_is_a_fault(sent):
    kept = ("a", "b") if sent != ["•••"] else ()
    masked, secrets, faults = take_out(webhook(["fresh", *sent]), TriggerSecrets(kept))
    assert [(fault.pointer, fault.code) for fault in faults] == [
        ("/trigger/signature/secrets/1", "secret.missing")
    ]
    assert secrets.signature == ("fresh",)
    assert masked["signature"]["secrets"] == ["•••", "•••"]


@pytest.mark.parametrize(
    ("token", "kept", "taken", "mark", "faults"),
    [
        ("abc", None, "abc", "•••", []),
        ("•••", "abc", "abc", "•••", []),
        ("•••", None, None, "•••", ["/trigger/verify/token"]),
        ("", "abc", None, "", []),
        (12, "abc", None, None, []),
    ],
)
def test_verify_token(token, kept, taken, mark, faults):
    masked, secrets, found = take_out(webhook(token=token), TriggerSecrets(verify=kept))
    assert (secrets.verify, masked["verify"]["token"]) == (taken, mark)
    assert [fault.pointer for fault in found] == faults


@pytest.mark.parametrize(
    "trigger",
    [
        {"kind": "webhook", "signature": {"scheme": "hmac", "secret": "canary"}},
        {"kind": "webhook", "signature": {"scheme": "hmac", "secrets": "canary"}},
        {"kind": "webhook", "signature": {"scheme": "hmac", "secrets": [["canary"], {"a": "canary"}]}},
        {"kind": "webhook", "verify": {"kind": "hub", "verify_token": "canary", "token": ["canary"]}},
    ],
)
def test_a_secret_in_a_wrong_place_is_not_kept_either(trigger):
    masked, secrets, _faults = take_out(trigger, NONE)
    assert "canary" not in repr(masked)
    assert not secrets


def test_what_has_no_secrets_stays_as_it_is():
    for trigger in ({"kind": "manual"}, webhook(), {"signature": "nonsense", "verify": []}):
        assert take_out(trigger, STORED) == (trigger, NONE, [])


def test_the_given_trigger_is_not_touched():
    trigger = webhook(["a"], "b")
    take_out(trigger, NONE)
    assert trigger == webhook(["a"], "b")


def test_taken_out_and_put_back_is_the_same():
    trigger = webhook(["a", "b"], "c", header="x-sig")
    masked, secrets, _faults = take_out(trigger, NONE)
    assert put_back(masked, secrets) == trigger
    assert put_back({"kind": "webhook"}, NONE) == {"kind": "webhook"}


def test_sealed_secrets_open_for_their_own_automation_only():
    mine, other = uuid.uuid4(), uuid.uuid4()
    sealed = trigger_secrets.seal(STORED, tenant_id=1, automation_id=mine)
    assert "secret" not in sealed
    assert trigger_secrets.unseal(sealed, tenant_id=1, automation_id=mine) == STORED
    for tenant_id, automation_id in ((1, other), (2, mine)):
        with pytest.raises(crypto.DecryptionError):
            trigger_secrets.unseal(sealed, tenant_id=tenant_id, automation_id=automation_id)


def test_nothing_is_sealed_as_nothing():
    sealed = trigger_secrets.seal(NONE, tenant_id=1, automation_id=uuid.uuid4())
    assert sealed == ""
    assert trigger_secrets.unseal(sealed, tenant_id=1, automation_id=uuid.uuid4()) == NONE


def test_secrets_are_not_in_any_repr():
    assert "secret" not in repr(STORED).replace("TriggerSecrets", "")
    assert "hub token" not in repr(STORED)
