"""Fixtures of stories and faults: one started csbot with quick retries and one foreign service it may reach."""

from collections.abc import Iterator

import pytest

from tests.installation import Installation
from tests.story import Story
from tests.stub_service import StubService


@pytest.fixture(scope="session")
def foreign() -> Iterator[StubService]:
    """A foreign service that outlives every story."""
    with StubService() as service:
        yield service


@pytest.fixture(scope="session")
def running(foreign: StubService) -> Iterator[Installation]:
    """A started csbot with its demo company."""
    installation = Installation(
        CSBOT_BACKOFF="0,0,0,0,0", CSBOT_OUTBOUND_ALLOW=f"127.0.0.1:{foreign.port}", CSBOT_HEARTBEAT="2",
        CSBOT_STUCK_AFTER="8", CSBOT_WEBHOOK_RATE="10000/10000",
    )  # fmt: skip
    try:
        installation.start()
        yield installation
    finally:
        installation.close()


@pytest.fixture
def demo(running: Installation) -> Story:
    """The demo company's program."""
    return Story.of_demo(running)


@pytest.fixture
def company(running: Installation) -> Story:
    """A company of this test's own."""
    return Story.of_new_tenant(running)
