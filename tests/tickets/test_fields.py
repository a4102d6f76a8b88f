"""Custom fields: what each type takes, how it is stored, and what is refused."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickets.fields import BadField, checked, equal, merged, missing


def field(kind, **more):
    return {"id": f"f_{kind}", "key": kind, "label": kind, "type": kind, "required": False, **more}


SIZES = {"options": ["S", "M", {"value": "L", "label": "Large"}]}


@pytest.mark.parametrize(
    ("definition", "value", "stored"),
    [
        (field("text"), "red", "red"),
        (field("text"), " kept ", " kept "),
        (field("text"), 7, "7"),
        (field("text"), Decimal("12.50"), "12.50"),
        (field("number"), 7, 7),
        (field("number"), Decimal("12.50"), Decimal("12.50")),
        (field("number"), "12.50", Decimal("12.50")),
        (field("number"), "-3", -3),
        (field("number"), "007", 7),
        (field("number"), 0.1, Decimal("0.1")),
        (field("number"), 2**70, 2**70),
        (field("date"), "2026-11-02", "2026-11-02"),
        (field("date"), "2026-11-02T14:30:00+01:00", "2026-11-02T14:30:00+01:00"),
        (field("date"), " 2028-02-29 ", "2028-02-29"),
        (field("boolean"), True, True),
        (field("boolean"), "false", False),
        (field("boolean"), "1", True),
        (field("boolean"), 0, False),
        (field("select", **SIZES), "M", "M"),
        (field("select", **SIZES), "L", "L"),
        (field("select", options=["1", "2"]), 2, "2"),
        (field("multiselect", **SIZES), ["M", "S", "M"], ["M", "S"]),
        (field("multiselect", **SIZES), "S", ["S"]),
        (field("url"), "https://shop.test/orders?id=1#top", "https://shop.test/orders?id=1#top"),
        (field("email"), " jana@shop.test ", "jana@shop.test"),
    ],
)
def test_takes(definition, value, stored):
    result = checked(definition, value)

    assert result == stored
    assert type(result) is type(stored)


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        (field("text"), ["red"]),
        (field("text"), True),
        (field("text"), "a\x00b"),
        (field("text"), "\ud800"),
        (field("text"), "x" * 10_001),
        (field("number"), "12,5"),
        (field("number"), "1e5"),
        (field("number"), "1_000"),
        (field("number"), True),
        (field("number"), float("nan")),
        (field("number"), float("inf")),
        (field("number"), Decimal("Infinity")),
        (field("number"), Decimal("1e5000")),
        (field("number"), 10**4001),
        (field("number"), "9" * 4001),
        (field("date"), "2026-02-30"),
        (field("date"), "20260329"),
        (field("date"), "2026-W10-1"),
        (field("date"), "2. 11. 2026"),
        (field("date"), 20260329),
        (field("boolean"), "yes"),
        (field("boolean"), 2),
        (field("select", **SIZES), "XL"),
        (field("select", **SIZES), ["S"]),
        (field("select"), "S"),
        (field("multiselect", **SIZES), ["S", "XL"]),
        (field("multiselect", **SIZES), [["S"]]),
        (field("url"), "javascript:alert(1)"),
        (field("url"), "ftp://shop.test/"),
        (field("url"), "https://"),
        (field("url"), "https://shop.test/a b"),
        (field("url"), "https://[half"),
        (field("url"), "https://shop.test:99999/"),
        (field("url"), "https://shop.test/" + "x" * 2_000),
        (field("url"), 5),
        (field("email"), "jana"),
        (field("email"), "jana@shop.test\x00"),
        (field("email"), 5),
        (field("colour"), "red"),
    ],
)
def test_refuses(definition, value):
    with pytest.raises(BadField, match=r".+"):
        checked(definition, value)


COLOR = {"id": "f_color", "key": "color", "label": "Color", "type": "text", "required": True}
AMOUNT = {"id": "f_amount", "key": "amount", "label": "Amount", "type": "number", "required": False}


def test_merging_keeps_what_is_not_named_and_stores_by_key():
    result, faults = merged([COLOR, AMOUNT], {"color": "red"}, {"f_amount": 5})

    assert (result, faults) == ({"color": "red", "amount": 5}, {})


@pytest.mark.parametrize("blank", [None, "", "  ", []])
def test_null_and_blank_remove(blank):
    assert merged([COLOR, AMOUNT], {"color": "red", "amount": 5}, {"amount": blank}) == ({"color": "red"}, {})


def test_a_required_field_is_never_removed_and_its_absence_is_told():
    result, faults = merged([COLOR], {"color": "red"}, {"color": None})

    assert result == {"color": "red"}
    assert list(faults) == ["/color"]
    assert missing([COLOR, AMOUNT], {}) == ["color"]
    assert missing([COLOR, AMOUNT], {"color": "red"}) == []


def test_every_fault_is_listed_with_its_pointer():
    _, faults = merged([COLOR, AMOUNT], {}, {"f_amount": "much", "size/x~y": "M", "color": []})

    assert list(faults) == ["/f_amount", "/size~1x~0y"]


def test_what_the_type_no_longer_defines_may_stay_and_go_but_not_change():
    stored = {"old": "x"}

    assert merged([], stored, {"old": "x"}) == (stored, {})
    assert merged([], stored, {"old": None}) == ({}, {})
    assert list(merged([], stored, {"old": "y"})[1]) == ["/old"]


def test_a_value_that_is_there_is_not_checked_again():
    """The options became fewer; an edit that sends the whole ticket back still passes."""
    small = field("select", options=["S"])

    assert merged([small], {"select": "XL"}, {"select": "XL"}) == ({"select": "XL"}, {})


def test_the_same_number_written_otherwise_and_the_same_choices_in_another_order_are_no_change():
    stored = {"amount": Decimal("12.50"), "multiselect": ["S", "M"]}
    given_now = {"amount": "12.5", "multiselect": ["M", "S"]}

    result, faults = merged([AMOUNT, field("multiselect", **SIZES)], stored, given_now)

    assert faults == {}
    assert str(result["amount"]) == "12.50"
    assert result["multiselect"] == ["S", "M"]


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, True, False),
        (0, False, False),
        (Decimal("1.0"), 1, True),
        ([1], [True], False),
        ({"a": [1]}, {"a": [Decimal(1)]}, True),
        ({"a": 1}, {"b": 1}, False),
        ([1, 2], [1], False),
        (None, "", False),
    ],
)
def test_equality_of_json(left, right, same):
    assert equal(left, right) is same
    assert equal(right, left) is same


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=True) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KINDS = ["text", "number", "date", "boolean", "select", "multiselect", "url", "email"]


@given(st.sampled_from(KINDS), JSON)
def test_whatever_comes_is_stored_or_refused_and_what_is_stored_is_taken_again(kind, value):
    definition = field(kind, **SIZES)
    try:
        stored = checked(definition, value)
    except BadField:
        return
    assert equal(checked(definition, stored), stored)
