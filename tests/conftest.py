"""Fixtures of servers and processes."""

from collections.abc import Iterator

import pytest
from django.db.backends.postgresql.operations import DatabaseOperations

from csbot import embedded
from tests.installation import Installation, eventually
from tests.servers import SERVERS

__all__ = ["eventually"]

pytest_plugins = ["tests.stub_service", "tests.fixtures", "tests.started"]


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> embedded.Servers:
    """The PostgreSQL and Redis of this pytest process. Who stops one starts it again."""
    return pytestconfig.stash[SERVERS]


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    """A complete csbot with its demo company, shared by the tests marked `process`."""
    running = Installation()
    try:
        running.start()
        yield running
    finally:
        running.close()


def _delete_all(
    operations: DatabaseOperations, style: object, tables: list[str], **options: bool
) -> list[str]:
    return [f"DELETE FROM {operations.quote_name(table)}" for table in tables]


# A test leaves a few rows behind, and TRUNCATE makes new files for every table.
DatabaseOperations.sql_flush = _delete_all
