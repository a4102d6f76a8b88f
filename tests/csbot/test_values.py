"""What PostgreSQL takes, and what is made of what it does not take."""

from decimal import Decimal

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from csbot.lib import json
from csbot.lib.values import is_storable, storable
from tests.source import files, name_of

BAD = "\N{REPLACEMENT CHARACTER}"
# The one place, and the language's own, which counts what it replaces and knows no Django.
KNOWING = {"csbot/lib/values.py", "automations/strict_json.py"}


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("Žluťoučký 😀", "Žluťoučký 😀"),
        ("a\x00b", f"a{BAD}b"),
        ("\ud800", BAD),
        ("\udfff\ud800", BAD * 2),
        ({"a\x00": ["\udcff", {"b": "\x00"}]}, {f"a{BAD}": [BAD, {"b": BAD}]}),
        (("\x00", 1), [BAD, 1]),
        ({1: None}, {"1": None}),
        ([Decimal("12.50"), True, None, 2**63], [Decimal("12.50"), True, None, 2**63]),
    ],
)
def test_what_cannot_be_stored_is_replaced(value, stored):
    assert storable(value) == stored


@given(st.text(alphabet=st.characters(categories=("Cs", "Cc", "L", "So"))))
def test_what_is_storable_stays(text):
    assert is_storable(storable(text))
    assert (storable(text) == text) is is_storable(text)


@pytest.mark.django_db
def test_the_database_takes_it():
    value = {"a\x00\ud800": ["\x00", "\udc00\ud800", "😀\x7f\ufffe"]}
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb, %s::text", [json.dumps(storable(value)), storable("\x00\udfff")])
        kept, text = cursor.fetchone()
    assert json.loads(kept) == {f"a{BAD}{BAD}": [BAD, BAD * 2, "😀\x7f\ufffe"]}
    assert text == BAD * 2


def test_the_rule_is_written_once():
    knowing = {name_of(path) for path in files() if r"[\x00\ud800-\udfff]" in path.read_text()}
    assert knowing == KNOWING
