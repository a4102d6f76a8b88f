"""Fairness between tenants, caps and order of arrival."""

import threading

import pytest
from django.db import connection

from csbot.lib import database_clock
from runtime.models import Run, WorkerProcess
from runtime.queue import states
from runtime.queue.claim import Claimer, all_slots
from tests.factories import TenantFactory

pytestmark = pytest.mark.django_db(transaction=True)


def _claimed_tenants(count: int) -> list[int]:
    claimer = Claimer("test")
    found = []
    for _ in range(count):
        claimed = claimer.next_run()
        assert claimed is not None
        states.complete(claimed, 0)
        found.append(claimed.tenant_id)
    return found


def test_a_flood_of_one_tenant_does_not_delay_another(shop, stranger, publish, enqueue):
    flood, quiet = publish(shop, []), publish(stranger, [])
    for _ in range(20):
        enqueue(flood)
    for _ in range(3):
        enqueue(quiet)
    assert _claimed_tenants(6).count(stranger.pk) == 3


def test_within_a_tenant_priority_comes_before_arrival(shop, publish, enqueue):
    automation = publish(shop, [])
    last, first, second = (enqueue(automation, priority=priority) for priority in (9, 1, 1))
    claimer = Claimer("test")
    assert [claimer.next_run().run_id for _ in range(3)] == [first.pk, second.pk, last.pk]


def test_a_suspended_tenant_is_not_claimed(shop, publish, enqueue):
    enqueue(publish(shop, []))
    shop.suspended_at = database_clock.now()
    shop.save()
    assert Claimer("test").next_run() is None
    shop.suspended_at = None
    shop.save()
    assert Claimer("test").next_run() is not None


@pytest.mark.parametrize(
    ("hard_cap", "has_company", "expected"), [(None, False, 3), (None, True, 2), (1, False, 1), (4, True, 4)]
)
def test_caps_of_a_tenant(shop, stranger, publish, enqueue, hard_cap, has_company, expected, settings):
    settings.CSBOT_SLOTS = 4
    shop.max_parallel_runs = hard_cap
    shop.save()
    automation = publish(shop, [])
    for _ in range(8):
        enqueue(automation)
    if has_company:
        quiet = publish(stranger, [])
        for _ in range(8):
            enqueue(quiet)
    claimer = Claimer("test")
    while claimer.next_run() is not None:
        pass
    assert Run.objects.of(shop).filter(status=Run.Status.RUNNING).count() == expected


def test_all_slots_are_those_of_living_workers(db, settings):
    settings.CSBOT_SLOTS = 2
    for number, age in enumerate((0, 1, 100_000)):
        WorkerProcess.objects.create(
            id=str(number), host="h", pid=number, slots=3, seen_at=database_clock.in_seconds(-age)
        )
    assert all_slots() == 6


def test_a_hard_cap_holds_with_many_claimers_at_once(publish, enqueue):
    tenant = TenantFactory(max_parallel_runs=3)
    automation = publish(tenant, [])
    for _ in range(40):
        enqueue(automation)
    barrier = threading.Barrier(8)

    def claim() -> None:
        try:
            barrier.wait()
            claimer = Claimer("test")
            for _ in range(5):
                claimer.next_run()
        finally:
            connection.close()

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Run.objects.of(tenant).filter(status=Run.Status.RUNNING).count() == 3
