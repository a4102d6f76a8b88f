"""Whatever is killed, every order that got a 202 ends as exactly one ticket, and nothing is started by hand."""

import os
import signal
import threading
import time
import uuid

import pytest
import requests

from tests.installation import eventually
from tests.story import Story

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

ORDERS = 200


def test_kills_while_orders_come_lose_and_double_nothing(running):
    demo = Story.of_demo(running)
    url = running.demo["tenants"]["demo"]["webhooks"]["orders"]
    url = f"{running.base_url}/webhook/{url.rpartition('/')[2]}"
    mark = uuid.uuid4().hex[:8]
    accepted: dict[str, str] = {}

    def send_orders() -> None:
        session = requests.Session()
        for index in range(ORDERS):
            number = f"{mark}-{index}"
            give_up_at = time.monotonic() + 60
            while time.monotonic() < give_up_at:
                try:
                    answer = session.post(
                        url,
                        json={"kind": "order.created", "data": {"order": {"id": number}}},
                        headers={"Idempotency-Key": number},
                        timeout=5,
                    )
                except requests.RequestException:
                    time.sleep(0.05)
                    continue
                if answer.status_code == 202:
                    accepted[number] = answer.json()["runId"]
                    break
                assert answer.status_code in {502, 503}, answer.text
                time.sleep(0.05)

    sender = threading.Thread(target=send_orders)
    sender.start()
    for name in ("worker", "web", "beat", "redis", "worker"):
        eventually(lambda: running.pid(name), 20)  # noqa: B023 - looked at at once
        os.kill(running.pid(name), signal.SIGKILL)
        time.sleep(0.4)
    sender.join(timeout=120)
    assert len(accepted) == ORDERS

    def all_ended() -> bool:
        ended = {}
        for number, run_id in list(accepted.items()):
            run = demo.get(f"/api/runs/{run_id}")
            if run["status"] not in {"done", "failed", "review", "cancelled"}:
                return False
            ended[number] = run
        assert {run["status"] for run in ended.values()} == {"done"}
        assert len({run["ticket"] for run in ended.values()}) == ORDERS
        return True

    eventually(all_ended, 90, every=1.0)
    for number in accepted:
        found = demo.get("/api/tickets", externalId=number)["results"]
        assert len(found) == 1
        # The hand-over is a run of its own, triggered by the change.
        demo.ticket_when(number, lambda ticket: ticket["assignee"])
        log = demo.get(f"/api/tickets/{found[0]['number']}/log")["results"]
        kinds = [entry["kind"] for entry in log]
        assert (kinds.count("created"), kinds.count("event"), kinds.count("assigned")) == (1, 1, 1)
