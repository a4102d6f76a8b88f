"""Child processes that die with their parent and are started again when they die.

Invariant: what a `Child` has started ends when its parent ends, however that happens (Linux: the kernel's
parent-death signal). Knows neither Django nor what the children do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

# Logs are set aside when a child starts, so a log is bounded by what one life of it writes.
LOG_LIMIT_BYTES = 10 * 1024 * 1024
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
# Receives one line for the person who starts csbot.
Say = Callable[[str], None]

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class CannotStart(Exception):
    """Something cannot be started; the message is one line for the operator."""


@dataclass(frozen=True)
class Account:
    """A system account that a child runs as."""

    name: str
    uid: int
    gid: int


def die_with_parent(parent: int, death_signal: signal.Signals) -> None:
    """Let the kernel send `death_signal` to this process when `parent` ends (prctl(2); Linux only)."""
    if _libc is None:
        return
    _libc.prctl(PR_SET_PDEATHSIG, int(death_signal))
    if os.getppid() != parent:
        os._exit(1)


def server_environment() -> dict[str, str]:
    """Return what a foreign server gets of the environment: nothing of ours, which may hold secrets."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


def environment(**more: str) -> dict[str, str]:
    """Return the environment for a program of this project: found from any folder, printing at once."""
    project = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [project, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **more}


def become(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by `python arguments`: same pid, same parent."""
    os.execve(sys.executable, [sys.executable, *arguments], environment())


def descriptor(return_code: int) -> str:
    """Return how a process ended, for people: `exit code 1` or `signal SIGKILL`."""
    if return_code >= 0:
        return f"exit code {return_code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-return_code).name}"
    return f"signal {-return_code}"


class Child:
    """One program, started as often as needed under one name.

    `log`: file that receives what it prints (None: the parent's output). `stdin`: text it reads at its start.
    `own_group`: it leads a process group, so that a terminal's Ctrl-C does not reach it and `kill` reaches
    everything that it started. `before_start` is called ahead of each start.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path | None = None,
        pid_file: Path | None = None,
        env: Mapping[str, str] | None = None,
        account: Account | None = None,
        stdin: str = "",
        stop_signal: signal.Signals = signal.SIGTERM,
        own_group: bool = True,
        before_start: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self.pid_file = pid_file
        self.stop_signal = stop_signal
        self.started_at = 0.0
        self._env = dict(os.environ if env is None else env)
        self._account = account
        self._stdin = stdin
        self._own_group = own_group
        self._before_start = before_start
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The pid of the running or last started process; 0 before the first start."""
        return self._process.pid if self._process else 0

    @property
    def return_code(self) -> int | None:
        """None while it runs (or was never started), else how it ended, as in `subprocess`."""
        return self._process.poll() if self._process else None

    @property
    def is_running(self) -> bool:
        """True while the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process. Raises OSError when the system cannot.

        Called from the main thread: the parent-death signal follows the thread that forked (prctl(2)).
        """
        self.started_at = time.monotonic()
        if self._before_start:
            self._before_start()
        parent = os.getpid()
        account = self._account
        with self._open_log() as output:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE if self._stdin else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._env,
                # An account that may not enter the starter's folder can still start from the root.
                cwd="/" if account else None,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
                process_group=0 if self._own_group else None,
                preexec_fn=lambda: die_with_parent(parent, self.stop_signal),
            )
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
                stdin.write(self._stdin.encode())
        if self.pid_file:
            write_private(self.pid_file, f"{self.pid}\n")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process itself; nothing happens when it has ended."""
        if self._process:
            self._process.send_signal(number)

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the process, at most so long; True when it has ended."""
        if self._process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        return not self.is_running

    def kill(self) -> None:
        """Kill the process and what it has started and left behind (SIGKILL), and reap it."""
        if self._process is None:
            return
        if self._own_group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Remove the pid file, once the process has ended."""
        if self.pid_file:
            self.pid_file.unlink(missing_ok=True)

    def last_words(self) -> str:
        """Return the last line of its log, or an empty text."""
        if self.log is None or not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
            lines = log.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _open_log(self) -> contextlib.AbstractContextManager[IO[bytes] | None]:
        if self.log is None:
            return contextlib.nullcontext()
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        return open(self.log, "ab", opener=_private)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads (0600), whole or not at all, also when the power goes."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with open(beside, "w", opener=_private) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
