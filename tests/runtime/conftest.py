"""What tests of the engine begin with: published automations, claimed runs."""

from collections.abc import Callable
from typing import Any

import pytest

from automations import services as automations
from automations.models import Automation
from csbot.lib import json
from runtime.execution import worker
from runtime.models import Run
from runtime.queue import states
from runtime.queue.claim import Claimer
from tickets.events import SYSTEM
from tickets.models import Tenant

MANUAL = {"kind": "manual", "params": []}


@pytest.fixture
def publish() -> Callable[..., Automation]:
    """`publish(tenant, steps, trigger=…)` saves and publishes an automation as people do."""

    def make(
        tenant: Tenant,
        steps: list[dict[str, Any]],
        trigger: dict[str, Any] | None = None,
        name: str = "Orders",
    ) -> Automation:
        raw = {"name": name, "trigger": trigger or MANUAL, "steps": steps}
        return automations.publish(automations.create(tenant, SYSTEM, raw).automation, SYSTEM)

    return make


@pytest.fixture
def enqueue() -> Callable[..., Run]:
    """`enqueue(automation, body=…)` puts a run into the queue and returns its row."""

    def put(automation: Automation, body: Any = None, **values: Any) -> Run:
        params = body if isinstance(body, dict) else {}
        run = states.enqueue(
            **{
                "tenant_id": automation.tenant_id,
                "automation_id": automation.pk,
                "version_id": automation.published_id,
                "trigger": "manual",
                "input_json": json.dumps({"body": body, "headers": {}, "params": params}),
                **values,
            }
        )
        assert run is not None
        return Run.objects.get(pk=run.run_id)

    return put


@pytest.fixture
def execute() -> Callable[[Run], Run]:
    """`execute(run)` claims what is ready until the run is no longer, executes it and returns its row."""

    def go(run: Run) -> Run:
        claimer = Claimer("test")
        while (claimed := claimer.next_run()) is not None:
            worker.run_one(claimed)
        return Run.objects.select_related("incident", "ticket").get(pk=run.pk)

    return go
