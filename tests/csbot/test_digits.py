"""Digits that callers send are 0 to 9: Python's own tests take those of every script."""

import re

import pytest

from automations import trigger_secrets
from tests.factories import AutomationFactory, PersonFactory, TicketFactory, VersionFactory
from tests.source import files, name_of
from tickets import fields, numbers

OTHERS = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
# Lines that look at digits of any script on purpose: a name may have them; the other two read no caller's text
# that has not been read strictly before or after.
ALLOWED = {"automations/names.py", "automations/cron.py", "runtime/execution/operations/ticket.py"}


def test_no_source_asks_for_digits_of_any_script():
    asking = re.compile(r"\\d|\.is(?:digit|decimal|numeric)\(")
    found = [
        f"{name_of(path)}: {line.strip()}"
        for path in files()
        for line in path.read_text().splitlines()
        if asking.search(line) and not re.search(r"re\.ASCII|isascii\(\)", line)
    ]
    assert [line for line in found if line.split(":")[0] not in ALLOWED] == []


@pytest.mark.parametrize("text", ["TK-٣", "TK-³", "T\N{KELVIN SIGN}-3", "TK-3٣"])
def test_a_ticket_has_one_number(text):
    assert numbers.read_key(text) is None


def test_an_address_has_one_spelling_of_its_number(api, shop):
    client = api(shop)
    ticket = TicketFactory(tenant=shop)
    automation = AutomationFactory(tenant=shop)
    VersionFactory(automation=automation)
    person = PersonFactory(tenant=shop)
    at = f"/api/automations/{automation.public_id}/versions/"
    for prefix, name in (
        ("/api/tickets/TK-", str(ticket.number)),
        (at, "1"),
        ("/api/people/", str(person.public_id)),
    ):
        assert client.get(prefix + name).status_code == 200
        assert client.get(prefix + name.translate(OTHERS)).status_code == 404, prefix


@pytest.mark.parametrize(
    "query",
    [
        "tickets?assignee={id}",
        "runs?automation={id}",
        "runs?ticket=TK-{number}",
        "incidents?connection={id}",
        "incidents?ticket=TK-{number}",
        "tickets?pageSize={number}",
    ],
)
def test_a_filter_takes_no_other_digits(api, shop, query):
    values = {"id": "11111111-1111-4111-8111-111111111111", "number": "1"}
    assert api(shop).get("/api/" + query.format(**values)).status_code == 200
    others = {name: value.translate(OTHERS) for name, value in values.items()}
    assert api(shop).get("/api/" + query.format(**others)).status_code == 400


@pytest.mark.parametrize(("type_", "value"), [("number", "12"), ("date", "2026-11-30")])
def test_a_custom_field_takes_no_other_digits(type_, value):
    definition = {"id": "f_x", "key": "x", "label": "x", "type": type_}
    fields.checked(definition, value)
    with pytest.raises(fields.BadField):
        fields.checked(definition, value.translate(OTHERS))


def test_a_mark_of_a_secret_takes_no_other_digits():
    assert trigger_secrets._MARKED.fullmatch("•••2")
    assert not trigger_secrets._MARKED.fullmatch("•••٢")
