"""`make up` on real processes: one owner for a home, nothing stays dead, nothing stays behind."""

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from csbot import ports
from tests.installation import Installation, eventually, outside_environment

pytestmark = pytest.mark.process
# Ten times what a start of Django takes on a machine with nothing else to do.
PATIENCE_SECONDS = 60.0
NAMES = ("web", "worker", "beat", "postgres", "redis")


def is_ready(installation: Installation) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", installation.port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the project to its end, as somebody else's shell would."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=outside_environment(**environment),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def all_ended(processes: list[psutil.Process]) -> bool:
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


def test_it_tells_addresses_logins_and_a_first_order(installation):
    said = installation.log("supervisor")
    demo = installation.demo
    assert f"{demo['baseUrl']}/admin/" in said
    assert f"{demo['baseUrl']}/api/tickets" in said
    assert demo["tenants"]["demo"]["token"] in said
    assert demo["staff"]["password"] in said
    for person in demo["tenants"]["demo"]["people"].values():
        assert person["email"] in said
        assert person["password"] in said
    assert demo["tenants"]["demo"]["webhooks"]["orders"] in said.split("try ")[1]


def test_each_pid_file_names_the_main_process(installation):
    parents = {name: psutil.Process(installation.pid(name)).ppid() for name in NAMES}
    assert parents == dict.fromkeys(NAMES, installation.supervisor.pid)


def test_what_must_be_secret_is_the_starters_alone(installation):
    for name in ("keys.json", "servers.json", "demo.json"):
        assert (installation.home / name).stat().st_mode & 0o777 == 0o600, name


def test_a_second_start_says_that_the_first_runs(installation):
    second = run("-m", "csbot.quickstart", CSBOT_HOME=str(installation.home), CSBOT_PORT="1")
    assert second.returncode == 1
    assert second.stdout.count("\n") == 1
    assert f"already running in {installation.home}" in second.stdout
    assert is_ready(installation)


def test_a_busy_port_is_named(installation, tmp_path):
    busy = run("-m", "csbot.quickstart", CSBOT_HOME=str(tmp_path / "home"), CSBOT_PORT=str(installation.port))
    assert busy.returncode == 1
    assert busy.stdout == (
        f"csbot: CSBOT_PORT: {installation.port} on 127.0.0.1 is in use; expected a free port\n"
    )


def test_a_wrong_setting_stops_the_start_before_anything_is_made(tmp_path):
    wrong = run("-m", "csbot.quickstart", CSBOT_HOME=str(tmp_path / "home"), CSBOT_SLOTS="many")
    assert wrong.returncode == 1
    assert wrong.stderr.count("\n") == 1
    assert "CSBOT_SLOTS: 'many' is not accepted" in wrong.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://jana:gehe%69m@127.0.0.1:{port}/csbot", "postgresql://jana:•••@127.0.0.1:{port}/csbot"),
        ("postgresql://127.0.0.1:{port}/csbot?password=geheim", "postgresql://127.0.0.1:{port}/csbot"),
        (
            "postgresql://jana:geheim@127.0.0.1:{port}/csbot?geheim=1",
            "postgresql://jana:•••@127.0.0.1:{port}/csbot",
        ),
    ],
)
def test_a_database_that_does_not_answer_costs_one_line_that_names_the_variable(tmp_path, url, shown):
    port = ports.free_port()
    began = time.monotonic()
    ended = run(
        "-m", "csbot.quickstart",
        CSBOT_HOME=str(tmp_path / "home"), CSBOT_PORT=str(ports.free_port()),
        DATABASE_URL=url.format(port=port),
        CSBOT_SECRET_KEY="k" * 50, CSBOT_ENCRYPTION_KEYS="A" * 43 + "=",
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr == ""
    assert ended.stdout.count("\n") == 1
    assert ended.stdout.startswith(f"csbot: DATABASE_URL: {shown.format(port=port)!r} does not let us in (")
    assert "expected postgresql://" in ended.stdout
    assert "geheim" not in ended.stdout
    assert time.monotonic() - began < PATIENCE_SECONDS / 4


@pytest.mark.parametrize("name", NAMES)
def test_what_is_killed_comes_back(installation, name):
    servers = (installation.home / "servers.json").read_text()
    first = installation.pid(name)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: installation.pid(name) not in (0, first))
    assert f"csbot: {name} ended (signal SIGKILL), again in" in installation.log("supervisor")
    eventually(lambda: is_ready(installation), timeout=PATIENCE_SECONDS)
    # Everybody else finds the servers where they were.
    assert (installation.home / "servers.json").read_text() == servers
    assert psutil.pid_exists(installation.pid(name))


@pytest.mark.parametrize("name", ["web", "worker", "beat"])
def test_no_orphan_works_on_beside_the_new_one(installation, name):
    old = psutil.Process(installation.pid(name))
    family = [old, *eventually(lambda: old.children(recursive=True), timeout=PATIENCE_SECONDS)]
    old.kill()
    eventually(lambda: installation.pid(name) not in (0, old.pid))
    eventually(lambda: all_ended(family))
    eventually(lambda: is_ready(installation), timeout=PATIENCE_SECONDS)


def test_children_of_beat_come_back_by_themselves(installation):
    beat = psutil.Process(installation.pid("beat"))
    children = eventually(lambda: len(beat.children()) == 2 and beat.children(), timeout=PATIENCE_SECONDS)
    for child in children:
        child.kill()
    eventually(
        lambda: len(beat.children()) == 2 and not set(beat.children()) & set(children),
        timeout=PATIENCE_SECONDS,
    )
    assert installation.pid("beat") == beat.pid


def test_one_more_web_joins_by_its_home(installation):
    arguments = [sys.executable, "manage.py", "web"]
    another = Installation()
    more = subprocess.Popen(
        arguments,
        env=outside_environment(CSBOT_HOME=str(installation.home), CSBOT_PORT=str(another.port)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: is_ready(another), timeout=PATIENCE_SECONDS)
        busy = run("manage.py", "web", CSBOT_HOME=str(installation.home), CSBOT_PORT=str(another.port))
        assert busy.returncode == 1
        assert busy.stderr.endswith(
            f"CSBOT_PORT: {another.port} on 127.0.0.1 is in use; expected a free port\n"
        )
        assert busy.stderr.count("\n") == 1
    finally:
        more.terminate()
        assert more.wait(10) == 0
        another.close()


@pytest.fixture(scope="class")
def second() -> Iterator[Installation]:
    other = Installation()
    try:
        other.start()
        yield other
    finally:
        other.close()


class TestSecondHome:
    """Two homes side by side; one is killed, started again and stopped."""

    def test_both_run(self, installation, second):
        assert is_ready(installation)
        assert is_ready(second)
        assert {installation.pid(name) for name in NAMES}.isdisjoint({second.pid(name) for name in NAMES})

    def test_a_killed_supervisor_leaves_nothing_running(self, second):
        processes = second.processes()
        second.kill()
        eventually(lambda: all_ended(processes), timeout=15)

    def test_started_again_it_keeps_its_data(self, second):
        demo, keys = second.demo, (second.home / "keys.json").read_text()
        second.start()
        assert is_ready(second)
        assert (second.home / "keys.json").read_text() == keys
        assert second.demo["tenants"].keys() == demo["tenants"].keys()
        assert second.demo["tenants"]["demo"]["webhooks"] == demo["tenants"]["demo"]["webhooks"]

    def test_sigterm_stops_all_within_ten_seconds(self, installation, second):
        # Not before all of it is up: the worker's children, beat's two and the tick worker's one.
        eventually(lambda: psutil.Process(second.pid("worker")).children(), timeout=PATIENCE_SECONDS)
        eventually(
            lambda: len(psutil.Process(second.pid("beat")).children(recursive=True)) == 3,
            timeout=PATIENCE_SECONDS,
        )
        processes = second.processes()
        before = time.monotonic()
        second.stop()
        assert time.monotonic() - before < 10
        assert all_ended(processes)
        assert list((second.home / "run").glob("*.pid")) == []
        assert second.log("supervisor").endswith("csbot: stopped\n")
        assert is_ready(installation)
