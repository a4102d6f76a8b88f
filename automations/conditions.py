"""Conditions: rules over what arrived, each answered with what was compared (SPEC section 3.2). Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, NamedTuple, TypeAlias

from automations import dates, values
from automations.values import MISSING, NotArrived, is_empty, number_in, text_of


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a condition; `value` is a template until it is rendered, `pointer` its place in the document."""

    field_id: str
    operator: str
    value: Any = None
    pointer: str = field(default="", compare=False)


class Found(NamedTuple):
    """What a field holds: its value (MISSING when it did not arrive), its type, the name that a log line shows.

    `type` is a parameter's or a custom field's; only `date` matters here. `name` is the field's id when left
    out.
    """

    value: Any
    type: str | None = None
    name: str | None = None


Lookup: TypeAlias = Callable[[str], Found | NotArrived]


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What came of one rule. `value` and `actual` are MISSING where nothing arrived.

    `reason` is `incomparable` where an ordering met neither two numbers nor two dates, else None.
    """

    field_id: str
    operator: str
    value: Any
    actual: Any
    arrived: bool
    met: bool
    reason: str | None = None
    name: str | None = None

    def line(self, language: str) -> str:
        """Return the line for the log in `en` or `cs`, telling *not arrived* from *empty*."""
        words = _WORDS.get(language, _WORDS["en"])
        name = self.name or self.field_id
        rule = f"{name} {self.operator}"
        told = f"{name} = {_shown(self.actual, words)}"
        if self.operator not in UNARY:
            rule = f"{rule} {_short(text_of(self.value))}".rstrip()
            told = f"{told}, {words.compared} {_shown(self.value, words)}"
        if self.reason:
            told = f"{told}: {words.incomparable}"
        return f"{rule}: {words.met if self.met else words.not_met} | {told}"

    def as_dict(self) -> dict[str, Any]:
        """Return the rule as a step's JSON shows it (SPEC section 13); what did not arrive is null."""
        return {
            "fieldId": self.field_id,
            "operator": self.operator,
            "value": None if self.value is MISSING else self.value,
            "actual": None if self.actual is MISSING else self.actual,
            "arrived": self.arrived,
            "met": self.met,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the condition is met, and what came of each of its rules."""

    met: bool
    rules: list[RuleResult]

    def lines(self, language: str) -> list[str]:
        """Return the log lines of all rules."""
        return [rule.line(language) for rule in self.rules]


def evaluate(
    rules: Sequence[Rule],
    match: str,
    lookup: Lookup,
    *,
    zone: tzinfo,
    changes: Mapping[str, Any] | None = None,
) -> Verdict:
    """Return the verdict of rules whose values are rendered; all of them are looked at, for the log.

    `match` is `all` or `any`; `zone` is the tenant's, for dates without one; `changes` are those of a ticket
    run, `{"status": {"from", "to"}}`.
    """
    results = [_result(rule, lookup(rule.field_id), zone, changes or {}) for rule in rules]
    met = [result.met for result in results]
    return Verdict(all(met) if match == "all" else any(met), results)


def _result(rule: Rule, found: Found | NotArrived, zone: tzinfo, changes: Mapping[str, Any]) -> RuleResult:
    field_ = Found(MISSING) if found is MISSING else found
    sides = _Sides(
        field_.value, rule.value, field_.type, zone, _change_of(rule.field_id, field_.name, changes)
    )
    met = OPERATORS[rule.operator](sides)
    return RuleResult(
        rule.field_id,
        rule.operator,
        rule.value,
        field_.value,
        arrived=field_.value is not MISSING,
        met=bool(met),
        reason="incomparable" if met is None else None,
        name=field_.name,
    )


def _change_of(field_id: str, name: str | None, changes: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the change of a field, or None.

    It is asked for as `status`, `ticket.status`, `ticket.fields.color` or by the custom field's id, whose
    `name` is the key of the field; changes name a custom field `fields.color`.
    """
    plain = field_id.removeprefix("ticket.")
    for key in (field_id, plain, f"fields.{name}", name):
        if key is not None and key in changes:
            change: Mapping[str, Any] = changes[key]
            return change
    return None


class _Sides(NamedTuple):
    """The two sides of a rule, and what is known about the first."""

    actual: Any
    value: Any
    type: str | None
    zone: tzinfo
    change: Mapping[str, Any] | None

    def with_actual(self, actual: Any) -> _Sides:
        return self._replace(actual=actual)


# --- comparing ----------------------------------------------------------------------------------------------


def _equal(sides: _Sides) -> bool:
    """Compare for `eq`: empty equals empty, dates as instants, numbers as numbers, text in NFC, else by member."""
    one, other = sides.actual, sides.value
    if is_empty(one) or is_empty(other):
        return is_empty(one) and is_empty(other)
    if (instants := _instants(sides)) is not None:
        return instants[0] == instants[1]
    if values.is_number(one) or values.is_number(other):
        numbers = number_in(one), number_in(other)
        return None not in numbers and numbers[0] == numbers[1]
    return _same(one, other, sides)


def _same(one: Any, other: Any, sides: _Sides) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _equal(sides._replace(actual=a, value=b)) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _equal(sides._replace(actual=one[key], value=other[key])) for key in one
        )
    if isinstance(one, list | dict) or isinstance(other, list | dict):
        return False
    return _nfc(one) == _nfc(other)


def _instants(sides: _Sides) -> tuple[datetime, datetime] | None:
    """Return both sides as instants when both are dates.

    A date is a text in ISO form; beside a field of type `date` the other side may be in Czech form as well.
    """
    read = dates.read if sides.type == "date" else dates.read_iso
    found = []
    for side in (sides.actual, sides.value):
        moment = read(side, sides.zone) if isinstance(side, str) else None
        instant = dates.instant(moment, sides.zone) if moment is not None else None
        if instant is None:
            return None
        found.append(instant)
    return found[0], found[1]


def _nfc(value: Any) -> str:
    return unicodedata.normalize("NFC", text_of(value))


def _order(sides: _Sides) -> int | None:
    """Return the sign of the comparison, or None where there is none."""
    pair: tuple[Any, Any] | None = _instants(sides)
    if pair is None:
        pair = number_in(sides.actual), number_in(sides.value)
    one, other = pair
    if one is None or other is None:
        return None
    return (one > other) - (one < other)


def _ordering(fits: Callable[[int], bool]) -> Callable[[_Sides], bool | None]:
    """Return an operator that does not hold beside an empty side, and answers None for what has no order."""

    def operator(sides: _Sides) -> bool | None:
        if is_empty(sides.actual) or is_empty(sides.value):
            return False
        sign = _order(sides)
        return None if sign is None else fits(sign)

    return operator


def _contains(sides: _Sides) -> bool:
    """Ask an array for a member and text for a part; the empty text is part of nothing."""
    if isinstance(sides.actual, list):
        return any(_equal(sides.with_actual(member)) for member in sides.actual)
    return _text_test(sides, lambda text, part: part in text)


def _text_test(sides: _Sides, test: Callable[[str, str], bool]) -> bool:
    if isinstance(sides.actual, list | dict) or isinstance(sides.value, list | dict):
        return False
    part = _nfc(sides.value)
    return part != "" and test(_nfc(sides.actual), part)


def _in(sides: _Sides) -> bool:
    """Ask whether the value, or a member of an array, equals one of the list; a single value is a list of one."""
    listed = sides.value if isinstance(sides.value, list) else [sides.value]
    asked = [sides.actual, *sides.actual] if isinstance(sides.actual, list) else [sides.actual]
    return any(_equal(sides._replace(actual=one, value=other)) for one in asked for other in listed)


def _changed_to(sides: _Sides) -> bool:
    """Ask whether the change ended at the value; of an array, whether the value came in."""
    if sides.change is None:
        return False
    before, after = sides.change.get("from"), sides.change.get("to")
    if isinstance(after, list) and not isinstance(sides.value, list):
        had = isinstance(before, list) and _contains(sides.with_actual(before))
        return not had and _contains(sides.with_actual(after))
    return _equal(sides.with_actual(after))


OPERATORS: dict[str, Callable[[_Sides], bool | None]] = {
    "eq": _equal,
    "neq": lambda sides: not _equal(sides),
    "gt": _ordering(lambda sign: sign > 0),
    "gte": _ordering(lambda sign: sign >= 0),
    "lt": _ordering(lambda sign: sign < 0),
    "lte": _ordering(lambda sign: sign <= 0),
    "contains": _contains,
    "notContains": lambda sides: not _contains(sides),
    "startsWith": lambda sides: _text_test(sides, str.startswith),
    "endsWith": lambda sides: _text_test(sides, str.endswith),
    "in": _in,
    "notIn": lambda sides: not _in(sides),
    "isEmpty": lambda sides: is_empty(sides.actual),
    "isNotEmpty": lambda sides: not is_empty(sides.actual),
    "isTrue": lambda sides: values.boolean_in(sides.actual) is True,
    "isFalse": lambda sides: values.boolean_in(sides.actual) is False,
    "changed": lambda sides: sides.change is not None,
    "changedTo": _changed_to,
}
UNARY = frozenset({"isEmpty", "isNotEmpty", "isTrue", "isFalse", "changed"})
ORDERING = frozenset({"gt", "gte", "lt", "lte"})
OF_TICKET_RUNS = frozenset({"changed", "changedTo"})

# --- telling ------------------------------------------------------------------------------------------------

# A line is for reading; the whole value stands in the step's input.
_MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class _Words:
    met: str
    not_met: str
    compared: str
    not_arrived: str
    empty: str
    incomparable: str


_WORDS: dict[str, _Words] = {
    "en": _Words("met", "not met", "compared with", "not arrived", "empty", "cannot be compared"),
    "cs": _Words("splněno", "nesplněno", "porovnáno s", "nedorazilo", "prázdné", "nelze porovnat"),
}


def _shown(value: Any, words: _Words) -> str:
    if value is MISSING:
        return words.not_arrived
    if is_empty(value):
        return words.empty
    text = _short(text_of(value))
    return f'"{text}"' if isinstance(value, str) else text


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
