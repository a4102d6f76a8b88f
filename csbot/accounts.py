"""The unprivileged account that embedded servers run as when root starts them, and its way to their files.

Invariant: nothing is opened for reading; only the search bit of a folder that blocks the way is set.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

from csbot.processes import Account, CannotStart, Say

CANDIDATES = ("postgres", "nobody")


def unprivileged(data: Path) -> Account | None:
    """Return the account for servers whose data is in `data`; None when we are not root and need none.

    The owner of existing data, else the first of CANDIDATES that this system has. Raises CannotStart.
    """
    if os.geteuid() != 0:
        return None
    if data.exists() and data.stat().st_uid != 0:
        owner = data.stat()
        return Account(_name(owner.st_uid), owner.st_uid, owner.st_gid)
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise CannotStart(
        f"PostgreSQL does not run as root and this system has no account {' or '.join(CANDIDATES)}: "
        "start csbot as an ordinary user, or set DATABASE_URL"
    )


def give(folder: Path, account: Account | None) -> None:
    """Make `folder` private (0700) and, with all that is in it, the account's own."""
    folder.chmod(0o700)
    if account is None or folder.stat().st_uid == account.uid:
        return
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def let_through(account: Account | None, path: Path, say: Say) -> None:
    """Let `account` pass through the folders above `path` by setting `o+x` on just those that block it.

    `say` receives one line that names them. Raises CannotStart with what to do when that is not enough.
    """
    if account is None:
        return
    blocking = [folder for folder in reversed(path.parents) if not _may_pass(account, folder)]
    opened = []
    for folder in blocking:
        try:
            folder.chmod(folder.stat().st_mode | 0o001)
        except OSError:
            break
        opened.append(str(folder))
    if opened:
        say(f"let the account {account.name} pass through (o+x, no reading): {' '.join(opened)}")
    trial = subprocess.run(
        ["test", "-x", str(path)],
        cwd="/",
        user=account.uid,
        group=account.gid,
        extra_groups=[],
        check=False,
    )
    if trial.returncode:
        raise CannotStart(
            f"the account {account.name} cannot reach {path}: allow it (chmod o+x on the folders above it, "
            f"o+rx on itself), or start csbot as an ordinary user, or set DATABASE_URL and REDIS_URL"
        )


def _may_pass(account: Account, folder: Path) -> bool:
    status = folder.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & 0o100)
    if status.st_gid == account.gid:
        return bool(status.st_mode & 0o010)
    return bool(status.st_mode & 0o001)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
