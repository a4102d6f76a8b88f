"""Every route of the API, found in the URL resolver, as nobody, as each role and with another tenant's object.

A new route fails here until `tickets.rights.RIGHTS` has a row for it, and a place in an address until this
module knows what a stranger would put there.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from incidents.models import Incident
from runtime.models import Run
from tests.csbot.test_api import problem
from tests.factories import (
    AutomationFactory,
    ConnectionFactory,
    GroupFactory,
    PersonFactory,
    RunFactory,
    TenantFactory,
    TicketFactory,
    TicketTypeFactory,
    TokenFactory,
)
from tickets import audit
from tickets.events import SYSTEM
from tickets.models import Tenant
from tickets.rights import RANKS, has_right


@dataclass(frozen=True)
class Route:
    """One method of one address; `template` has `{name}` for each place."""

    template: str
    method: str
    action: str
    view: type

    def __str__(self) -> str:
        return f"{self.method} {self.template}"

    @property
    def places(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.template)

    def least(self) -> str | None:
        """Return the least role that may, None when RIGHTS has no row."""
        try:
            return next(
                role for role in RANKS if has_right(role, self.view.resource, self.action, self.method)
            )
        except ImproperlyConfigured:
            return None


def routes(patterns=None, prefix: str = "") -> Iterator[Route]:
    """Yield every method of every address under /api."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            if not prefix and not path.startswith("api/"):
                continue
            yield from routes(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern) and path.startswith("api/"):
            yield from _methods(pattern, path)


def _methods(pattern: URLPattern, path: str) -> Iterator[Route]:
    template = re.sub(r"\(\?P<(\w+)>(?:[^()]|\\.)*\)", r"{\1}", path)
    template = "/" + re.sub(r"/\?\$?$|[\^$]", "", template).replace("^", "")
    view = getattr(pattern.callback, "cls", None)
    assert view is not None, f"{template} is served by no viewset, so it asks no RIGHTS."
    for method, action in pattern.callback.actions.items():
        if method != "head":
            yield Route(template, method.upper(), action, view)


ROUTES = list(routes())

# Bodies with which a request gets as far as looking for its object; {} for all others.
BODIES = {
    ("automations", "contract_check"): {"params": []},
    ("tickets", "comment"): {"text": "hello"},
    ("tickets", "assign"): {"person": None},
    ("automations", "draft"): {"trigger": {}, "steps": []},
    ("runs", "resolve"): {"decision": "again"},
}


def strangers_id(route: Route, tenant) -> str:
    """Return what names an object of `tenant` at the place `{id}` of this route."""
    make = {
        "people": lambda: PersonFactory(tenant=tenant).public_id,
        "groups": lambda: GroupFactory(tenant=tenant).public_id,
        "ticket-types": lambda: TicketTypeFactory(tenant=tenant).public_id,
        "tokens": lambda: TokenFactory(tenant=tenant).public_id,
        "audit": lambda: audit.record(tenant, SYSTEM, "test", "groups/x", None, None).public_id,
        "tickets": lambda: TicketFactory(tenant=tenant).key,
        "connections": lambda: ConnectionFactory(tenant=tenant).public_id,
        "automations": lambda: AutomationFactory(tenant=tenant).public_id,
        "incidents": lambda: Incident.objects.create(tenant=tenant, cause="test", code="bug").public_id,
        "runs": lambda: _run_of(tenant).public_id,
    }
    assert route.view.resource in make, f"{route}: this test does not know how to make a stranger's object."
    return str(make[route.view.resource]())


def _run_of(tenant) -> Run:
    return RunFactory(tenant=tenant)


def address(route: Route, **places: str) -> str:
    """Return the route's address; every place has to be known."""
    known = {"number": "1", "slug": "nobody", "id": "00000000-0000-4000-8000-000000000000", **places}
    for place in route.places:
        assert place in known, f"{route}: this test does not know what stands at {{{place}}}."
    return route.template.format(**{place: known[place] for place in route.places})


def send(client, route: Route, at: str, **options):
    body = BODIES.get((route.view.resource, route.action), {})
    call = getattr(client, route.method.lower())
    return call(at, **options) if route.method == "GET" else call(at, body, **options)


@pytest.fixture
def company(db) -> Tenant:
    """A bare tenant: what belongs to it does not matter here."""
    return TenantFactory(slug="shop")


def test_the_resolver_has_the_resources_of_the_contract():
    resources = {route.view.resource for route in ROUTES}
    assert {
        *("me", "tenants", "people", "groups", "ticket-types", "tokens", "audit", "tickets"),
        *("automations", "runs", "incidents", "connections", "catalog"),
    } <= resources


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_every_route_has_a_row_of_rights(route):
    assert route.least() is not None, (
        f"{route}: RIGHTS has no row for {route.action} of {route.view.resource}."
    )


@pytest.mark.django_db
@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_nobody_is_401(route):
    problem(send(Client(), route, address(route), content_type="application/json"), 401, "not_authenticated")


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_each_role_against_the_table(route, api, staff_api, company):
    least = route.least()
    for role in RANKS:
        client = staff_api if role == "staff" else api(company, role)
        headers = {"X-Tenant": company.slug} if role == "staff" else {}
        response = send(client, route, address(route), headers=headers)
        if RANKS.index(role) < RANKS.index(least):
            problem(response, 403, "permission_denied")
        else:
            assert response.status_code not in {401, 403}, f"{role}: {response.content!r}"
            assert response.status_code < 500, f"{role}: {response.content!r}"


@pytest.mark.parametrize("route", [route for route in ROUTES if "id" in route.places], ids=str)
def test_the_strangers_object_is_404_as_an_absent_one(route, api, company):
    stranger = TenantFactory(slug="stranger")
    foreign = strangers_id(route, stranger)
    absent = "TK-4822" if foreign.startswith("TK-") else "00000000-0000-4000-8000-000000000000"
    before = _everything_of(stranger)
    client = api(company)
    answers = []
    for name in (foreign, absent):
        response = send(client, route, address(route, id=name))
        assert response.status_code == 404, response.content
        answers.append(response.content.decode().replace(name, "…"))
    assert answers[0] == answers[1]
    assert _everything_of(stranger) == before


def _everything_of(tenant) -> list:
    """Return the rows of a tenant in the tables that a route could change."""
    models = {route.view.model for route in ROUTES if hasattr(route.view, "model")}
    owned = sorted(
        (model for model in models if hasattr(model, "tenant_id")), key=lambda model: model.__name__
    )
    return [list(model.objects.filter(tenant=tenant).order_by("pk").values()) for model in owned]


@pytest.mark.parametrize("template", sorted({route.template for route in ROUTES}))
def test_options_is_405_everywhere(template, api, staff_api, company):
    route = next(route for route in ROUTES if route.template == template)
    at = address(route)
    assert Client().options(at).status_code == 401
    for role in RANKS:
        client = staff_api if role == "staff" else api(company, role)
        headers = {"X-Tenant": company.slug} if role == "staff" else {}
        response = client.options(at, headers=headers)
        problem(response, 405, "method_not_allowed")
        methods = {route.method for route in ROUTES if route.template == template}
        assert methods <= set(response["Allow"].split(", "))


@pytest.mark.parametrize("route", [route for route in ROUTES if route.method == "GET"], ids=str)
def test_a_parameter_that_nobody_reads_or_that_is_there_twice_is_400(route, staff_api, company):
    for query, code in (
        ("x=1", "filter.unknown"),
        ("pageSize=1&pageSize=2", None),
        ("cursor=a&cursor=a", None),
    ):
        response = staff_api.get(f"{address(route)}?{query}", headers={"X-Tenant": company.slug})
        assert response.status_code == 400, query
        assert response.json()["code"] in ([code] if code else ["filter.unknown", "filter.invalid"])
