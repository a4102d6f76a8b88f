"""What tests of connectors begin with: rows outside of a transaction."""

from collections.abc import Iterator

import pytest

from tests.factories import TenantFactory
from tickets.models import Tenant


@pytest.fixture
def committed(django_db_setup, django_db_blocker) -> Iterator[Tenant]:
    """A tenant whose rows are committed, since no foreign service is called inside a transaction.

    Quicker than emptying every table after the test: what belongs to the tenant goes with it.
    """
    with django_db_blocker.unblock():
        tenant = TenantFactory()
        yield tenant
        tenant.delete()
