"""The story that tests tell: the e-shop `shop`, the `stranger` who must see nothing, and their programs."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from csbot.lib.api import JSONRenderer
from tests.factories import (
    GroupFactory,
    MembershipFactory,
    PersonFactory,
    TenantFactory,
    TicketTypeFactory,
    TokenFactory,
)
from tickets.models import Tenant

SHOP = {
    "warehouse": ["Jana", "Karel", "Lenka"],
    "dispatch": ["Marek", "Nina"],
    "it": ["Ota", "Petra", "Radek"],
}


class ProgramClient(APIClient):
    """A program with a Bearer token: sends JSON with exact numbers."""

    default_format = "json"

    def __init__(self, **defaults) -> None:
        super().__init__(**defaults)
        self.renderer_classes = {**self.renderer_classes, "json": JSONRenderer}


@pytest.fixture
def shop(db) -> Tenant:
    """The e-shop: warehouse (3), dispatch (2) and IT (3), ticket types order and error."""
    tenant = TenantFactory(slug="shop", name="E-shop")
    for key, names in SHOP.items():
        group = GroupFactory(tenant=tenant, key=key)
        for name in names:
            person = PersonFactory(tenant=tenant, name=name, email=f"{name.lower()}@shop.test")
            MembershipFactory(group=group, person=person)
    color = {"id": "f_color", "key": "color", "label": "Color", "type": "text", "required": False}
    statuses = ["new", "waiting for packing", "handed over"]
    TicketTypeFactory(tenant=tenant, key="order", name="Order", statuses=statuses, fields=[color])
    TicketTypeFactory(tenant=tenant, key="error", name="Error", statuses=["new", "solved"])
    return tenant


@pytest.fixture
def stranger(db) -> Tenant:
    """Another company, with the same names of groups and types, that must see nothing of the shop's."""
    tenant = TenantFactory(slug="stranger", name="Stranger")
    group = GroupFactory(tenant=tenant, key="warehouse")
    MembershipFactory(
        group=group, person=PersonFactory(tenant=tenant, name="Cizinec", email="cizinec@stranger.test")
    )
    TicketTypeFactory(tenant=tenant, key="order", name="Order")
    return tenant


@pytest.fixture
def api(db) -> Callable[..., APIClient]:
    """`api(tenant, role="admin")` is a program of `tenant` with a token of that role."""

    def program(tenant: Tenant, role: str = "admin") -> APIClient:
        token = TokenFactory(tenant=tenant, role=role, name=f"{tenant.slug} {role}")
        return ProgramClient(HTTP_AUTHORIZATION=f"Bearer {token.written}")

    return program


@pytest.fixture
def staff_api(db) -> APIClient:
    """A program of platform staff; name the tenant with `HTTP_X_TENANT=…`."""
    token = TokenFactory(staff=True, name="staff")
    return ProgramClient(HTTP_AUTHORIZATION=f"Bearer {token.written}")
