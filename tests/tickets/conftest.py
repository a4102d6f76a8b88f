"""Fixtures of the desk."""

import pytest

from tickets.events import ticket_changed


@pytest.fixture
def signals():
    """What `ticket_changed` said while the test ran."""
    heard = []

    def hear(sender, **what):
        heard.append(what)

    ticket_changed.connect(hear)
    yield heard
    ticket_changed.disconnect(hear)
