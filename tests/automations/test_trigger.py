"""Triggers of every kind, with every key (SPEC sections 2 and 13)."""

from decimal import Decimal
from typing import Any

import pytest

from automations import tree
from tests.automations.catalogue import PARAMS, WEBHOOK, Shop, document, faults

SIGNED = {"scheme": "github", "secrets": ["s"]}


def webhook(**more: Any) -> dict[str, Any]:
    return {**WEBHOOK, **more}


def ticket(**more: Any) -> dict[str, Any]:
    return {"kind": "ticket", "on": ["changed"], **more}


ACCEPTED = {
    "webhook": webhook(),
    "webhook without parameters": {"kind": "webhook", "params": []},
    "webhook with everything": webhook(
        signature={
            "scheme": "hmac",
            "secrets": ["a", "b"],
            "header": "X-Sig",
            "algorithm": "sha512",
            "encoding": "base64",
            "timestampHeader": "X-Time",
        },
        verify={"kind": "hub", "token": "t"},
        dedupe={"path": "id"},
        rate={"perSecond": Decimal("0.5"), "burst": 0},
        answer={"status": 200, "body": "code=0&message=OK", "contentType": "text/plain"},
        onRefusal="park",
        orderKey="{{orderId}}-{{_headers.x-shop}}",
        onEarlierFailed="proceed",
        priority=0,
    ),
    "dedupe by header": webhook(dedupe={"header": "X-Id"}, orderKey="data.order.id"),
    "empty answer": webhook(answer={"status": 204, "body": ""}),
    "JSON answer": webhook(answer={"body": '{"ok": [true]}', "contentType": "application/json"}),
    "ticket": ticket(),
    "ticket with everything": ticket(
        on=["created", "changed"],
        priority=9,
        orderKey="{{ticket.number}}",
        filter={"type": ["order"], "tags": "vip", "status": "new", "changed": ["status"]},
    ),
    "ticket, empty filter": ticket(filter={}),
    "poll": {"kind": "poll", "intervalSec": 10},
    "poll with the default period": {"kind": "poll"},
    "schedule": {"kind": "schedule", "cron": "0 7 * * 1-5"},
    "manual": {"kind": "manual", "params": PARAMS},
}


@pytest.mark.parametrize("trigger", ACCEPTED.values(), ids=ACCEPTED)
def test_triggers_that_are_read(trigger):
    read = tree.parse(document(trigger=trigger), Shop())
    assert read.trigger.kind == trigger["kind"]
    assert [param.dump() for param in read.trigger.params] == trigger.get("params", [])
    assert tree.dump(read)["trigger"] == trigger
    assert dict(read.trigger.settings) == {
        key: value for key, value in trigger.items() if key not in ("kind", "params")
    }


REFUSED = {
    "no kind": ({}, ["/kind"]),
    "unknown kind": ({"kind": "call"}, ["/kind"]),
    "keys of another kind": (webhook(cron="* * * * *", on=["created"]), ["/cron", "/on"]),
    "parameters of a poll": ({"kind": "poll", "params": []}, ["/params"]),
    "parameters": (webhook(params=[{"name": "a"}, {"name": "a"}]), ["/params/1/id", "/params/1/name"]),
    "parameters no array": (webhook(params={}), ["/params"]),
    "signature": (webhook(signature="github"), ["/signature"]),
    "empty signature": (webhook(signature={}), ["/signature/scheme", "/signature/secrets"]),
    "unknown scheme": (
        webhook(signature={**SIGNED, "scheme": "md5", "x": 1}),
        ["/signature/x", "/signature/scheme"],
    ),
    "no secrets": (webhook(signature={**SIGNED, "secrets": []}), ["/signature/secrets"]),
    "empty secrets": (
        webhook(signature={**SIGNED, "secrets": ["", None]}),
        ["/signature/secrets/0", "/signature/secrets/1"],
    ),
    "secrets no array": (webhook(signature={**SIGNED, "secrets": "s"}), ["/signature/secrets"]),
    "hmac without header": (webhook(signature={**SIGNED, "scheme": "hmac"}), ["/signature/header"]),
    "wrong hmac": (
        webhook(
            signature={
                "scheme": "hmac",
                "secrets": ["s"],
                "header": "",
                "algorithm": "md5",
                "encoding": "x",
                "timestampHeader": 5,
            }
        ),
        ["/signature/header", "/signature/algorithm", "/signature/encoding", "/signature/timestampHeader"],
    ),
    "verify": (webhook(verify=True), ["/verify"]),
    "empty verify": (webhook(verify={}), ["/verify/kind", "/verify/token"]),
    "unknown verify": (webhook(verify={"kind": "x", "token": ""}), ["/verify/kind", "/verify/token"]),
    "dedupe": (webhook(dedupe="id"), ["/dedupe"]),
    "dedupe by nothing": (webhook(dedupe={}), ["/dedupe"]),
    "dedupe by both": (webhook(dedupe={"header": "a", "path": "b"}), ["/dedupe"]),
    "dedupe by a number": (webhook(dedupe={"path": 5}), ["/dedupe/path"]),
    "rate": (webhook(rate=5), ["/rate"]),
    "wrong rate": (
        webhook(rate={"perSecond": -1, "burst": Decimal("1.5")}),
        ["/rate/perSecond", "/rate/burst"],
    ),
    "answer": (webhook(answer=200), ["/answer"]),
    "wrong answer": (
        webhook(answer={"status": 302, "contentType": "text/html", "body": 5}),
        ["/answer/status", "/answer/contentType", "/answer/body"],
    ),
    "body of 204": (webhook(answer={"status": 204, "body": "x"}), ["/answer/body"]),
    "no JSON": (webhook(answer={"body": "OK", "contentType": "application/json"}), ["/answer/body"]),
    "a command": (webhook(answer={"body": '[{"a": {"method": "sendMessage"}}]'}), ["/answer/body"]),
    "onRefusal": (webhook(onRefusal="ignore"), ["/onRefusal"]),
    "orderKey": (webhook(orderKey=""), ["/orderKey"]),
    "orderKey, bad syntax": (webhook(orderKey="{{a"), ["/orderKey", "/orderKey"]),
    "orderKey of nothing": (webhook(orderKey="{{nowhere}}"), ["/orderKey"]),
    "endless orderKey": (webhook(orderKey="a." * 101), ["/orderKey"]),
    "onEarlierFailed": (webhook(onEarlierFailed="stop"), ["/onEarlierFailed"]),
    "priorities": (webhook(priority=10), ["/priority"]),
    "priority of a text": (webhook(priority="5"), ["/priority"]),
    "on no array": (ticket(on="created"), ["/on"]),
    "on nothing": (ticket(on=[]), ["/on"]),
    "on unknown": (ticket(on=["created", "closed", 5]), ["/on/2", "/on/1"]),
    "filter": (ticket(filter=[]), ["/filter"]),
    "wrong filter": (
        ticket(filter={"type": "nothing", "status": None, "tags": [""], "changed": "status", "x": 1}),
        ["/filter/x", "/filter/status", "/filter/tags/0", "/filter/changed", "/filter/type"],
    ),
    "unknown types": (ticket(filter={"type": ["order", "nothing"]}), ["/filter/type/1"]),
    "poll too often": ({"kind": "poll", "intervalSec": 9}, ["/intervalSec"]),
    "poll of a text": ({"kind": "poll", "intervalSec": "60"}, ["/intervalSec"]),
    "schedule without cron": ({"kind": "schedule"}, ["/cron"]),
    "wrong cron": ({"kind": "schedule", "cron": "@daily"}, ["/cron"]),
    "cron of a number": ({"kind": "schedule", "cron": 5}, ["/cron"]),
}


@pytest.mark.parametrize(("trigger", "pointers"), REFUSED.values(), ids=REFUSED)
def test_triggers_that_are_refused(trigger, pointers):
    assert [pointer for pointer, _ in faults(document(trigger=trigger))] == [
        f"/trigger{pointer}" for pointer in pointers
    ]
