"""The supervisor: what dies comes back, crash loops slow down, stopping ends everything."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from csbot.processes import Child
from csbot.supervisor import STOP_SIGNALS, Supervisor
from tests.installation import eventually


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(said: list[str]) -> Iterator[Supervisor]:
    """A supervisor in this process, which gets its signals back afterwards."""
    numbers = (signal.SIGCHLD, *STOP_SIGNALS)
    before = {number: signal.getsignal(number) for number in numbers}
    watching = Supervisor(said.append)
    yield watching
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)
    watching.close()


def python(name: str, script: str, tmp_path: Path) -> Child:
    return Child(
        name,
        [sys.executable, "-c", script],
        log=tmp_path / f"{name}.log",
        pid_file=tmp_path / f"{name}.pid",
    )


def test_a_killed_child_comes_back_under_a_new_pid(supervisor, said, tmp_path):
    child = python("web", "import signal; signal.pause()", tmp_path)
    supervisor.watch(child)
    first = child.pid
    os.kill(first, signal.SIGKILL)
    assert supervisor.wait_until(lambda: child.is_running and child.pid != first)
    assert int((tmp_path / "web.pid").read_text()) == child.pid
    assert said == ["web ended (signal SIGKILL), again in 0.2 s"]
    supervisor.stop([child], within_seconds=5)


def test_a_crash_loop_slows_down_and_says_why(supervisor, said, tmp_path):
    child = python("beat", "raise SystemExit('no database')", tmp_path)
    supervisor.watch(child)
    supervisor.wait_until(lambda: len(said) == 3)
    assert said == [
        f"beat ended (exit code 1), again in {wait} s: no database" for wait in ("0.2", "0.4", "0.8")
    ]
    supervisor.stop([child], within_seconds=1)


def test_a_program_that_is_not_there_is_tried_again(supervisor, said, tmp_path):
    child = Child("web", [str(tmp_path / "missing")])
    supervisor.watch(child)
    supervisor.wait_until(lambda: len(said) == 2)
    assert all("No such file" in line for line in said)


def test_a_dead_leader_takes_what_it_started_along(supervisor, tmp_path):
    script = """
import signal, subprocess, sys
grandchild = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(grandchild.pid, flush=True)
signal.pause()
"""
    child = python("web", script, tmp_path)
    supervisor.watch(child)
    eventually(child.last_words)
    orphan, first = int(child.last_words()), child.pid
    os.kill(first, signal.SIGKILL)
    supervisor.wait_until(lambda: child.is_running and child.pid != first)
    eventually(
        lambda: not psutil.pid_exists(orphan) or psutil.Process(orphan).status() == psutil.STATUS_ZOMBIE
    )
    supervisor.stop([child], within_seconds=1)


def test_stopping_kills_what_does_not_listen(supervisor, said, tmp_path):
    script = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"
    )
    deaf = python("worker", script, tmp_path)
    listening = python("web", "import signal; signal.pause()", tmp_path)
    for child in (deaf, listening):
        supervisor.watch(child)
    eventually(deaf.last_words)
    supervisor.stop([listening, deaf], within_seconds=0.5)
    assert not deaf.is_running
    assert not listening.is_running
    assert said == ["worker did not stop in time and was killed"]
    assert list(tmp_path.glob("*.pid")) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_watch_at_once(supervisor, number):
    threading.Timer(0.1, os.kill, [os.getpid(), number]).start()
    before = time.monotonic()
    supervisor.run()
    assert supervisor.is_stopping
    assert time.monotonic() - before < 2


def test_a_command_runs_to_its_end_and_is_cut_when_asked_to_stop(supervisor, tmp_path):
    assert supervisor.run_once(python("migrate", "raise SystemExit(3)", tmp_path)) == 3
    endless = python("migrate", "import signal; signal.pause()", tmp_path)
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGTERM]).start()
    assert supervisor.run_once(endless) is None
    assert not endless.is_running


def test_a_large_log_is_set_aside_at_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setattr("csbot.processes.LOG_LIMIT_BYTES", 3)
    child = python("web", "print('more than three')", tmp_path)
    for _ in range(2):
        child.start()
        assert child.wait(10)
    assert (tmp_path / "web.log.1").read_text() == "more than three\n"
    assert (tmp_path / "web.log").read_text() == "more than three\n"
    assert (tmp_path / "web.log").stat().st_mode & 0o777 == 0o600
