"""The PostgreSQL of an embedded start: its cluster on disk and the child that serves it.

Invariant: full durability (SPEC P1) unless a test gives it up; no superuser by network; never as root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from csbot import accounts
from csbot.processes import Account, CannotStart, Child, Say, server_environment

# What a postmaster killed outright leaves behind ends by itself in a moment; after that it is killed.
LEFTOVERS_END_WITHIN_SECONDS = 5.0
LOOK_EVERY_SECONDS = 0.02
# Sized for a small machine that also runs csbot itself; statements are not logged, they carry clients' data.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "effective_cache_size": "512MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "64MB",
    "random_page_cost": "1.1",
    "jit": "off",
    # Parallel queries need /dev/shm, which containers cut to 64 MB.
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "log_checkpoints": "off",
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}
# The superuser has no way in; `csbot` owns its database and may create others (for tests).
ACCESS = "host all csbot 127.0.0.1/32 scram-sha-256\n"
ROLE = """CREATE ROLE csbot LOGIN CREATEDB IN ROLE pg_monitor PASSWORD '{password}';
CREATE DATABASE csbot OWNER csbot;
"""
# C.UTF-8 of PostgreSQL's own: Czech letters have upper and lower case whatever the system's locales are.
LOCALE = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]


class Cluster:
    """The data in `<home>/postgres`, served by the programs in `folder` as `account` (None: as we are)."""

    def __init__(self, home: Path, folder: Path, account: Account | None, *, fsync: bool, say: Say) -> None:
        self._home = home
        self._folder = folder
        self._account = account
        self._say = say
        self._data = home / "postgres"
        switch = "on" if fsync else "off"
        self._durability = {"fsync": switch, "synchronous_commit": switch, "full_page_writes": switch}

    def ensure(self, password: str) -> None:
        """Make the cluster with its role and database `csbot` when there is none. Raises CannotStart."""
        accounts.let_through(self._account, self._folder / "postgres", self._say)
        if not self._data.exists():
            self._create(password)
        if self._account is None and self._data.stat().st_uid != os.geteuid():
            raise CannotStart(
                f"{self._data} belongs to another account; start as that one or as root, or set CSBOT_HOME"
            )
        accounts.give(self._data, self._account)
        accounts.let_through(self._account, self._data, self._say)

    def child(self, port: int) -> Child:
        """Return the server as a child that listens on `port` of 127.0.0.1."""
        settings = {**SETTINGS, **self._durability, "port": str(port)}
        return Child(
            "postgres",
            [str(self._folder / "postgres"), "-D", str(self._data), *_options(settings)],
            log=self._home / "log" / "postgres.log",
            pid_file=self._home / "run" / "postgres.pid",
            env=server_environment(),
            account=self._account,
            stop_signal=signal.SIGINT,  # fast shutdown: does not wait for clients to leave
            before_start=self._end_leftovers,
        )

    def _create(self, password: str) -> None:
        """Make it beside its place and move it there when complete, so that half of one never counts."""
        beside = self._data.with_name("postgres.new")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(mode=0o700)
        accounts.give(beside, self._account)
        accounts.let_through(self._account, beside, self._say)
        sync = [] if self._durability["fsync"] == "on" else ["--no-sync"]
        self._run("initdb", "-D", str(beside), "-U", "postgres", "--auth=reject", *LOCALE, *sync)
        with (beside / "pg_hba.conf").open("w") as access:
            access.write(ACCESS)
            access.flush()
            os.fsync(access.fileno())
        statements = ROLE.format(password=password)
        options = _options(self._durability)
        self._run("postgres", "--single", "-D", str(beside), *options, "postgres", text=statements)
        beside.rename(self._data)

    def _run(self, program: str, *arguments: str, text: str = "") -> None:
        account = self._account
        done = subprocess.run(
            [str(self._folder / program), *arguments],
            input=text,
            capture_output=True,
            text=True,
            env=server_environment(),
            cwd="/",
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            # A Ctrl-C in the terminal is the supervisor's to answer.
            start_new_session=True,
            check=False,
        )
        # A single-user server goes on after an error and ends with 0.
        words = [
            line for line in done.stderr.splitlines() if "error:" in line.lower() or "fatal:" in line.lower()
        ]
        if done.returncode or words:
            words = words or done.stderr.splitlines() or [f"exit code {done.returncode}"]
            raise CannotStart(f"{program} failed: {words[0]}")

    def _end_leftovers(self) -> None:
        """End what an earlier server of this folder left running; forget a pid file that names a stranger.

        Called under the home's lock, so whoever works in the folder is a leftover. PostgreSQL minds the pid
        file of a dead process itself, but takes any living process of that number for its own.
        """
        deadline = time.monotonic() + LEFTOVERS_END_WITHIN_SECONDS
        while left := _working_in(self._data):
            if time.monotonic() > deadline:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(LOOK_EVERY_SECONDS)
        pid_file = self._data / "postmaster.pid"
        if pid_file.exists() and Path("/proc", pid_file.read_text().partition("\n")[0], "stat").exists():
            pid_file.unlink()


def _options(settings: dict[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def _working_in(folder: Path) -> list[int]:
    """Return the pids of processes whose working folder this is (Linux; elsewhere none)."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == folder:
                pids.append(int(process.name))
    return pids
