"""What differs between two trees: told by step, not by position."""

from decimal import Decimal

import pytest

from automations import diff


def step(key, **more):
    return {"id": key, "type": "action", "op": "flow/log", "inputs": {"message": "hello"}, **more}


def document(*steps, **trigger):
    return {"trigger": {"kind": "webhook", **trigger}, "steps": list(steps)}


A, B, C = step("st_a"), step("st_b"), step("st_c")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (document(A), document(A), []),
        (document(), document(A), [("/steps/0", "added", "st_a", None, A)]),
        (document(A, B), document(B), [("/steps/0", "removed", "st_a", A, None)]),
        (document(A, C), document(A, B, C), [("/steps/1", "added", "st_b", None, B)]),
        (document(A, B, C), document(B, C, A), [("/steps/2", "moved", "st_a", 0, 2)]),
        (
            document(A, B),
            document(A, step("st_b", inputs={"message": "bye"})),
            [("/steps/1/inputs/message", "changed", "st_b", "hello", "bye")],
        ),
        (document(A), document(step("st_a", wait=False)), [("/steps/0/wait", "added", "st_a", None, False)]),
        (
            document(step("st_a", wait=False)),
            document(A),
            [("/steps/0/wait", "removed", "st_a", False, None)],
        ),
        (
            document(step("st_a", type="condition", then=[B])),
            document(step("st_a", type="condition", then=[B, C])),
            [("/steps/0/then/1", "added", "st_c", None, C)],
        ),
        (document(), document(priority=3), [("/trigger/priority", "added", None, None, 3)]),
        (
            document(params=[{"id": "f_doc", "path": "a"}]),
            document(params=[{"id": "f_new"}, {"id": "f_doc", "path": "b"}]),
            [
                ("/trigger/params/0", "added", "f_new", None, {"id": "f_new"}),
                ("/trigger/params/1/path", "changed", "f_doc", "a", "b"),
            ],
        ),
        (
            document(on=["created"]),
            document(on=["created", "changed"]),
            [("/trigger/on", "changed", None, ["created"], ["created", "changed"])],
        ),
        (
            document(step("st_a", inputs={"a/b~": 1})),
            document(step("st_a", inputs={"a/b~": 2})),
            [("/steps/0/inputs/a~1b~0", "changed", "st_a", 1, 2)],
        ),
    ],
)
def test_changes(before, after, told):
    assert [tuple(line.values()) for line in diff.changes(before, after)] == told


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (True, 1, False),
        (0, False, False),
        ({"a": [True]}, {"a": [1]}, False),
        ({"a": [1]}, {"a": [1]}, True),
        ([1], [1, 2], False),
        (Decimal("12.50"), Decimal("12.5"), True),
        ("7", 7, False),
        (None, "", False),
    ],
)
def test_values_are_compared_as_json_does(one, other, is_same):
    before, after = (document(step("st_a", inputs={"value": [value]})) for value in (one, other))
    assert (diff.changes(before, after) == []) is is_same


def test_lists_with_doubled_or_missing_ids_are_one_value():
    before, after = document(A, A), document(A, A, {"type": "action"})
    assert [(line["pointer"], line["change"]) for line in diff.changes(before, after)] == [
        ("/steps", "changed")
    ]
