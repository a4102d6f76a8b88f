"""The shipped web command over the database of the tests."""

import contextlib
import os
import sys
from pathlib import Path

import psutil
import requests
from django.db import connection

from csbot import ports
from csbot.processes import Child
from tests.installation import eventually
from tests.runtime.intake.load import Outcome, Sender, post

MANAGE = Path(__file__).resolve().parents[3] / "manage.py"
BODY = b'{"document":{"id":"%d"}}'
CONNECTIONS = 8


class Web:
    """`manage.py web` over the database of the tests."""

    def __init__(self, home: Path) -> None:
        self.port = ports.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        server, _, _ = os.environ["DATABASE_URL"].rpartition("/")
        environment = os.environ | {
            "DATABASE_URL": f"{server}/{connection.settings_dict['NAME']}",
            "CSBOT_HOME": str(home),
            "CSBOT_PORT": str(self.port),
            "CSBOT_WEBHOOK_RATE": "100000/100000",
        }
        self.child = Child("web", [sys.executable, str(MANAGE), "web"], log=home / "web.log", env=environment)

    def start(self) -> None:
        self.child.start()
        eventually(self._is_up, 60)

    def _is_up(self) -> bool:
        assert self.child.is_running, self.child.last_words()
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"{self.url}/webhook/none", timeout=2).status_code == 404
        return False

    def post(self, path: str, number: int = 1, **headers: str) -> requests.Response:
        return requests.post(f"{self.url}{path}", data=BODY % number, headers=headers, timeout=10)

    def load(self, path: str, seconds: float, connections: int = CONNECTIONS) -> list[Outcome]:
        return Sender(self.url, lambda n: post(path, BODY % n), connections).run(seconds)

    def memory(self) -> int:
        main = psutil.Process(self.child.pid)
        return sum(process.memory_info().rss for process in [main, *main.children(recursive=True)])

    def log(self) -> str:
        return self.child.log.read_text() if self.child.log else ""
