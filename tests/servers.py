"""pytest plugin: an embedded PostgreSQL and Redis of this pytest process's own, before Django reads settings.

Loaded with `-p tests.servers`. The servers end with the process, also when it is killed; the temporary home
that a killed one left behind is removed by a later one.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from csbot import embedded
from csbot.processes import CannotStart

PREFIX = "csbot-tests-"
# A new home is not locked at once; one that is older and not locked has lost its process.
ABANDONED_AFTER_SECONDS = 600
SERVERS = pytest.StashKey[embedded.Servers]()


class TestServers:
    """The servers of this process. A test that stops or kills one starts it again: `child.start()`."""

    __test__ = False

    def __init__(self) -> None:
        _remove_abandoned()
        self.home = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.home.chmod(0o711)
        self._lock = embedded.lock(self.home)
        # The data is not missed after the tests, so it need not survive a power cut.
        self.servers = embedded.start(self.home, fsync=False)

    def stop(self) -> None:
        """Stop the servers and remove their home."""
        self.servers.stop()
        if self._lock:
            self._lock.close()
        shutil.rmtree(self.home, ignore_errors=True)


def _remove_abandoned() -> None:
    for home in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            found = home.lstat()
            if found.st_uid != os.geteuid() or time.time() - found.st_mtime < ABANDONED_AFTER_SECONDS:
                continue
            lock = embedded.lock(home)
        except (OSError, CannotStart):
            continue
        if lock:
            shutil.rmtree(home, ignore_errors=True)
            lock.close()


def _set_environment(running: TestServers) -> None:
    """Let Django see these servers and no setting of the developer's own shell."""
    for name in [name for name in os.environ if name.startswith("CSBOT_")]:
        del os.environ[name]
    keys = embedded.keys(running.home)
    os.environ.update(
        DATABASE_URL=running.servers.database_url,
        REDIS_URL=running.servers.redis_url,
        CSBOT_HOME=str(running.home),
        CSBOT_SECRET_KEY=keys["secretKey"],
        CSBOT_ENCRYPTION_KEYS=keys["encryptionKeys"],
        CSBOT_PUBLIC_URL="http://testserver",
    )


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Start before any other plugin: a wrapper runs ahead of pytest-django, which reads the settings here."""
    running = TestServers()
    early_config.add_cleanup(running.stop)
    early_config.stash[SERVERS] = running.servers
    _set_environment(running)
    return (yield)
