"""Polls and schedules: who is due, one living poll at a time, the two nights when clocks change."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from automations import schedule
from automations import services as automations
from automations.models import Trigger
from csbot.lib import database_clock
from runtime.models import Run
from runtime.queue import states
from runtime.triggers import clock
from tickets.events import SYSTEM

PRAGUE = ZoneInfo("Europe/Prague")


def make_due(automation) -> None:
    Trigger.objects.filter(automation=automation).update(next_due_at=database_clock.in_seconds(-1))


@pytest.mark.django_db
class TestDue:
    def test_a_poll_has_one_living_run(self, shop, publish):
        automation = publish(shop, [], {"kind": "poll", "intervalSec": 60})
        make_due(automation)
        assert clock.start_due() == 1
        run = Run.objects.of(shop).get()
        assert run.trigger == "poll"
        make_due(automation)
        assert clock.start_due() == 0
        states.cancel(run)
        make_due(automation)
        assert clock.start_due() == 1

    def test_the_period_counts_from_now(self, shop, publish):
        automation = publish(shop, [], {"kind": "poll", "intervalSec": 600})
        make_due(automation)
        clock.start_due()
        next_due_at = Trigger.objects.get(automation=automation).next_due_at
        assert 590 < (next_due_at - database_clock.now()).total_seconds() <= 600

    def test_paused_and_suspended_start_nothing(self, shop, publish):
        automation = publish(shop, [], {"kind": "poll", "intervalSec": 60})
        make_due(automation)
        automations.pause(automation, SYSTEM)
        assert clock.start_due() == 0
        automations.resume(automation, SYSTEM)
        shop.suspended_at = database_clock.now()
        shop.save()
        assert clock.start_due() == 0
        shop.suspended_at = None
        shop.save()
        assert clock.start_due() == 1

    def test_a_schedule_is_planned_when_it_is_published(self, shop, publish):
        automation = publish(shop, [], {"kind": "schedule", "cron": "0 7 * * 1-5"})
        planned = Trigger.objects.get(automation=automation).next_due_at
        assert planned > database_clock.now()
        assert planned.astimezone(ZoneInfo(shop.timezone)).hour == 7
        assert clock.start_due() == 0
        make_due(automation)
        assert clock.start_due() == 1
        assert Run.objects.of(shop).get().trigger == "schedule"


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("0 7 * * *", "2026-11-30T05:59:00Z", "2026-11-30T06:00:00Z"),
        ("0 7 * * *", "2026-11-30T06:00:00Z", "2026-12-01T06:00:00Z"),
        ("0 7 * * 1-5", "2026-12-04T06:00:00Z", "2026-12-07T06:00:00Z"),
        ("*/15 * * * *", "2026-11-30T05:59:59Z", "2026-11-30T06:00:00Z"),
        # 2:30 does not exist on 2027-03-28 in Prague: it fires at 3:00, the next that does.
        ("30 2 * * *", "2027-03-27T12:00:00Z", "2027-03-28T01:00:00Z"),
        ("30 2 * * *", "2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"),
        # 2:30 exists twice on 2026-10-25 in Prague: it fires the first time only.
        ("30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        ("30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
        ("0 0 29 2 *", "2026-11-30T00:00:00Z", "2028-02-28T23:00:00Z"),
    ],
)
def test_the_next_instant_of_a_schedule(cron, after, expected):
    assert schedule.next_at(cron, datetime.fromisoformat(after), PRAGUE) == datetime.fromisoformat(expected)


def test_every_minute_goes_on_over_both_nights():
    for begin in (datetime(2027, 3, 28, 0, 55, tzinfo=UTC), datetime(2026, 10, 25, 0, 55, tzinfo=UTC)):
        at = begin
        for _ in range(5):
            following = schedule.next_at("* * * * *", at, PRAGUE)
            assert following > at
            at = following
