"""A whole csbot for tests that look at real processes: `make up` in a home and on a port of its own."""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

from csbot import ports
from csbot.processes import Child
from tests.servers import PREFIX

T = TypeVar("T")
# Ten times what it takes on a machine with nothing else to do.
READY_WITHIN_SECONDS = 100.0


def eventually(look: Callable[[], T], timeout: float = 10.0, every: float = 0.05) -> T:
    """Return the first true answer of `look`. Fails after `timeout` seconds with the last answer."""
    deadline = time.monotonic() + timeout
    while not (answer := look()):
        assert time.monotonic() < deadline, f"not within {timeout} s: {look}, last answer {answer!r}"
        time.sleep(every)
    return answer


def outside_environment(**more: str) -> dict[str, str]:
    """Return this process's environment without anything that names the test's own servers and settings."""
    ours = ("CSBOT_", "DATABASE_URL", "REDIS_URL")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | more


class Installation:
    """One home under `make up`. It may be started and stopped several times; `close` removes it."""

    def __init__(self, **environment: str) -> None:
        self.home = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.home.chmod(0o711)
        self.port = ports.free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.environment = outside_environment(
            CSBOT_HOME=str(self.home), CSBOT_PORT=str(self.port), **environment
        )
        (self.home / "log").mkdir(mode=0o700)
        self._supervisor = Child(
            "supervisor",
            [sys.executable, "-m", "csbot.quickstart"],
            log=self.home / "log" / "supervisor.log",
            env=self.environment,
        )

    @property
    def demo(self) -> dict[str, Any]:
        """What `demo.json` says: tokens, logins, webhooks."""
        return json.loads((self.home / "demo.json").read_text())

    @property
    def supervisor(self) -> psutil.Process:
        """The process that `make up` is."""
        return psutil.Process(self._supervisor.pid)

    def start(self) -> None:
        """Start and wait until it says that it is ready."""
        said_before = len(self.log("supervisor"))
        self._supervisor.start()

        def is_ready() -> bool:
            said = self.log("supervisor")[said_before:]
            assert self._supervisor.is_running, said
            return "csbot: ready" in said and "csbot: try" in said

        eventually(is_ready, READY_WITHIN_SECONDS)

    def stop(self) -> None:
        """Ask it to stop and wait for its end, as it promises it: within ten seconds."""
        self._supervisor.send(signal.SIGTERM)
        assert self._supervisor.wait(10), self.log("supervisor")

    def kill(self) -> None:
        """Kill the supervisor outright."""
        self._supervisor.send(signal.SIGKILL)
        self._supervisor.wait(5)

    def close(self) -> None:
        """Stop what still runs and remove the home."""
        self._supervisor.send(signal.SIGTERM)
        self._supervisor.wait(10)
        self._supervisor.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def pid(self, name: str) -> int:
        """Return the pid of `web`, `worker`, `beat`, `postgres` or `redis`; 0 while it has none."""
        try:
            return int((self.home / "run" / f"{name}.pid").read_text())
        except FileNotFoundError:
            return 0

    def log(self, name: str) -> str:
        """Return what `supervisor`, `web`, `worker`, `beat`, `postgres` or `redis` has printed."""
        path = self.home / "log" / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def processes(self) -> list[psutil.Process]:
        """Return all processes of this installation that run now, the supervisor first."""
        return [self.supervisor, *self.supervisor.children(recursive=True)]
