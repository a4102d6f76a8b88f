"""The embedded PostgreSQL and Redis: private, durable, never root, gone with their starter."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
from redis import Redis
from redis.exceptions import AuthenticationError

from csbot import embedded
from csbot.processes import CannotStart
from tests.installation import eventually
from tests.servers import PREFIX


def new_home() -> Path:
    home = Path(tempfile.mkdtemp(prefix=PREFIX))
    home.chmod(0o711)
    return home


@contextmanager
def started(home: Path, **wishes: bool) -> Iterator[embedded.Servers]:
    with embedded.lock(home):
        servers = embedded.start(home, **wishes)
        try:
            yield servers
        finally:
            servers.stop()


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    folder = new_home()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[embedded.Servers]:
    with started(home) as servers:
        yield servers


def children(servers: embedded.Servers) -> list[psutil.Process]:
    return [psutil.Process(servers.postgres.pid), psutil.Process(servers.redis.pid)]


def test_they_listen_on_loopback_only(running):
    for process in children(running):
        listening = [c for c in process.net_connections("all") if c.status == psutil.CONN_LISTEN]
        assert [c.laddr.ip for c in listening] == ["127.0.0.1"]


def test_the_database_takes_the_made_password_only(running):
    with psycopg.connect(running.database_url) as connection:
        method = connection.execute("SELECT rolpassword FROM pg_roles WHERE rolname = 'csbot'")
        assert method.fetchone() is not None
    address = urlsplit(running.database_url)
    for wrong in ("", "guess"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://csbot:{wrong}@127.0.0.1:{address.port}/csbot")


def test_the_superuser_has_no_way_in(running):
    address = urlsplit(running.database_url)
    with pytest.raises(psycopg.OperationalError, match=r"no pg_hba\.conf entry"):
        psycopg.connect(f"postgresql://postgres:{address.password}@127.0.0.1:{address.port}/postgres")


@pytest.mark.parametrize("server", ["database", "redis"])
def test_why_a_server_does_not_let_us_in_is_one_line_without_the_password(running, server):
    url = getattr(running, f"{server}_url")
    refusal = {"database": embedded.postgres_refusal, "redis": embedded.redis_refusal}[server]
    assert refusal(url) == ""
    password = urlsplit(url).password
    for wrong in (url.replace(password, "gehe%69m"), url.replace("127.0.0.1", "nowhere.invalid")):
        told = refusal(wrong)
        assert told
        assert not any(secret in told for secret in ("\n", "geheim", "gehe%69m", password))
        assert embedded.shown(wrong).count("•••") == 1
        assert password not in embedded.shown(wrong)


def test_redis_takes_the_made_password_only(running):
    port = urlsplit(running.redis_url).port
    with Redis(port=port) as stranger, pytest.raises(AuthenticationError):
        stranger.ping()
    with Redis.from_url(running.redis_url) as ours:
        assert ours.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert ours.config_get("save") == {"save": ""}


def test_no_password_shows_in_a_process_list(running):
    secrets = [urlsplit(url).password for url in (running.database_url, running.redis_url)]
    for process in children(running):
        shown = " ".join(process.cmdline()) + " ".join(process.environ().values())
        assert not any(secret in shown for secret in secrets)


def test_neither_runs_as_root(running):
    assert all(process.uids().real != 0 for process in children(running))


def test_secrets_and_data_are_private(running, home):
    assert (home / "servers.json").stat().st_mode & 0o777 == 0o600
    assert (home / "keys.json").stat().st_mode & 0o777 == 0o600
    assert (home / "postgres").stat().st_mode & 0o777 == 0o700
    assert (home / "log").stat().st_mode & 0o777 == 0o700


def test_what_is_committed_is_on_disk(running):
    with psycopg.connect(running.database_url) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute(f"SHOW {setting}").fetchone() == ("on",)
        assert connection.execute("SHOW timezone").fetchone() == ("UTC",)
        assert connection.execute("SELECT upper('řeka'), version()").fetchone()[0] == "ŘEKA"


def test_needed_extensions_can_be_made_by_our_own_role(running):
    with psycopg.connect(running.database_url) as connection:
        for name in ("pg_trgm", "unaccent", "btree_gin"):
            connection.execute(f"CREATE EXTENSION IF NOT EXISTS {name}")
        made = connection.execute("SELECT count(*) FROM pg_extension WHERE extname <> 'plpgsql'").fetchone()
    assert made == (3,)


def test_keys_are_long_and_random(running, home):
    keys = embedded.keys(home)
    assert len(keys["secretKey"]) >= 50
    assert len(set(keys.values())) == 4
    assert json.loads((home / "servers.json").read_text()) == {
        "databaseUrl": running.database_url,
        "redisUrl": running.redis_url,
    }


def test_a_home_has_one_owner(running, home):
    assert embedded.lock(home) is None


def test_killed_postgres_comes_back_at_its_port_with_what_was_committed(running):
    with psycopg.connect(running.database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE survivor AS SELECT 7 AS number")
        running.postgres.kill()
    running.postgres.start()
    assert eventually(lambda: embedded.postgres_answers(running.database_url))
    with psycopg.connect(running.database_url) as connection:
        assert connection.execute("SELECT number FROM survivor").fetchone() == (7,)


class TestSecondStart:
    """One home, started again and again."""

    @pytest.fixture
    def home(self) -> Iterator[Path]:
        folder = new_home()
        with (
            started(folder, redis=False, fsync=False) as first,
            psycopg.connect(first.database_url) as connection,
        ):
            connection.execute("CREATE TABLE kept AS SELECT 1 AS number")
        yield folder
        shutil.rmtree(folder)

    def numbers(self, home: Path) -> list[tuple[int]]:
        with (
            started(home, redis=False, fsync=False) as again,
            psycopg.connect(again.database_url) as connection,
        ):
            return connection.execute("SELECT number FROM kept").fetchall()

    def test_finds_data_password_and_port_again(self, home):
        before = (home / "servers.json").read_text(), (home / "keys.json").read_text()
        assert self.numbers(home) == [(1,)]
        assert ((home / "servers.json").read_text(), (home / "keys.json").read_text()) == before

    def test_takes_another_port_when_its_own_is_taken(self, home):
        port = urlsplit(json.loads((home / "servers.json").read_text())["databaseUrl"]).port
        with socket.create_server(("127.0.0.1", port)):
            assert self.numbers(home) == [(1,)]
        assert urlsplit(json.loads((home / "servers.json").read_text())["databaseUrl"]).port != port

    def test_is_not_stopped_by_a_pid_file_that_names_a_stranger(self, home):
        (home / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n{home / 'postgres'}\n")
        assert self.numbers(home) == [(1,)]

    def test_refuses_to_make_new_keys_for_old_data(self, home):
        (home / "keys.json").unlink()
        with pytest.raises(CannotStart, match=r"keys\.json is missing"):
            embedded.start(home, redis=False, fsync=False)

    def test_says_in_one_line_why_the_server_does_not_start(self, home):
        (home / "postgres" / "PG_VERSION").write_text("9\n")
        with pytest.raises(
            CannotStart, match=r"postgres does not start: .*incompatible with server"
        ) as refusal:
            embedded.start(home, redis=False, fsync=False)
        assert "\n" not in str(refusal.value)


def test_half_a_cluster_never_counts():
    home = new_home()
    (home / "postgres.new").mkdir()
    (home / "postgres.new" / "PG_VERSION").write_text("18\n")
    with started(home, redis=False, fsync=False) as servers:
        assert embedded.postgres_answers(servers.database_url)
    assert not (home / "postgres.new").exists()
    shutil.rmtree(home)


def test_they_die_with_their_starter():
    home = new_home()
    script = """
import signal, sys
from pathlib import Path
from csbot import embedded
lock = embedded.lock(Path(sys.argv[1]))
servers = embedded.start(Path(sys.argv[1]), fsync=False)
print(servers.postgres.pid, servers.redis.pid, flush=True)
signal.pause()
"""
    starter = subprocess.Popen(
        [sys.executable, "-c", script, str(home)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    pids = [int(word) for word in starter.stdout.readline().split()]
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    assert len(pids) == 2
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    shutil.rmtree(home)


def test_an_unusable_home_is_named_in_one_line():
    with pytest.raises(CannotStart, match=r"CSBOT_HOME: '/proc/csbot' cannot be used"):
        embedded.lock(Path("/proc/csbot"))
