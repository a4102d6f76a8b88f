"""The trigger of a tree: what starts an automation, with every setting of SPEC sections 2 and 13. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from automations import body, contract, cron, expressions, paths
from automations.body import BodyError
from automations.contract import Parameter
from automations.cron import CronError
from automations.expressions import TemplateError
from automations.faults import Faults, below

# Keys that each kind may have; the order and priority of runs are every trigger's (SPEC sections 5.2 and
# 5.8).
_RUNS = ("orderKey", "onEarlierFailed", "priority")
KEYS: dict[str, tuple[str, ...]] = {
    "webhook": ("params", "signature", "verify", "dedupe", "rate", "answer", "onRefusal", *_RUNS),
    "ticket": ("on", "filter", *_RUNS),
    "poll": ("intervalSec", *_RUNS),
    "schedule": ("cron", *_RUNS),
    "manual": ("params", *_RUNS),
}
SCHEMES = ("standard", "github", "stripe", "shopify", "shoptet", "woocommerce", "hmac")
ALGORITHMS = ("sha1", "sha256", "sha384", "sha512")
EVENTS = ("created", "changed")
# SPEC section 7.
MIN_INTERVAL_SECONDS = 10
# A poll that comes less often than once in 30 days is a schedule.
MAX_INTERVAL_SECONDS = 30 * 86_400
_MAX_RATE = 1_000_000


@dataclass(frozen=True, slots=True)
class Trigger:
    """What starts an automation; `settings` are the keys besides `kind` and `params`, checked and as posted."""

    kind: str
    params: tuple[Parameter, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def dump(self) -> dict[str, Any]:
        """Return the trigger as it stands in a tree."""
        raw: dict[str, Any] = {"kind": self.kind}
        if "params" in KEYS[self.kind]:
            raw["params"] = [param.dump() for param in self.params]
        return {**raw, **self.settings}


UNKNOWN = Trigger("")
"""Stands for a trigger that cannot be read, so that the steps are checked all the same."""


def read(raw: Any, faults: Faults, pointer: str) -> Trigger:
    """Return the trigger, and add a fault for each thing that is wrong with it."""
    if not isinstance(raw, dict):
        faults.expected(pointer, "an object", raw)
        return UNKNOWN
    kind = faults.choice(raw, "kind", pointer, tuple(KEYS), required=True)
    if kind is None:
        return UNKNOWN
    part = faults.object(raw, pointer, known=("kind", *KEYS[kind])) or {}
    for key, check in _CHECKS.items():
        if key in part and key in KEYS[kind]:
            check(part, faults, pointer)
    for key in _REQUIRED.get(kind, ()):
        if key not in part:
            faults.add(below(pointer, key), "key.missing", f"A {kind} trigger needs `{key}`.")
    params = (
        contract.read_params(part["params"], faults, below(pointer, "params")) if "params" in part else []
    )
    settings = {key: value for key, value in part.items() if key in KEYS[kind] and key != "params"}
    return Trigger(kind, tuple(params), settings)


_REQUIRED = {"schedule": ("cron",)}


def _signature(part: dict[str, Any], faults: Faults, pointer: str) -> None:
    place = below(pointer, "signature")
    keys = ("scheme", "secrets", "header", "algorithm", "encoding", "timestampHeader")
    signature = faults.object(part["signature"], place, known=keys)
    if signature is None:
        return
    scheme = faults.choice(signature, "scheme", place, SCHEMES, required=True)
    if "secrets" not in signature:
        faults.add(below(place, "secrets"), "key.missing", "Expected `secrets`, an array of texts.")
    elif not faults.texts(signature["secrets"], below(place, "secrets")) and signature["secrets"] == []:
        faults.add(below(place, "secrets"), "value.invalid", "Expected at least one secret.")
    faults.text(signature, "header", place, required=scheme == "hmac")
    faults.choice(signature, "algorithm", place, ALGORITHMS)
    faults.choice(signature, "encoding", place, ("hex", "base64"))
    faults.text(signature, "timestampHeader", place)


def _verify(part: dict[str, Any], faults: Faults, pointer: str) -> None:
    place = below(pointer, "verify")
    verify = faults.object(part["verify"], place, known=("kind", "token"))
    if verify is not None:
        faults.choice(verify, "kind", place, ("hub",), required=True)
        faults.text(verify, "token", place, required=True)


def _dedupe(part: dict[str, Any], faults: Faults, pointer: str) -> None:
    place = below(pointer, "dedupe")
    dedupe = faults.object(part["dedupe"], place, known=("header", "path"))
    if dedupe is None:
        return
    if ("header" in dedupe) == ("path" in dedupe):
        faults.add(place, "value.invalid", "Expected either `header` or `path`.")
    faults.text(dedupe, "header", place)
    faults.text(dedupe, "path", place)


def _rate(part: dict[str, Any], faults: Faults, pointer: str) -> None:
    place = below(pointer, "rate")
    rate = faults.object(part["rate"], place, known=("perSecond", "burst"))
    if rate is not None:
        faults.number(rate, "perSecond", place, low=0, high=_MAX_RATE, whole=False)
        faults.number(rate, "burst", place, low=0, high=_MAX_RATE)


def _answer(part: dict[str, Any], faults: Faults, pointer: str) -> None:
    """Check the success answer of SPEC section 2.5; a key `method` would be a command to Telegram."""
    place = below(pointer, "answer")
    answer = faults.object(part["answer"], place, known=("status", "body", "contentType"))
    if answer is None:
        return
    status = faults.number(answer, "status", place, low=200, high=204)
    type_ = faults.choice(answer, "contentType", place, ("application/json", "text/plain"))
    text = faults.text(answer, "body", place, blank=True)
    if not text:
        return
    if status == 204:
        faults.add(below(place, "body"), "value.invalid", "An answer with status 204 has no body.")
    try:
        value = body.read_json(text).value
    except BodyError as error:
        if type_ == "application/json":
            faults.add(below(place, "body"), "value.invalid", f"Expected JSON. {error.message}")
        return
    if _has_key(value, "method"):
        faults.add(below(place, "body"), "value.invalid", "The answer must not have a key `method`.")


def _has_key(value: Any, key: str) -> bool:
    if isinstance(value, dict):
        return key in value or any(_has_key(part, key) for part in value.values())
    return isinstance(value, list) and any(_has_key(part, key) for part in value)


def _on(part: dict[str, Any], faults: Faults, pointer: str) -> None:
    place = below(pointer, "on")
    events = faults.texts(part["on"], place)
    if part["on"] == []:
        faults.add(place, "value.invalid", f"Expected at least one of {', '.join(EVENTS)}.")
    for event in events:
        if event not in EVENTS:
            index = part["on"].index(event)
            faults.add(f"{place}/{index}", "value.invalid", f"Expected one of {', '.join(EVENTS)}.")


def _filter(part: dict[str, Any], faults: Faults, pointer: str) -> None:
    """Check a ticket filter: one text or several each, `changed` an array of names of fields."""
    place = below(pointer, "filter")
    given = faults.object(part["filter"], place, known=("type", "tags", "status", "changed"))
    for key, value in (given or {}).items():
        if key in ("type", "tags", "status", "changed"):
            faults.texts([value] if isinstance(value, str) and key != "changed" else value, below(place, key))


def _cron(part: dict[str, Any], faults: Faults, pointer: str) -> None:
    text = faults.text(part, "cron", pointer)
    if text is None:
        return
    try:
        cron.parse(text)
    except CronError as error:
        faults.add(below(pointer, "cron"), "value.invalid", str(error))


def _order_key(part: dict[str, Any], faults: Faults, pointer: str) -> None:
    text = faults.text(part, "orderKey", pointer)
    if text is None:
        return
    try:
        expressions.placeholders(text)
    except TemplateError as error:
        faults.add(below(pointer, "orderKey"), "template.invalid", str(error))
    if len(paths.split(text)) > paths.MAX_KEYS:
        faults.add(below(pointer, "orderKey"), "value.invalid", f"Expected at most {paths.MAX_KEYS} keys.")


_CHECKS: dict[str, Callable[[dict[str, Any], Faults, str], object]] = {
    "signature": _signature,
    "verify": _verify,
    "dedupe": _dedupe,
    "rate": _rate,
    "answer": _answer,
    "onRefusal": lambda part, faults, at: faults.choice(part, "onRefusal", at, ("refuse", "park")),
    "on": _on,
    "filter": _filter,
    "intervalSec": lambda part, faults, at: faults.number(
        part, "intervalSec", at, low=MIN_INTERVAL_SECONDS, high=MAX_INTERVAL_SECONDS
    ),
    "cron": _cron,
    "orderKey": _order_key,
    "onEarlierFailed": lambda part, faults, at: faults.choice(
        part, "onEarlierFailed", at, ("hold", "proceed")
    ),
    "priority": lambda part, faults, at: faults.number(part, "priority", at, low=0, high=9),
}
