"""Parameters, their paths and types, and what a body makes of them: SPEC section 2.2."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from automations import contract
from automations.body import Note
from automations.contract import ContractError, Parameter, Refusal, Values
from automations.values import MISSING
from tests.automations.properties import PATIENT

PRAGUE = ZoneInfo("Europe/Prague")


def param(path: str, type_: str = "string", *, required: bool = True, name: str = "x") -> Parameter:
    return Parameter(f"f_{name}", name, path, type_, required)


def extract(body: Any, *params: Parameter) -> Values | Refusal:
    return contract.extract(params, body, zone=PRAGUE)


PATHS = {
    "member": ("a", {"a": 1}, 1),
    "nested": ("a.b.c", {"a": {"b": {"c": 1}}}, 1),
    "index": ("errors.0.message", {"errors": [{"message": "m"}]}, "m"),
    "index at the top": ("1.id", [{"id": 1}, {"id": 2}], 2),
    "number as key": ("a.0", {"a": {"0": "x"}}, "x"),
    "index too high": ("a.1", {"a": [1]}, MISSING),
    "negative index": ("a.-1", {"a": [1]}, MISSING),
    "index with zero": ("a.00", {"a": [1]}, MISSING),
    "index of many digits": ("a." + "9" * 5000, {"a": [1]}, MISSING),
    "index in other digits": ("a.\N{ARABIC-INDIC DIGIT ZERO}", {"a": [1]}, MISSING),
    "word into array": ("a.length", {"a": [1]}, MISSING),
    "into text": ("a.0", {"a": "text"}, MISSING),
    "attribute of text": ("a.upper", {"a": "text"}, MISSING),
    "into number": ("a.b", {"a": 1}, MISSING),
    "into null": ("a.b", {"a": None}, MISSING),
    "null": ("a", {"a": None}, None),
    "nothing": ("a", {}, MISSING),
    "escaped dot": (r"metadata.order\.id", {"metadata": {"order.id": "7"}}, "7"),
    "escaped backslash": ("a\\\\.b", {"a\\": {"b": 1}}, 1),
    "plain backslash": ("App\\Order.id", {"App\\Order": {"id": 1}}, 1),
    "key with dots": ("metadata.order.id", {"metadata": {"order.id": "7"}}, "7"),
    "key with dots, then on": ("a.b.c", {"a.b": {"c": 1}}, 1),
    "split way first": ("a.b", {"a": {"b": 1}, "a.b": 2}, 1),
    "split way is null": ("a.b", {"a": {"b": None}, "a.b": 2}, None),
    "split way ends": ("a.b.c", {"a": {"b": 1}, "a.b": {"c": 2}}, 2),
    "empty key": ("a..b", {"a": {"": {"b": 1}}}, 1),
    "whole body": ("", [1], [1]),
    "scalar body": ("a", "text", MISSING),
}


@pytest.mark.parametrize(("path", "body", "value"), PATHS.values(), ids=PATHS)
def test_paths(path, body, value):
    assert contract.lookup_path(path, body) == value


CONVERTED = [
    ("string", "x", "x"),
    ("string", "", ""),
    ("string", "007", "007"),
    ("string", 7, "7"),
    ("string", Decimal("12.50"), "12.50"),
    ("string", Decimal("1E+5"), "100000"),
    ("string", Decimal("1E-7"), "0.0000001"),
    ("string", True, "true"),
    ("string", {}, MISSING),
    ("string", ["x"], MISSING),
    ("integer", 7, 7),
    ("integer", "007", 7),
    ("integer", " 7 ", 7),
    ("integer", "-7", -7),
    ("integer", "+7", 7),
    ("integer", Decimal("12.0"), 12),
    ("integer", Decimal("1E+3"), 1000),
    ("integer", "12.0", 12),
    ("integer", 12.0, 12),
    ("integer", 820982911946154508, 820982911946154508),
    ("integer", Decimal("12.5"), MISSING),
    ("integer", "12.5", MISSING),
    ("integer", "", MISSING),
    ("integer", "1e3", MISSING),
    ("integer", "1_000", MISSING),
    ("integer", "seven", MISSING),
    ("integer", True, MISSING),
    ("integer", [], MISSING),
    ("integer", "9" * 4001, MISSING),
    ("integer", "٣", MISSING),
    ("number", 7, 7),
    ("number", Decimal("12.50"), Decimal("12.50")),
    ("number", "12.50", Decimal("12.50")),
    ("number", "007", 7),
    ("number", ".5", Decimal("0.5")),
    ("number", "12,50", MISSING),
    ("number", "nan", MISSING),
    ("number", "1e3", MISSING),
    ("number", "5.", MISSING),
    ("number", True, MISSING),
    ("number", {}, MISSING),
    ("boolean", True, True),
    ("boolean", False, False),
    ("boolean", "true", True),
    ("boolean", "1", True),
    ("boolean", "false", False),
    ("boolean", "0", False),
    ("boolean", "True", True),
    ("boolean", 1, True),
    ("boolean", 0, False),
    ("boolean", 2, MISSING),
    ("boolean", "yes", MISSING),
    ("boolean", "", MISSING),
    ("boolean", [], MISSING),
    ("date", "2026-11-02", "2026-11-02"),
    ("date", "2. 11. 2026", "2026-11-02"),
    ("date", "2.11.2026", "2026-11-02"),
    ("date", "02. 11. 2026", "2026-11-02"),
    ("date", "2.\N{NO-BREAK SPACE}11. 2026", "2026-11-02"),
    ("date", "2. 11. 2026 14:30", "2026-11-02T14:30:00+01:00"),
    ("date", "2. 7. 2026 14:30:05", "2026-07-02T14:30:05+02:00"),
    ("date", "2. 11. 2026, 9:05", "2026-11-02T09:05:00+01:00"),
    ("date", "2026-11-02T14:30:00+01:00", "2026-11-02T14:30:00+01:00"),
    ("date", "2026-11-02T14:30", "2026-11-02T14:30:00+01:00"),
    ("date", "2026-11-02 14:30:00", "2026-11-02T14:30:00+01:00"),
    ("date", "2026-11-02T13:30:00Z", "2026-11-02T13:30:00Z"),
    ("date", "2026-11-02T13:30:00.123456789Z", "2026-11-02T13:30:00.123456789Z"),
    ("date", "2026-11-02T08:15:00+0100", "2026-11-02T08:15:00+01:00"),
    ("date", "2026-11-02 12:45:08 UTC", "2026-11-02T12:45:08+00:00"),
    ("date", "2026-11-02T12:45:08-05", "2026-11-02T12:45:08-05:00"),
    ("date", " 2026-11-02 ", "2026-11-02"),
    ("date", "2026-03-29T02:30", "2026-03-29T02:30:00+01:00"),
    ("date", "2026-10-25T02:30", "2026-10-25T02:30:00+02:00"),
    ("date", "2026-02-30", MISSING),
    ("date", "0000-00-00 00:00:00", MISSING),
    ("date", "2026-11-02T25:00", MISSING),
    ("date", "2026-11-02T10:00+25:00", MISSING),
    ("date", "20261102", MISSING),
    ("date", 20261102, MISSING),
    ("date", "soon", MISSING),
    ("date", "", MISSING),
    ("date", "2026-11-02" + " x" * 50, MISSING),
    ("date", ["2026-11-02"], MISSING),
    ("object", {"a": 1}, {"a": 1}),
    ("object", {}, {}),
    ("object", '{"a": 1.50}', {"a": Decimal("1.50")}),
    ("object", [], MISSING),
    ("object", "x", MISSING),
    ("object", "[1]", MISSING),
    ("object", 1, MISSING),
    ("object", "[" * 70, MISSING),
    ("array", [1], [1]),
    ("array", [], []),
    ("array", '["2018000001","2018000002"]', ["2018000001", "2018000002"]),
    ("array", "2018000001", MISSING),
    ("array", {"0": "a"}, MISSING),
    ("array", "", MISSING),
]


@pytest.mark.parametrize(
    ("type_", "sent", "value"), CONVERTED, ids=[f"{row[0]}-{row[1]!r:.30}" for row in CONVERTED]
)
def test_conversions(type_, sent, value):
    came = extract({"a": sent}, param("a", type_, required=False))
    assert isinstance(came, Values)
    arrived = came.values.get("x", MISSING)
    assert (arrived, type(arrived)) == (value, type(value))
    assert (came.notes == []) is (value is not MISSING)


def test_every_missing_and_invalid_parameter_is_told_at_once():
    params = [
        param("document.id", name="docId"),
        param("total", "number", name="total"),
        param("a", name="a"),
        param("tags", "array", name="tags"),
        param("when", "date", name="when"),
        param("o", "object", name="o"),
        param("b", "boolean", name="b"),
        param("s", "string", name="s"),
        param("i", "integer", name="i"),
    ]
    body = {
        "total": "12 Kč",
        "a": None,
        "tags": {},
        "when": 1,
        "o": [],
        "b": "x",
        "s": {},
        "i": True,
        "surplus": 1,
    }
    refusal = extract(body, *params)
    assert isinstance(refusal, Refusal)
    assert refusal.missing == [
        {"param": "docId", "path": "document.id", "type": "string"},
        {"param": "a", "path": "a", "type": "string"},
    ]
    assert [(one["param"], one["got"]) for one in refusal.invalid] == [
        ("total", "text"),
        ("tags", "object"),
        ("when", "number"),
        ("o", "array"),
        ("b", "text"),
        ("s", "object"),
        ("i", "boolean"),
    ]
    assert refusal.invalid[0] == {"param": "total", "path": "total", "type": "number", "got": "text"}


def test_an_optional_parameter_of_a_wrong_type_is_not_arrived_and_noted():
    body = {"total": "secret", "note": None}
    came = extract(body, param("total", "number", required=False), param("note", required=False, name="note"))
    told = {"param": "x", "path": "total", "type": "number", "got": "text"}
    assert came == Values({}, [Note("param.notArrived", told)])


def test_what_cannot_be_stored_inside_a_json_text_is_noted():
    came = extract({"a": '["\\u0000"]'}, param("a", "array"))
    assert came == Values({"x": ["\N{REPLACEMENT CHARACTER}"]}, [Note("body.replaced", {"count": 1})])


@pytest.mark.parametrize("body", [{}, [], "text", 12, None])
def test_a_contract_without_parameters_takes_everything(body):
    assert extract(body) == Values({})


def test_parameters_are_read_and_written():
    raw = [{"id": "f_doc", "name": "docId", "path": "document.id", "type": "integer", "required": True}]
    (read,) = contract.parse_params(raw)
    assert read == Parameter("f_doc", "docId", "document.id", "integer", True)
    assert [read.dump()] == raw
    assert contract.parse_params([{"name": "číslo"}]) == [
        Parameter("číslo", "číslo", "číslo", "string", False)
    ]
    assert contract.by_field_id([read]) == {"f_doc": read, "docId": read}


FAULTS = {
    "no array": ({}, [""]),
    "no objects": ([1, None], ["/0", "/1"]),
    "no name": ([{}, {"name": ""}, {"name": 5}], ["/0/name", "/1/name", "/2/name"]),
    "bad names": (
        [{"name": name} for name in ("_body", "ticket", "a.b", "a b", "12", "-a", "x" * 101)],
        [f"/{i}/name" for i in range(7)],
    ),
    "wrong types": (
        [{"name": "a", "type": "text", "required": "yes", "path": 5, "id": ""}],
        ["/0/path", "/0/id", "/0/type", "/0/required"],
    ),
    "unknown keys": ([{"name": "a", "a/b~": 1}], ["/0/a~1b~0"]),
    "twice": ([{"name": "a", "id": "i"}, {"name": "a", "id": "i"}], ["/1/id", "/1/name"]),
    "endless path": ([{"name": "a", "path": "a." * 101}], ["/0/path"]),
    "too many": ([{"name": f"a{index}"} for index in range(201)], [""]),
}


@pytest.mark.parametrize(("raw", "pointers"), FAULTS.values(), ids=FAULTS)
def test_faults_of_parameters(raw, pointers):
    with pytest.raises(ContractError) as caught:
        contract.parse_params(raw)
    assert [fault["pointer"] for fault in caught.value.faults] == pointers
    assert all(fault["message"] in str(caught.value) for fault in caught.value.faults)


SAMPLES = {
    "nested": ([("data.order.id", "string")], {"data": {"order": {"id": "p0"}}}),
    "array": (
        [("errors.0.message", "string"), ("errors.0.code", "integer")],
        {"errors": [{"message": "p0", "code": 1}]},
    ),
    "gap": ([("a.1", "boolean")], {"a": [None, True]}),
    "far index": ([("a.20", "date")], {"a": {"20": "2026-11-02"}}),
    "array at the top": ([("0.id", "number")], [{"id": Decimal("12.50")}]),
    "containers": ([("o", "object"), ("l", "array"), ("l.0.x", "string")], {"o": {}, "l": [{"x": "p2"}]}),
    "object of digits": ([("o.0", "string"), ("o", "object")], {"o": {"0": "p0"}}),
    "key with dots": ([("a", "string"), ("a.b", "string")], {"a": "p0", "a.b": "p1"}),
    "array and member": ([("l", "array"), ("l.b", "string")], {"l": [], "l.b": "p1"}),
    "same path": ([("a", "string"), ("a", "integer")], {"a": 1}),
    "whole body": ([("", "array")], []),
    "scalar body": ([("", "integer")], 1),
    "scalar body and more": ([("", "string"), ("a", "string")], {"a": "p1"}),
    "array body and member": ([("", "array"), ("a", "string")], []),
    "nothing": ([], {}),
}


@pytest.mark.parametrize(("wanted", "body"), SAMPLES.values(), ids=SAMPLES)
def test_samples(wanted, body):
    assert (
        contract.sample([param(path, type_, name=f"p{i}") for i, (path, type_) in enumerate(wanted)]) == body
    )


KEYS = st.sampled_from(["a", "b", "0", "1", "a.b"])
BODIES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["", "x", "7", "7.5", "true", "2026-11-02", "[1]", "{}"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
PATH_LISTS = st.lists(st.sampled_from(["a", "b", "0", "1"]), min_size=1, max_size=3)
PARAMS = st.builds(
    Parameter,
    st.just("f"),
    st.just("x"),
    PATH_LISTS.map(".".join),
    st.sampled_from(contract.TYPES),
    st.booleans(),
)


def plain_lookup(body: Any, keys: list[str]) -> Any:
    """Every way through the body, in the order in which the words of the SPEC prefer them."""
    if not keys:
        return body
    if isinstance(body, list) and keys[0].isdigit() and int(keys[0]) < len(body):
        return plain_lookup(body[int(keys[0])], keys[1:])
    ways = [k for k in range(1, len(keys) + 1) if isinstance(body, dict) and ".".join(keys[:k]) in body]
    found = [plain_lookup(body[".".join(keys[:k])], keys[k:]) for k in ways]
    return next((one for one in found if one is not MISSING), MISSING)


def plain_kind(value: Any) -> str:
    return {str: "text", bool: "boolean", dict: "object", list: "array"}.get(type(value), "number")


def plain_fits(value: Any, type_: str) -> bool:
    """Whether a value of BODIES is of a type or says one without loss."""
    kind = plain_kind(value)
    texts = {
        "integer": ["7"],
        "number": ["7", "7.5"],
        "boolean": ["true"],
        "date": ["2026-11-02"],
        "array": ["[1]"],
        "object": ["{}"],
    }
    if type_ == "string":
        return kind in ("text", "number", "boolean")
    if kind == "text":
        return value in texts[type_]
    if kind == "number":
        return type_ in ("integer", "number") or (type_ == "boolean" and value in (0, 1))
    return kind == type_


@PATIENT
@given(BODIES, PARAMS)
def test_extract_agrees_with_a_plain_reference(body, wanted):
    came = extract(body, wanted)
    found = plain_lookup(body, wanted.path.split("."))
    told = {"param": "x", "path": wanted.path, "type": wanted.type}
    if found is MISSING or found is None:
        assert came == (Refusal([told], []) if wanted.required else Values({}))
    elif plain_fits(found, wanted.type):
        assert isinstance(came, Values)
        assert list(came.values) == ["x"]
        assert came.notes == []
    else:
        told = {**told, "got": plain_kind(found)}
        assert came == (
            Refusal([], [told]) if wanted.required else Values({}, [Note("param.notArrived", told)])
        )


@PATIENT
@given(
    st.lists(
        st.tuples(PATH_LISTS.map(".".join), st.sampled_from(contract.TYPES)), unique_by=lambda one: one[0]
    )
)
def test_a_sample_fulfils_its_contract(wanted):
    params = [param(path, type_, name=f"p{index}") for index, (path, type_) in enumerate(wanted)]
    came = contract.extract(params, contract.sample(params), zone=PRAGUE)
    assert isinstance(came, Values)
    assert len(came.values) == len(params)
    for wanted_param in params:
        if wanted_param.type == "date":
            assert date.fromisoformat(came.values[wanted_param.name])


@PATIENT
@given(st.datetimes(), st.sampled_from(["T", " "]))
def test_a_date_without_a_zone_is_in_the_tenants(moment, separator):
    came = extract({"a": moment.isoformat(separator, "microseconds")}, param("a", "date"))
    assert datetime.fromisoformat(came.values["x"]).replace(tzinfo=None) == moment
