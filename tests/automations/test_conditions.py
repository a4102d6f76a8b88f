"""Conditions as a table: what arrived, the rule, whether it holds, and why (SPEC section 3.2)."""

from datetime import timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from automations import conditions
from automations.conditions import OPERATORS, UNARY, Found, Rule, RuleResult
from automations.values import MISSING
from tests.automations.properties import PATIENT

PRAGUE = ZoneInfo("Europe/Prague")
LONG = "x" * 300
CARON = "c\N{COMBINING CARON}"
YES, NO, INCOMPARABLE = True, False, None


def result(
    actual: Any, operator: str, value: Any = None, type_: str | None = None, changes: Any = None
) -> RuleResult:
    found = MISSING if actual is MISSING else Found(actual, type_)
    verdict = conditions.evaluate(
        [Rule("f", operator, value)], "all", lambda name: found, zone=PRAGUE, changes=changes
    )
    (only,) = verdict.rules
    assert verdict.met is only.met
    return only


TABLE: list[tuple[Any, ...]] = [
    # actual, operator, value, holds, type
    # eq and neq: missing equals empty
    (MISSING, "eq", "x", NO),
    (MISSING, "eq", "", YES),
    (MISSING, "eq", None, YES),
    (MISSING, "eq", MISSING, YES),
    (MISSING, "eq", 0, NO),
    (MISSING, "eq", False, NO),
    (None, "eq", "", YES),
    ("  ", "eq", "", YES),
    ([], "eq", "", YES),
    ({}, "eq", [], YES),
    (0, "eq", "", NO),
    (False, "eq", "", NO),
    ("x", "eq", MISSING, NO),
    (MISSING, "neq", "x", YES),
    (None, "neq", "x", YES),
    ("", "neq", "", NO),
    ("a", "neq", "b", YES),
    ("a", "neq", "a", NO),
    # Text in NFC, letter by letter
    ("Missing data", "eq", "Missing data", YES),
    ("missing data", "eq", "Missing data", NO),
    ("a ", "eq", "a", NO),
    (CARON, "eq", "č", YES),
    ("č", "eq", CARON, YES),
    ("c", "eq", "č", NO),
    # Numbers
    (7, "eq", 7, YES),
    (7, "eq", "7", YES),
    ("7", "eq", 7, YES),
    (7, "eq", "007", YES),
    ("007", "eq", "7", NO),
    ("007", "eq", 7, YES),
    (7, "eq", " 7 ", YES),
    (7, "eq", Decimal("7.00"), YES),
    (Decimal("12.50"), "eq", "12.5", YES),
    ("12.50", "eq", "12.5", NO),
    (0.5, "eq", "0.5", YES),
    (7, "eq", "1e1", NO),
    (10, "eq", "1e1", NO),
    (7, "eq", "seven", NO),
    (820982911946154508, "eq", 820982911946154509, NO),
    (1, "eq", True, NO),
    (True, "eq", 1, NO),
    (0, "eq", False, NO),
    (True, "eq", True, YES),
    (True, "eq", "true", YES),
    (False, "eq", "false", YES),
    (True, "eq", "1", NO),
    (5, "eq", [5], NO),
    # Arrays and objects, member by member
    (["a", 1], "eq", ["a", "1"], YES),
    (["a", "b"], "eq", ["b", "a"], NO),
    (["a", "b"], "eq", ["a", "c"], NO),
    (["a"], "eq", ["a", "b"], NO),
    ([CARON, None], "eq", ["č", ""], YES),
    ({"a": 1, "b": [2]}, "eq", {"b": ["2"], "a": Decimal(1)}, YES),
    ({"a": 1}, "eq", {"a": 2}, NO),
    ({"a": 1, "b": 1}, "eq", {"a": 1, "b": 2}, NO),
    ({"a": 1}, "eq", {"b": 1}, NO),
    (["a"], "eq", "a", NO),
    ({"a": 1}, "eq", '{"a":1}', NO),
    ("a", "eq", ["a"], NO),
    # Ordering: numbers, plain decimals, never an empty side
    (10, "gt", 9, YES),
    ("10", "gt", "9", YES),
    ("10", "gt", 9, YES),
    (9, "gt", 9, NO),
    (9, "gte", 9, YES),
    ("9.0", "gte", "9", YES),
    (9, "lt", 9, NO),
    (9, "lte", 9, YES),
    (10, "lte", 9, NO),
    (8, "gte", 9, NO),
    (8, "lt", "9", YES),
    (-1, "lt", 0, YES),
    ("-1.5", "lt", "-1", YES),
    ("+1", "gt", "0", YES),
    (" 10 ", "gt", "9", YES),
    (".5", "lt", 1, YES),
    (Decimal("0.3"), "lte", Decimal("0.30"), YES),
    (Decimal("1e400"), "gt", 10**399, YES),
    (MISSING, "lt", 5, NO),
    (None, "lt", 5, NO),
    ("", "lt", 5, NO),
    ("  ", "gte", 0, NO),
    ([], "lt", 5, NO),
    (5, "gt", MISSING, NO),
    (5, "gt", "", NO),
    (MISSING, "gte", MISSING, NO),
    (0, "gte", 0, YES),
    ("abc", "gt", 5, INCOMPARABLE),
    ("abc", "gt", "abb", INCOMPARABLE),
    ("1_000", "gt", 5, INCOMPARABLE),
    ("1e3", "gt", 5, INCOMPARABLE),
    ("nan", "lt", 5, INCOMPARABLE),
    ("12,50", "gt", 5, INCOMPARABLE),
    ("5.", "gt", 1, INCOMPARABLE),
    (True, "gt", 0, INCOMPARABLE),
    (5, "lt", True, INCOMPARABLE),
    ([5], "gt", 1, INCOMPARABLE),
    ({"a": 1}, "lte", 1, INCOMPARABLE),
    ("9" * 4001, "gt", 1, INCOMPARABLE),
    # Dates are instants; a day alone is its beginning in the tenant's zone
    ("2026-11-02", "lt", "2026-11-10", YES),
    ("2026-11-02", "eq", "2026-11-02T00:00", YES),
    ("2026-11-02", "eq", "2026-11-01T23:00:00Z", YES),
    ("2026-07-02", "eq", "2026-07-01T22:00:00Z", YES),
    ("2026-11-02T14:30:00+01:00", "eq", "2026-11-02T13:30:00Z", YES),
    ("2026-11-02T14:30:00+01:00", "neq", "2026-11-02T13:30:00Z", NO),
    ("2026-11-02T14:30", "eq", "2026-11-02T14:30:00+01:00", YES),
    ("2026-11-02 12:45:08 UTC", "gt", "2026-11-02T13:45:07+0100", YES),
    ("2026-11-02T23:59", "lt", "2026-11-03", YES),
    ("2026-11-02", "gte", "2026-11-02", YES),
    ("2026-11-02", "gt", "2026-11-02", NO),
    ("2026-11-02", "gt", "20261101", INCOMPARABLE),
    ("2026-11-02", "gt", "soon", INCOMPARABLE),
    ("2026-11-02", "gt", 5, INCOMPARABLE),
    ("2026-02-30", "gt", "2026-01-01", INCOMPARABLE),
    ("2026-02-30", "eq", "2026-02-30", YES),
    ("20260329", "gt", "20260328", YES),
    ("20260329", "eq", "2026-03-29", NO),
    ("2. 11. 2026", "gt", "2026-11-01", INCOMPARABLE),
    ("2026-11-02", "eq", "2. 11. 2026", NO),
    ("2026-11-02", "eq", "2. 11. 2026", YES, "date"),
    ("2026-11-02T14:30:00+01:00", "gt", "2. 11. 2026 14:00", YES, "date"),
    ("2026-11-02", "lt", "soon", INCOMPARABLE, "date"),
    ("0001-01-01T00:00:00+14:00", "lt", "2026-01-01", INCOMPARABLE),
    # The night that lacks an hour: 02:30 is not on the clock, 03:30 is an hour after 01:30
    ("2026-03-29T01:59", "lt", "2026-03-29T03:00", YES),
    ("2026-03-29T03:30", "eq", "2026-03-29T01:30:00Z", YES),
    ("2026-03-29", "eq", "2026-03-28T23:00:00Z", YES),
    ("2026-03-30", "eq", "2026-03-29T22:00:00Z", YES),
    # The night that has one twice: 02:30 comes at 00:30 and at 01:30 UTC
    ("2026-10-25T02:30+02:00", "lt", "2026-10-25T02:30+01:00", YES),
    ("2026-10-25T02:30", "eq", "2026-10-25T00:30:00Z", YES),
    ("2026-10-25T02:30", "lt", "2026-10-25T02:10+01:00", YES),
    ("2026-10-25", "eq", "2026-10-24T22:00:00Z", YES),
    ("2026-10-26", "eq", "2026-10-25T23:00:00Z", YES),
    # contains asks an array for a member, text for a part
    (["vip", "urgent"], "contains", "vip", YES),
    (["vip"], "contains", "vi", NO),
    ([7], "contains", "7", YES),
    (["007"], "contains", "7", NO),
    ([CARON], "contains", "č", YES),
    ([["a"]], "contains", ["a"], YES),
    ([], "contains", "a", NO),
    (["a", ""], "contains", "", YES),
    ("Objednávka 5001", "contains", "5001", YES),
    ("Objednávka 5001", "contains", 5001, YES),
    ("Objednávka", "contains", "objednávka", NO),
    (f"{CARON}as", "contains", "č", YES),
    (12050, "contains", "205", YES),
    ("abc", "contains", "", NO),
    ("abc", "contains", MISSING, NO),
    ("a b", "contains", " ", YES),
    (MISSING, "contains", "a", NO),
    (None, "contains", "a", NO),
    ({"a": 1}, "contains", "a", NO),
    ("abc", "contains", ["a"], NO),
    (MISSING, "notContains", "a", YES),
    (["a"], "notContains", "a", NO),
    ("abc", "notContains", "d", YES),
    ("abc", "startsWith", "ab", YES),
    ("abc", "startsWith", "b", NO),
    ("abc", "startsWith", "", NO),
    (MISSING, "startsWith", "a", NO),
    (5001, "startsWith", "50", YES),
    (["abc"], "startsWith", "a", NO),
    ("abc", "endsWith", "bc", YES),
    ("abc", "endsWith", "b", NO),
    ("abc", "endsWith", {"a": 1}, NO),
    # in
    ("a", "in", ["a", "b"], YES),
    ("c", "in", ["a", "b"], NO),
    (7, "in", ["7"], YES),
    ("007", "in", ["7"], NO),
    ("a", "in", "a", YES),
    ("a", "in", "a,b", NO),
    ("a", "in", [], NO),
    (MISSING, "in", ["a"], NO),
    (MISSING, "in", ["a", ""], YES),
    (["vip", "x"], "in", ["vip", "urgent"], YES),
    (["x"], "in", ["vip"], NO),
    ([], "in", ["vip"], NO),
    (["a", "b"], "in", [["a", "b"]], YES),
    (MISSING, "notIn", ["a"], YES),
    ("a", "notIn", ["a"], NO),
    # Emptiness
    (MISSING, "isEmpty", None, YES),
    (None, "isEmpty", None, YES),
    ("", "isEmpty", None, YES),
    (" \n\N{NO-BREAK SPACE}", "isEmpty", None, YES),
    ([], "isEmpty", None, YES),
    ({}, "isEmpty", None, YES),
    (0, "isEmpty", None, NO),
    (Decimal("0.00"), "isEmpty", None, NO),
    (False, "isEmpty", None, NO),
    ([None], "isEmpty", None, NO),
    ("x", "isNotEmpty", None, YES),
    (0, "isNotEmpty", None, YES),
    (MISSING, "isNotEmpty", None, NO),
    # Truth
    (True, "isTrue", None, YES),
    ("true", "isTrue", None, YES),
    ("1", "isTrue", None, YES),
    (1, "isTrue", None, YES),
    ("yes", "isTrue", None, NO),
    (2, "isTrue", None, NO),
    (MISSING, "isTrue", None, NO),
    (None, "isTrue", None, NO),
    ([True], "isTrue", None, NO),
    (False, "isFalse", None, YES),
    ("false", "isFalse", None, YES),
    ("0", "isFalse", None, YES),
    (0, "isFalse", None, YES),
    ("", "isFalse", None, NO),
    (MISSING, "isFalse", None, NO),
    (True, "isFalse", None, NO),
]


@pytest.mark.parametrize("row", TABLE, ids=[f"{row[0]!r:.30} {row[1]} {row[2]!r:.30}" for row in TABLE])
def test_table(row):
    actual, operator, value, holds, *type_ = row
    came = result(actual, operator, value, *type_)
    assert came.met is bool(holds)
    assert came.reason == ("incomparable" if holds is INCOMPARABLE else None)
    assert came.arrived is (actual is not MISSING)


CHANGES = {
    "status": {"from": "new", "to": "urgent"},
    "tags": {"from": ["a"], "to": ["a", "vip"]},
    "assignee": {"from": {"id": "1"}, "to": None},
    "fields.color": {"from": None, "to": "red"},
    "created": {"to": ["x"]},
}
CHANGED = [
    # field, operator, value, holds
    ("status", "changed", None, YES),
    ("ticket.status", "changed", None, YES),
    ("title", "changed", None, NO),
    ("ticket.fields.color", "changed", None, YES),
    ("f_color", "changed", None, YES),
    ("assignee", "changed", None, YES),
    ("status", "changedTo", "urgent", YES),
    ("status", "changedTo", "new", NO),
    ("title", "changedTo", "urgent", NO),
    ("title", "changedTo", "", NO),
    ("f_color", "changedTo", "red", YES),
    ("assignee", "changedTo", "", YES),
    ("assignee", "changedTo", MISSING, YES),
    ("tags", "changedTo", "vip", YES),
    ("tags", "changedTo", "a", NO),
    ("tags", "changedTo", ["a", "vip"], YES),
    ("tags", "changedTo", ["vip"], NO),
    ("created", "changedTo", "x", YES),
]


@pytest.mark.parametrize(("field", "operator", "value", "holds"), CHANGED)
def test_changes_of_a_ticket_run(field, operator, value, holds):
    found = Found("now", "text", "color") if field == "f_color" else Found("now")
    rules = [Rule(field, operator, value)]
    verdict = conditions.evaluate(rules, "all", lambda name: found, zone=PRAGUE, changes=CHANGES)
    assert verdict.met is holds


@pytest.mark.parametrize("operator", ["changed", "changedTo"])
def test_without_changes_nothing_has_changed(operator):
    assert not result("urgent", operator, "urgent").met


LINES = [
    # actual, operator, value, English, Czech
    (MISSING, "isNotEmpty", None, "not met | result = not arrived", "nesplněno | result = nedorazilo"),
    (None, "isNotEmpty", None, "not met | result = empty", "nesplněno | result = prázdné"),
    ("", "isEmpty", None, "met | result = empty", "splněno | result = prázdné"),
    (
        "Redirected", "eq", "Missing data",
        'not met | result = "Redirected", compared with "Missing data"',
        'nesplněno | result = "Redirected", porovnáno s "Missing data"',
    ),
    (Decimal("12.50"), "gt", 5, "met | result = 12.50, compared with 5", "splněno | result = 12.50, porovnáno s 5"),
    (
        "abc", "lt", 5,
        'not met | result = "abc", compared with 5: cannot be compared',
        'nesplněno | result = "abc", porovnáno s 5: nelze porovnat',
    ),
    (
        MISSING, "gt", 5,
        "not met | result = not arrived, compared with 5", "nesplněno | result = nedorazilo, porovnáno s 5",
    ),
    ("a", "eq", "", 'not met | result = "a", compared with empty', 'nesplněno | result = "a", porovnáno s prázdné'),
    (
        "a", "neq", MISSING,
        'met | result = "a", compared with not arrived', 'splněno | result = "a", porovnáno s nedorazilo',
    ),
    (
        ["a", True], "contains", "b",
        'not met | result = ["a",true], compared with "b"', 'nesplněno | result = ["a",true], porovnáno s "b"',
    ),
    (True, "isTrue", None, "met | result = true", "splněno | result = true"),
    (
        LONG, "eq", "a",
        f'not met | result = "{LONG[:200]}…", compared with "a"',
        f'nesplněno | result = "{LONG[:200]}…", porovnáno s "a"',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("actual", "operator", "value", "english", "czech"), LINES)
def test_lines_of_the_log(actual, operator, value, english, czech):
    found = Found(actual, "string", "result")
    rules = [Rule("f_result", operator, value)]
    verdict = conditions.evaluate(rules, "any", lambda name: found, zone=PRAGUE)
    shown = "" if operator in UNARY or value in ("", MISSING) else f" {value}"
    rule = f"result {operator}{shown}"
    assert verdict.lines("en") == [f"{rule}: {english}"]
    assert verdict.lines("cs") == [f"{rule}: {czech}"]
    assert verdict.lines("xx") == verdict.lines("en")


def test_a_field_without_a_name_is_told_by_its_id():
    assert result("Redirected", "isNotEmpty").line("en") == 'f isNotEmpty: met | f = "Redirected"'


def test_a_long_value_of_a_rule_is_shortened():
    assert result("a", "eq", LONG).line("en").startswith(f"f eq {LONG[:200]}…: not met")
    assert result("a", "eq", LONG[:200]).line("en").startswith(f"f eq {LONG[:200]}: not met")


def test_the_json_of_a_step():
    assert result(7, "eq", "7").as_dict() == {
        "fieldId": "f",
        "operator": "eq",
        "value": "7",
        "actual": 7,
        "arrived": True,
        "met": True,
    }
    told = result(MISSING, "eq", MISSING).as_dict()
    assert (told["value"], told["actual"], told["arrived"], told["met"]) == (None, None, False, True)


@pytest.mark.parametrize(("match", "held", "met"), [
    ("all", [True, True], True), ("all", [True, False], False), ("all", [], True),
    ("any", [False, True], True), ("any", [False, False], False), ("any", [], False),
])  # fmt: skip
def test_all_and_any_look_at_every_rule(match, held, met):
    rules = [Rule(str(index), "isTrue") for index in range(len(held))]
    verdict = conditions.evaluate(rules, match, lambda name: Found(held[int(name)]), zone=PRAGUE)
    assert verdict.met is met
    assert [rule.met for rule in verdict.rules] == held


VALUES = st.recursive(
    st.sampled_from([MISSING, None, "", " ", "x", "č", CARON, "7", "007", "2026-11-02", "2026-10-25T02:30", "true"])
    | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner.filter(lambda one: one is not MISSING), max_size=2)
    | st.dictionaries(st.text(max_size=1), inner.filter(lambda one: one is not MISSING), max_size=2),
    max_leaves=4,
)  # fmt: skip
OPPOSITES = [("eq", "neq"), ("contains", "notContains"), ("in", "notIn"), ("isEmpty", "isNotEmpty")]
TYPES = st.sampled_from([None, "date", "string"])


@PATIENT
@given(VALUES, VALUES, st.sampled_from(OPPOSITES), TYPES)
def test_a_rule_and_its_opposite_never_agree(actual, value, pair, type_):
    assert result(actual, pair[0], value, type_).met is not result(actual, pair[1], value, type_).met


@PATIENT
@given(VALUES, VALUES, TYPES)
def test_equality_and_order_fit_together(actual, value, type_):
    at = {operator: result(actual, operator, value, type_) for operator in ("eq", "gt", "gte", "lt", "lte")}
    back = {operator: result(value, operator, actual, type_) for operator in ("eq", "gt", "lt")}
    assert not (at["gt"].met and at["lt"].met)
    assert at["gte"].met == (at["gt"].met or (at["lte"].met and at["gte"].met))
    assert (at["gt"].met, at["lt"].met) == (back["lt"].met, back["gt"].met)
    assert at["eq"].met == back["eq"].met
    assert result(actual, "eq", actual, type_).met


RULES = st.lists(st.tuples(VALUES, st.sampled_from(sorted(OPERATORS)), VALUES), min_size=1, max_size=5)


@PATIENT
@given(RULES, st.sampled_from(["all", "any"]), st.randoms())
def test_the_order_of_rules_does_not_matter(rows, match, random):
    def met(order: list[int]) -> bool:
        rules = [Rule(str(index), rows[index][1], rows[index][2]) for index in order]
        verdict = conditions.evaluate(rules, match, lambda name: Found(rows[int(name)][0]), zone=PRAGUE)
        assert all(rule.line("cs") and rule.as_dict() for rule in verdict.rules)
        return verdict.met

    order = list(range(len(rows)))
    shuffled = random.sample(order, len(order))
    assert met(order) is met(shuffled)


@PATIENT
@given(st.datetimes(timezones=st.just(ZoneInfo("UTC"))), st.sampled_from([-1, 0, 1]))
def test_instants_compare_as_instants_on_every_day_of_the_calendar(moment, seconds):
    try:
        other = moment + timedelta(seconds=seconds)
        here, there = moment.astimezone(PRAGUE), other
    except OverflowError:
        return
    came = result(here.isoformat(), "lt", there.isoformat())
    assert came.met is (seconds == 1)
    assert result(here.isoformat(), "eq", there.isoformat()).met is (seconds == 0)
