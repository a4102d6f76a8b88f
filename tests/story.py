"""The story told over HTTP against a started csbot: what a program of a company does, with deadlines."""

from __future__ import annotations

import uuid
from typing import Any

import requests

from tests.installation import Installation, eventually

WITHIN_SECONDS = 30.0


class Story:
    """A program of one tenant of a started csbot."""

    def __init__(self, installation: Installation, token: str, tenant: str | None = None) -> None:
        self.installation = installation
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = f"Bearer {token}"
        if tenant:
            self.session.headers["X-Tenant"] = tenant

    @classmethod
    def of_demo(cls, installation: Installation) -> Story:
        """The demo company's program."""
        return cls(installation, installation.demo["tenants"]["demo"]["token"])

    @classmethod
    def of_staff(cls, installation: Installation, tenant: str | None = "demo") -> Story:
        """Platform staff, looking at one tenant."""
        return cls(installation, installation.demo["staff"]["token"], tenant)

    @classmethod
    def of_new_tenant(cls, installation: Installation) -> Story:
        """A new company with nothing in it but its admin token."""
        staff = cls.of_staff(installation, None)
        slug = f"t-{uuid.uuid4().hex[:12]}"
        created = staff.post(
            "/api/tenants", {"slug": slug, "name": slug, "language": "en", "timezone": "Europe/Prague"}
        )
        return cls(installation, created["token"])

    def get(self, path: str, expect: int = 200, **query: Any) -> Any:
        """GET, with the expected status; returns the JSON."""
        answer = self.session.get(self.installation.base_url + path, params=query, timeout=10)
        assert answer.status_code == expect, f"GET {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def post(self, path: str, body: Any = None, expect: int | None = None, **headers: str) -> Any:
        """POST, with the expected status (any 2xx when none is given); returns the JSON."""
        answer = self.session.post(
            self.installation.base_url + path, json={} if body is None else body, timeout=10, headers=headers
        )
        good = answer.status_code == expect if expect else answer.ok
        assert good, f"POST {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def automation(
        self, name: str, steps: list[dict[str, Any]], trigger: dict[str, Any] | None = None
    ) -> str:
        """Create and publish an automation; returns its id."""
        raw = {"name": name, "trigger": trigger or {"kind": "webhook", "params": []}, "steps": steps}
        created = self.post("/api/automations", raw, 201)
        self.post(f"/api/automations/{created['id']}/publish")
        return created["id"]

    def webhook(self, automation: str) -> str:
        """Return the address of an automation's webhook on this installation's own port."""
        url = self.get(f"/api/automations/{automation}/webhook")["url"]
        return f"{self.installation.base_url}/webhook/{url.rpartition('/')[2]}"

    def run_when(self, run_id: str, *states: str, within: float = WITHIN_SECONDS) -> dict[str, Any]:
        """Wait until the run is in one of these states and return it."""

        def look() -> dict[str, Any] | None:
            run = self.get(f"/api/runs/{run_id}")
            return run if run["status"] in states else None

        return eventually(look, within)

    def ticket_when(self, external_id: str, condition: Any, within: float = WITHIN_SECONDS) -> dict[str, Any]:
        """Wait until the ticket with this external id satisfies `condition` and return it."""

        def look() -> dict[str, Any] | None:
            found = self.get("/api/tickets", externalId=external_id)["results"]
            return found[0] if found and condition(found[0]) else None

        return eventually(look, within)


def send(url: str, body: Any, expect: int = 202, **headers: str) -> dict[str, Any]:
    """Send an event as a sender does; returns the JSON of the answer."""
    answer = requests.post(url, json=body, timeout=10, headers=headers)
    assert answer.status_code == expect, f"{answer.status_code} {answer.text}"
    return answer.json()
