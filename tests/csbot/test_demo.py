"""The demo company: made once, left alone afterwards, its secrets in demo.json only."""

import json
import stat

import pytest
from django.contrib.auth import authenticate
from django.core.management import call_command
from django.db import connection

from automations import services as automations
from automations.models import Automation, AutomationVersion
from csbot import demo
from tickets import tokens
from tickets.models import ApiToken, Group, Login, Membership, Person, Tenant, TicketType

pytestmark = pytest.mark.django_db
COUNTED = [ApiToken, Automation, AutomationVersion, Group, Login, Membership, Person, Tenant, TicketType]


@pytest.fixture(autouse=True)
def home(tmp_path, settings):
    """A home of its own, and hashing that costs nothing."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.CSBOT_HOME = tmp_path
    settings.CSBOT_PUBLIC_URL = "http://localhost:8000"
    return tmp_path


def token_in(address):
    return address.rsplit("/", 1)[1]


def test_the_file_is_what_the_manual_says_and_its_owners_alone(home):
    document = demo.load()
    path = home / "demo.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == document
    assert set(document) == {"baseUrl", "staff", "tenants"}
    assert document["baseUrl"] == "http://localhost:8000"
    assert set(document["staff"]) == {"username", "password", "token"}
    company = document["tenants"]["demo"]
    assert set(company) == {"token", "people", "webhooks"}
    assert set(company["webhooks"]) == {"orders", "converter-errors"}
    assert len(company["people"]) == 8
    assert all(set(person) == {"email", "password"} for person in company["people"].values())
    assert all(person["email"].endswith("@demo.test") for person in company["people"].values())


def test_everything_in_the_file_works():
    document = demo.load()
    company = document["tenants"]["demo"]
    staff = authenticate(username="admin", password=document["staff"]["password"])
    assert staff.is_staff and staff.is_superuser
    assert tokens.find(document["staff"]["token"]).tenant is None
    token = tokens.find(company["token"])
    assert (token.tenant.slug, token.role) == ("demo", "admin")
    for name, person in company["people"].items():
        login = authenticate(username=person["email"], password=person["password"])
        assert login.people.get().name == name
        assert not login.is_staff
    for key, name in (("orders", "Orders"), ("converter-errors", "Converter errors")):
        assert automations.webhook_of(token_in(company["webhooks"][key])).automation_name == name


def test_the_company_is_that_of_the_proven_scenario():
    demo.load()
    tenant = Tenant.objects.get(slug="demo")
    assert (tenant.name, tenant.language, tenant.timezone) == ("Demo e-shop", "cs", "Europe/Prague")
    sizes = {group.key: group.memberships.count() for group in Group.objects.of(tenant)}
    assert sizes == {"warehouse": 3, "dispatch": 2, "it": 3}
    assert set(TicketType.objects.of(tenant).values_list("key", flat=True)) == {"order", "error"}
    live = Automation.objects.of(tenant).select_related("published", "trigger").order_by("pk")
    assert [(one.name, one.state, one.published.number, one.trigger.kind) for one in live] == [
        ("Orders", "active", 1, "webhook"),
        ("Hand over to the warehouse", "active", 1, "ticket"),
        ("Converter errors", "active", 1, "webhook"),
    ]
    assert [automations.look(one).warnings for one in live] == [[], [], []]


def test_a_second_call_changes_nothing(home):
    first = demo.load()
    before = [model.objects.count() for model in COUNTED], (home / "demo.json").stat().st_mtime_ns
    assert demo.load() == first
    assert ([model.objects.count() for model in COUNTED], (home / "demo.json").stat().st_mtime_ns) == before


def test_what_people_changed_stays():
    first = demo.load()
    tenant = Tenant.objects.get(slug="demo")
    Automation.objects.of(tenant).filter(name="Orders").update(name="Our orders")
    Person.objects.of(tenant).filter(name="Jana").update(name="Jana Nová")
    Group.objects.of(tenant).filter(key="dispatch").delete()
    assert demo.load() == first
    assert Automation.objects.of(tenant).count() == 3
    assert Person.objects.of(tenant).filter(email="jana@demo.test").get().name == "Jana Nová"
    assert not Group.objects.of(tenant).filter(key="dispatch").exists()


def test_without_the_file_passwords_and_tokens_are_made_anew(home):
    first = demo.load()
    (home / "demo.json").unlink()
    second = demo.load()
    old, new = first["tenants"]["demo"], second["tenants"]["demo"]
    assert tokens.find(old["token"]) is None
    assert tokens.find(first["staff"]["token"]) is None
    assert tokens.find(new["token"]) and tokens.find(second["staff"]["token"])
    jana = old["people"]["Jana"]
    assert authenticate(username=jana["email"], password=jana["password"]) is None
    assert authenticate(username=jana["email"], password=new["people"]["Jana"]["password"])
    assert new["webhooks"] == old["webhooks"]
    assert Tenant.objects.count() == 1


def test_a_file_of_another_database_is_replaced(home):
    stale = {"staff": {"username": "admin"}, "tenants": {"demo": {"token": "csb_old", "people": {}}}}
    (home / "demo.json").write_text(json.dumps(stale))
    document = demo.load()
    assert tokens.find(document["tenants"]["demo"]["token"])
    assert len(document["tenants"]["demo"]["people"]) == 8
    assert document["staff"]["password"]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "7", '{"tenants": 7}', '{"tenants": {"demo": []}, "staff": 1}']
)
def test_a_broken_file_is_as_good_as_none(home, content):
    demo.load()
    (home / "demo.json").write_text(content)
    assert set(demo.load()) == {"baseUrl", "staff", "tenants"}
    assert authenticate(username="admin", password=demo.load()["staff"]["password"])


def test_addresses_follow_the_public_url(settings):
    first = demo.load()
    settings.CSBOT_PUBLIC_URL = "https://desk.example.test"
    second = demo.load()
    assert second["baseUrl"] == "https://desk.example.test"
    url = second["tenants"]["demo"]["webhooks"]["orders"]
    assert (
        url == f"https://desk.example.test/webhook/{token_in(first['tenants']['demo']['webhooks']['orders'])}"
    )
    assert second["staff"] == first["staff"]


def test_no_secret_is_in_the_database(home):
    document = demo.load()
    secrets = [
        document["staff"]["password"],
        document["staff"]["token"],
        document["tenants"]["demo"]["token"],
    ]
    secrets += [person["password"] for person in document["tenants"]["demo"]["people"].values()]
    secrets += [token_in(address) for address in document["tenants"]["demo"]["webhooks"].values()]
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT string_agg(t::text, chr(10)) FROM "{table}" t')
            content = cursor.fetchone()[0] or ""
            assert not [secret for secret in secrets if secret in content], table


def test_the_command_says_where_the_logins_are(home, capsys):
    call_command("demo")
    assert str(home / "demo.json") in capsys.readouterr().out
