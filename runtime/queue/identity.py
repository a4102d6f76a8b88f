"""Names a worker child so that another process can tell whether it lives: machine, pid namespace, pid, start time."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


@cache
def machine() -> str:
    """Return a name of this boot of this machine and this pid namespace; pids compare only inside it."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
    namespace = Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    return f"{boot}.{namespace}"


def of_process(pid: int) -> str:
    """Return the name of a living process, `<machine>/<pid>/<start>`. Raises FileNotFoundError when there is none."""
    # Field 22 of proc_pid_stat(5), counted behind the last parenthesis: the name in them may hold blanks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return f"{machine()}/{pid}/{fields[19]}"


def own() -> str:
    """Return the name of this process."""
    return of_process(os.getpid())


def is_dead(worker: str) -> bool:
    """Whether the named process is known to be dead. False for one of another machine: nobody here can know."""
    where, _, rest = worker.rpartition("/")
    where, _, pid = where.rpartition("/")
    if where != machine() or not rest:
        return False
    try:
        return of_process(int(pid)) != worker or _is_zombie(int(pid))
    except (FileNotFoundError, ProcessLookupError):
        return True


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
