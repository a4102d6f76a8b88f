"""Which account servers run as, and how little is opened for it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from csbot import accounts
from csbot.processes import Account, CannotStart

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the account")


@pytest.fixture
def folder() -> Iterator[Path]:
    top = Path(tempfile.mkdtemp())
    (top / "open").mkdir(mode=0o711)
    (top / "open" / "closed").mkdir(mode=0o700)
    (top / "open" / "closed" / "data").mkdir(mode=0o755)
    yield top
    shutil.rmtree(top)


@pytest.fixture
def account(folder: Path) -> Account:
    found = accounts.unprivileged(folder / "missing")
    assert found is not None
    return found


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_only_the_search_bit_of_blocking_folders_is_set_and_said_once(folder, account):
    said = []
    accounts.let_through(account, folder / "open" / "closed" / "data", said.append)
    assert [mode(folder), mode(folder / "open"), mode(folder / "open" / "closed")] == [0o701, 0o711, 0o701]
    assert len(said) == 1
    assert said[0].endswith(f"{folder} {folder / 'open' / 'closed'}")
    accounts.let_through(account, folder / "open" / "closed" / "data", said.append)
    assert len(said) == 1


def test_what_the_search_bit_cannot_open_is_refused_with_the_remedy(folder, account):
    # For a member of its group, a folder's bits for others do not count.
    os.chown(folder / "open" / "closed", 0, account.gid)
    with pytest.raises(CannotStart, match="chmod o\\+x") as refusal:
        accounts.let_through(account, folder / "open" / "closed" / "data", lambda line: None)
    assert str(folder / "open" / "closed" / "data") in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_owner_of_existing_data_is_the_account(folder):
    data = folder / "open" / "data"
    data.mkdir()
    os.chown(data, 12345, 12346)
    assert accounts.unprivileged(data) == Account("12345", 12345, 12346)


def test_data_of_root_is_given_away_whole(folder, account):
    data = folder / "open" / "closed"
    accounts.give(data, account)
    assert {path.stat().st_uid for path in (data, data / "data")} == {account.uid}
    assert mode(data) == 0o700
