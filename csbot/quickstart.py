"""`make up`: one supervisor in the foreground that starts all of csbot and keeps it running (SPEC §16).

Invariant: it owns `CSBOT_HOME` while it runs, and what it has started ends with it.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from csbot import embedded, ports, programs
from csbot.processes import CannotStart, Child, descriptor, die_with_parent, environment
from csbot.supervisor import Supervisor

MANAGE = Path(__file__).resolve().parent.parent / "manage.py"
# Ten seconds for all of it: the services get most, Redis has nothing to write, PostgreSQL a checkpoint.
SERVICES_STOP_WITHIN_SECONDS = 7.0
REDIS_STOPS_WITHIN_SECONDS = 0.5
ALL_STOP_WITHIN_SECONDS = 9.5
# The kernel told what a killed supervisor left behind to stop; it may finish for a moment.
LEFTOVERS_END_WITHIN_SECONDS = 4.0
LOOK_EVERY_SECONDS = 0.1
# Later than a slow machine needs; somebody is waiting for a reason then.
COMPLAIN_EVERY_SECONDS = 20.0
SAMPLE_ORDER = '{"kind":"order.created","data":{"order":{"id":"5001"}}}'


def main() -> int:
    """Start csbot and keep it running until somebody asks to stop; the exit code."""
    if "MAKELEVEL" in os.environ:
        # make passes SIGTERM on; when make itself is killed, nobody would.
        die_with_parent(os.getppid(), signal.SIGTERM)
    settings = _settings()
    home = settings.CSBOT_HOME.resolve()
    try:
        lock = embedded.lock(home)
        if lock is None:
            raise CannotStart(
                f"already running in {home}; stop that one, or set another CSBOT_HOME and CSBOT_PORT"
            )
        with lock:
            return Installation(home, settings).run()
    except CannotStart as error:
        say(str(error))
        return 1


def say(line: str) -> None:
    """Print one line for the person who started csbot; nobody may be reading any more."""
    with contextlib.suppress(OSError):
        print(f"csbot: {line}", flush=True)


class Installation:
    """All processes of one home."""

    def __init__(self, home: Path, settings: ModuleType) -> None:
        self._home = home
        self._bind: str = settings.CSBOT_BIND
        self._port: int = settings.CSBOT_PORT
        self._servers = embedded.Servers()
        self._supervisor = Supervisor(say)
        self._complain_at = 0.0
        self._services = [
            self._child("web", programs.web(self._bind, self._port)),
            self._child("beat", programs.beat()),
            self._child("worker", programs.worker(settings.CSBOT_SLOTS)),
        ]

    def run(self) -> int:
        """Start everything, watch it, stop everything; the exit code. Raises CannotStart."""
        began = time.monotonic()
        try:
            self._make_room()
            self._start_servers()
            if self._finishes("migrate") and self._start_services():
                say(f"ready after {time.monotonic() - began:.1f} s, logs in {self._home / 'log'}")
                for line in _welcome(json.loads((self._home / "demo.json").read_text())):
                    say(line)
            self._supervisor.run()
        except CannotStart:
            if not self._supervisor.is_stopping:
                raise
        finally:
            self._stop()
        return 0

    def _child(self, name: str, arguments: list[str]) -> Child:
        return Child(
            name,
            [sys.executable, *arguments],
            log=self._home / "log" / f"{name}.log",
            pid_file=self._home / "run" / f"{name}.pid",
            env=environment(CSBOT_HOME=str(self._home)),
        )

    def _make_room(self) -> None:
        """End what a killed supervisor left behind. Raises CannotStart when somebody else has our port."""
        pid_files = list((self._home / "run").glob("*.pid"))
        groups = {int("0" + file.read_text().strip()) for file in pid_files} - {0, os.getpgid(0)}
        deadline = time.monotonic() + LEFTOVERS_END_WITHIN_SECONDS
        while left := _processes(self._home, groups):
            if time.monotonic() > deadline:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(LOOK_EVERY_SECONDS)
        for file in pid_files:
            file.unlink()
        refusal = ports.refusal(self._bind, self._port)
        if refusal:
            raise CannotStart(refusal)

    def _start_servers(self) -> None:
        is_ours = {
            "postgres": not os.environ.get("DATABASE_URL"),
            "redis": not os.environ.get("REDIS_URL"),
        }
        self._look_at_foreign_servers()
        names = [name for name, ours in is_ours.items() if ours]
        if names:
            say(f"starting {' and '.join(names)} in {self._home}")
            self._servers = embedded.start(
                self._home, **is_ours, say=say, is_interrupted=lambda: self._supervisor.is_stopping
            )
        for child in (self._servers.postgres, self._servers.redis):
            if child:
                self._supervisor.watch(child)

    def _look_at_foreign_servers(self) -> None:
        """Raise CannotStart when the PostgreSQL of DATABASE_URL does not answer; say so of Redis, and go on.

        Events are taken in without Redis (SPEC P2), so it may come later.
        """
        if url := os.environ.get("DATABASE_URL"):
            refusal = embedded.postgres_refusal(url)
            if refusal:
                raise CannotStart(
                    f"DATABASE_URL: {embedded.shown(url)!r} does not let us in ({refusal}); "
                    "expected postgresql://user:password@host:port/name of a running server"
                )
        if url := os.environ.get("REDIS_URL"):
            refusal = embedded.redis_refusal(url)
            if refusal:
                say(
                    f"REDIS_URL: {embedded.shown(url)!r} does not let us in ({refusal}); "
                    "expected redis://:password@host:port/0 of a running server; going on without it"
                )

    def _finishes(self, name: str) -> bool:
        """Run a management command to its end; False when asked to stop. Raises CannotStart when it fails."""
        say(f"running {name}")
        child = self._child(name, [str(MANAGE), name])
        code = self._supervisor.run_once(child)
        child.forget()
        if code:
            raise CannotStart(f"{name} failed ({descriptor(code)}): {child.last_words()} (see {child.log})")
        return code == 0

    def _start_services(self) -> bool:
        """Start the services and await readiness; False when asked to stop. Raises CannotStart."""
        web, *others = self._services
        say("starting web")
        self._supervisor.watch(web)
        # Meanwhile; beat and worker would only take the time that both need.
        if not self._finishes("demo"):
            return False
        say(f"starting {' and '.join(child.name for child in others)}")
        for child in others:
            self._supervisor.watch(child)
        self._complain_at = time.monotonic() + COMPLAIN_EVERY_SECONDS
        return self._supervisor.wait_until(self._is_ready, every_seconds=LOOK_EVERY_SECONDS)

    def _is_ready(self) -> bool:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._bind, self._bind)
        connection = http.client.HTTPConnection(host, self._port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            words = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            answer, words = None, str(error)
        finally:
            connection.close()
        if answer and answer.status == 200:
            return True
        if time.monotonic() > self._complain_at:
            say(f"not ready yet: {words}")
            self._complain_at = time.monotonic() + COMPLAIN_EVERY_SECONDS
        return False

    def _stop(self) -> None:
        deadline = time.monotonic() + ALL_STOP_WITHIN_SECONDS
        if self._supervisor.is_stopping:
            say("stopping")
        self._supervisor.stop(self._services, within_seconds=SERVICES_STOP_WITHIN_SECONDS)
        if self._servers.redis:
            self._supervisor.stop([self._servers.redis], within_seconds=REDIS_STOPS_WITHIN_SECONDS)
        if self._servers.postgres:
            left = max(0.5, deadline - time.monotonic())
            self._supervisor.stop([self._servers.postgres], within_seconds=left)
        if self._supervisor.is_stopping:
            say("stopped")


def _settings() -> ModuleType:
    """Return csbot's settings, read before anything is started, so that a wrong value costs one line.

    The addresses and secrets that an embedded start will make are not there yet; others stand in for them.
    """
    to_be_made = {}
    if not os.environ.get("REDIS_URL"):
        to_be_made["REDIS_URL"] = "redis://127.0.0.1"
    if not os.environ.get("DATABASE_URL"):
        to_be_made["DATABASE_URL"] = "postgresql://127.0.0.1/csbot"
        to_be_made |= {"CSBOT_SECRET_KEY": "0" * 50, "CSBOT_ENCRYPTION_KEYS": "A" * 43 + "="}
    made = {name: value for name, value in to_be_made.items() if not os.environ.get(name)}
    os.environ.update(made)
    try:
        return importlib.import_module("csbot.settings")
    finally:
        for name in made:
            del os.environ[name]


def _processes(home: Path, groups: set[int]) -> list[int]:
    """Return the pids that belong to `home` and to one of these process groups (Linux; elsewhere none)."""
    mark = f"CSBOT_HOME={home}".encode()
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(process.name)
            if os.getpgid(pid) in groups and mark in (process / "environ").read_bytes().split(b"\0"):
                pids.append(pid)
    return pids


def _welcome(demo: dict[str, Any]) -> list[str]:
    """Return the lines that a person needs for a first look, from what `manage.py demo` wrote."""
    base = demo["baseUrl"]
    lines = [f"admin    {base}/admin/   {demo['staff']['username']}   {demo['staff']['password']}"]
    for slug, tenant in demo["tenants"].items():
        lines.append(
            f"api      {base}/api/tickets   Authorization: Bearer {tenant['token']}   (company {slug})"
        )
        for name, person in tenant["people"].items():
            lines.append(f"person   {name}   {person['email']}   {person['password']}")
        for name, url in tenant["webhooks"].items():
            if name == "orders":
                lines.append(f"try      curl -H 'Content-Type: application/json' -d '{SAMPLE_ORDER}' {url}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
