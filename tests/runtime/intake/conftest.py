"""What tests of the door begin with: a published webhook of the shop and a sender that calls it."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import RequestFactory

from automations import services as automations
from automations import tokens
from automations.models import Automation
from csbot.lib import json
from csbot.wsgi import application
from runtime.intake import rate, webhooks
from runtime.models import Delivery, Run, RunData
from tests.runtime.intake.web import Web
from tickets.events import SYSTEM
from tickets.models import Tenant

DOC = {"id": "f_doc", "name": "docId", "path": "document.id", "type": "string", "required": True}
AMOUNT = {"id": "f_amount", "name": "amount", "path": "amount", "type": "number", "required": False}
STEPS = [{"id": "st_1", "type": "action", "op": "flow/log", "inputs": {"message": "An event came."}}]


@dataclass(frozen=True)
class Answered:
    """What came back over WSGI; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


def call(method: str, path: str, raw: bytes = b"", type: str | None = None, **headers: str) -> Answered:
    """Send a request to the web process's WSGI application; `x_github_delivery="1"` is the header X-GitHub-Delivery."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    environ = RequestFactory().generic(method, path, raw, content_type=type or "", headers=named).environ
    if type is None:
        environ.pop("CONTENT_TYPE", None)
    told: dict[str, Any] = {}

    def start_response(status: str, headers: list[tuple[str, str]]) -> None:
        told.update(status=int(status.split()[0]), headers={name.lower(): value for name, value in headers})

    content = b"".join(application(environ, start_response))
    return Answered(content=content, **told)


@dataclass
class Webhook:
    """A published automation, its address and a sender that posts there."""

    automation: Automation
    token: str

    @property
    def path(self) -> str:
        return f"/webhook/{self.token}"

    def post(self, body: Any = b"{}", type: str | None = "application/json", **headers: str) -> Answered:
        """POST bytes as they are, anything else as JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return call("POST", self.path, raw, type, **headers)

    def get(self, query: str = "", **headers: str) -> Answered:
        return call("GET", f"{self.path}?{query}", **headers)

    def runs(self) -> list[Run]:
        return list(
            Run.objects.of(self.automation.tenant_id).filter(automation=self.automation).order_by("id")
        )

    def input(self) -> dict[str, Any]:
        """Return the input of the one run."""
        (run,) = self.runs()
        return RunData.objects.of(run.tenant_id).get(run=run).input

    def kept(self) -> list[Delivery]:
        rows = Delivery.objects.of(self.automation.tenant_id).filter(automation=self.automation)
        return list(rows.exclude(outcome="taken").order_by("id"))

    def edit(self, **trigger: Any) -> None:
        """Publish the trigger with other settings."""
        raw = {"trigger": {**self.automation.draft["trigger"], **trigger}}
        self.automation = automations.publish(
            automations.save(self.automation, SYSTEM, raw).automation, SYSTEM
        )


@pytest.fixture(scope="session")
def web_process(django_db_setup, tmp_path_factory) -> Iterator[Web]:
    """The shipped web command, shared by the tests marked `process`. Who kills it starts it again."""
    web = Web(tmp_path_factory.mktemp("web"))
    web.start()
    yield web
    web.child.send(signal.SIGTERM)
    web.child.wait(5)
    web.child.kill()


@pytest.fixture
def web(transactional_db, web_process: Web) -> Web:
    """The web process, which sees what the test commits."""
    return web_process


@pytest.fixture
def webhook(shop: Tenant, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Webhook]:
    """`webhook(params=…, signature=…)` publishes an automation of the shop that any body may start."""
    monkeypatch.setattr(webhooks, "buckets", rate.Buckets())

    def make(tenant: Tenant = shop, params: list[dict[str, Any]] | None = None, **trigger: Any) -> Webhook:
        raw = {
            "name": "Documents",
            "trigger": {"kind": "webhook", "params": params or [], **trigger},
            "steps": STEPS,
        }
        automation = automations.publish(automations.create(tenant, SYSTEM, raw).automation, SYSTEM)
        token = tokens.current(automation)
        assert token is not None
        return Webhook(automation, token)

    return make
