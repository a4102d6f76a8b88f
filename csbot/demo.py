"""The demo company of SPEC section 15: people, ticket types and three automations, made once.

What its people change afterwards stays as it is. Passwords and tokens are known to `$CSBOT_HOME/demo.json` alone;
when that file is gone they are made anew.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from automations import services as automations
from automations import tokens as webhook_tokens
from automations import webhook
from automations.models import Automation
from csbot.demo_trees import AUTOMATIONS
from tickets import people, tokens
from tickets.events import SYSTEM
from tickets.models import ApiToken, Login, Person, Role, Tenant

SLUG = "demo"
STAFF = "admin"
TOKEN_NAME = "demo.json"
# Group -> its name and, of each person, name, role and capacity.
GROUPS: dict[str, tuple[str, list[tuple[str, str, int]]]] = {
    "warehouse": ("Sklad", [("Jana", Role.AGENT, 10), ("Karel", Role.AGENT, 10), ("Lenka", Role.AGENT, 6)]),
    "dispatch": ("Expedice", [("Marek", Role.AGENT, 12), ("Nina", Role.AGENT, 8)]),
    "it": ("IT", [("Ota", Role.ADMIN, 5), ("Petra", Role.AGENT, 5), ("Radek", Role.AGENT, 5)]),
}
TYPES: list[dict[str, Any]] = [
    {
        "key": "order",
        "name": "Objednávka",
        "statuses": ["new", "waiting for packing", "handed over"],
        "fields": [],
    },
    {"key": "error", "name": "Chyba", "statuses": ["new", "in progress", "solved"], "fields": []},
]


def load() -> dict[str, Any]:
    """Make sure that the demo company and a staff login are there, write demo.json and return what it says.

    A second call changes nothing but addresses that follow CSBOT_PUBLIC_URL.
    """
    path = settings.CSBOT_HOME / "demo.json"
    known = _read(path)
    with transaction.atomic():
        tenant = Tenant.objects.filter(slug=SLUG).first()
        company = _part(known, "tenants", SLUG) if tenant else {}
        if tenant is None:
            tenant = _found()
        staff = _part(known, "staff") if Login.objects.filter(username=STAFF).exists() else {}
        document = {
            "baseUrl": settings.CSBOT_PUBLIC_URL,
            "staff": staff or _staff(),
            "tenants": {
                SLUG: {
                    "token": company.get("token") or _token(tenant),
                    "people": company.get("people") or _passwords(tenant),
                    "webhooks": _webhooks(tenant, _part(company, "webhooks")),
                }
            },
        }
    if document != known:
        _write(path, document)
    return document


def _found() -> Tenant:
    """Make the company with everything in it, automations published."""
    values = {"slug": SLUG, "name": "Demo e-shop", "language": "cs", "timezone": "Europe/Prague"}
    tenant, _first_token = people.create_tenant(SYSTEM, values)
    for key, (name, members) in GROUPS.items():
        for person, role, _capacity in members:
            people.create_person(tenant, SYSTEM, {"name": person, "email": _email(person), "role": role})
        listed = [{"person": _email(person), "capacity": capacity} for person, _role, capacity in members]
        people.create_group(tenant, SYSTEM, {"key": key, "name": name, "members": listed})
    for kind in TYPES:
        people.create_type(tenant, SYSTEM, kind)
    for raw, _key in AUTOMATIONS:
        automations.publish(automations.create(tenant, SYSTEM, raw).automation, SYSTEM)
    return tenant


def _staff() -> dict[str, str]:
    """Return login and token of the platform's staff, made anew."""
    password = _password()
    login = Login.objects.filter(username=STAFF).first() or Login(
        username=STAFF, email=f"{STAFF}@{SLUG}.test"
    )
    login.is_staff = login.is_superuser = login.is_active = True
    login.set_password(password)
    login.save()
    for earlier in ApiToken.objects.filter(tenant=None, name=TOKEN_NAME):
        tokens.revoke(earlier)
    _row, written = tokens.issue(None, TOKEN_NAME, None)
    return {"username": STAFF, "password": password, "token": written}


def _token(tenant: Tenant) -> str:
    """Return an admin token of the company, made anew; an earlier one from here ends."""
    for earlier in ApiToken.objects.of(tenant).filter(name__in=[TOKEN_NAME, "First admin"]):
        people.revoke_token(earlier, SYSTEM)
    _row, written = people.create_token(tenant, SYSTEM, {"name": TOKEN_NAME, "role": Role.ADMIN})
    return written


def _passwords(tenant: Tenant) -> dict[str, dict[str, str]]:
    """Give each person of the company a login with a new password, and return what they sign in with."""
    made = {}
    for name in [name for _title, members in GROUPS.values() for name, _role, _capacity in members]:
        email, password = _email(name), _password()
        person = Person.objects.of(tenant).filter(email=email).first()
        if person is None:
            continue
        login = Login.objects.filter(username=email).first() or Login(username=email, email=email)
        login.set_password(password)
        login.save()
        people.change_person(person, SYSTEM, {"login": login})
        made[name] = {"email": email, "password": password}
    return made


def _webhooks(tenant: Tenant, known: dict[str, str]) -> dict[str, str]:
    """Return the addresses of the company's webhooks as they are now; of a renamed one, that known so far."""
    addresses = {key: webhook.address(url.rsplit("/", 1)[-1]) for key, url in known.items()}
    for raw, key in AUTOMATIONS:
        automation = Automation.objects.of(tenant).named(raw["name"])
        token = webhook_tokens.current(automation) if automation and key else None
        if token and key:
            addresses[key] = webhook.address(token)
    return addresses


def _email(name: str) -> str:
    return f"{name.lower()}@{SLUG}.test"


def _password() -> str:
    # 80 bits that a double click selects whole.
    return secrets.token_hex(10)


def _read(path: Path) -> dict[str, Any]:
    """Return what an earlier call wrote, or an empty dict."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _part(document: Any, *keys: str) -> dict[str, Any]:
    """Return an object inside the document, or an empty dict where there is none."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def _write(path: Path, document: dict[str, Any]) -> None:
    """Write the file whole or not at all, readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(document, file, ensure_ascii=False, indent=2)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
