"""Calls of the one client, without a connection and thus without a database."""

import time

import pytest

from connectors import client
from connectors.answers import Answer
from connectors.client import Request
from csbot.lib.errors import RetryableError, RunError, TerminalError, UncertainError
from tickets.models import Tenant

TENANT = Tenant(slug="shop")
SECRET = "s3cr3t-bearer-token"
# For what ends with its deadline: long enough to connect.
SHORT = 0.4

R, U, T = RetryableError, UncertainError, TerminalError


def send(
    url: str, method: str = "POST", *, seconds: float = 10.0, repeatable: bool = False, **parts: object
) -> Answer:
    request = Request(
        method,
        url,
        body=b'{"order":"5001"}' if method in ("POST", "PUT") else None,
        is_repeatable=repeatable,
        credentials={"Authorization": f"Bearer {SECRET}"},
        secrets=(SECRET,),
        **parts,
    )
    return client.send(request, tenant=TENANT, connection=None, deadline=time.monotonic() + seconds)


def failure_of(url: str, method: str = "POST", **parts: object) -> RunError:
    with pytest.raises(RunError) as caught:
        send(url, method, **parts)
    return caught.value
