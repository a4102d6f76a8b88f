"""Cron expressions: what is read, when it fires, what is refused (SPEC section 7)."""

from datetime import datetime, timedelta

import pytest

from automations import cron
from automations.cron import CronError

# Monday, 2 November 2026, 07:00.
MONDAY = datetime(2026, 11, 2, 7, 0)

FIRES = [
    # expression, a time when it fires, a time when it does not
    ("0 7 * * 1-5", MONDAY, MONDAY + timedelta(days=5)),
    ("* * * * *", MONDAY, None),
    ("*/15 * * * *", MONDAY + timedelta(minutes=45), MONDAY + timedelta(minutes=46)),
    ("5/20 * * * *", MONDAY + timedelta(minutes=45), MONDAY),
    ("10-20/5 * * * *", MONDAY + timedelta(minutes=20), MONDAY + timedelta(minutes=25)),
    ("0,30 7-9 * * *", MONDAY + timedelta(minutes=30), MONDAY + timedelta(hours=3)),
    ("0 7 2 11 *", MONDAY, MONDAY + timedelta(days=1)),
    ("0 7 * NOV Mon", MONDAY, MONDAY + timedelta(days=1)),
    ("0 7 * * 0", MONDAY - timedelta(days=1), MONDAY),
    ("0 7 * * 7", MONDAY - timedelta(days=1), MONDAY),
    ("0 7 * * sat-sun", MONDAY - timedelta(days=2), MONDAY),
    ("0 7 * * 5-7", MONDAY - timedelta(days=1), MONDAY),
    # Either of two days
    ("0 7 15 * 1", MONDAY, MONDAY + timedelta(days=1)),
    ("0 7 2 * 3", MONDAY, MONDAY + timedelta(days=1)),
    # Both where one begins with *
    ("0 7 */2 * 1", MONDAY + timedelta(days=7), MONDAY),
    ("0 7 29 2 *", datetime(2028, 2, 29, 7), MONDAY),
    ("0 7 31 2 1", datetime(2027, 2, 1, 7), MONDAY),
]


@pytest.mark.parametrize(("text", "at", "not_at"), FIRES)
def test_when_it_fires(text, at, not_at):
    schedule = cron.parse(text)
    assert schedule.matches(at)
    assert schedule.matches_day(at)
    assert not_at is None or not schedule.matches(not_at)


def test_blanks_between_the_fields_do_not_matter():
    assert cron.parse("  0\t7  * * 1-5 ") == cron.parse("0 7 * * 1,2,3,4,5")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "* * * * * *",
        "@daily",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * 0 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "*/00 * * * *",
        "* * * jul *x",
        "* * * foo *",
        "* mon * * *",
        ", * * * *",
        "1, * * * *",
        "-1 * * * *",
        "1-2-3 * * * *",
        "* * L * *",
        "* * * * 1#2",
        "? * * * *",
        "0 0 31 2 *",
        "0 0 30 feb *",
        "0 0 31 4,6,9,11 *",
        "٣ * * * *",
        "1_0 * * * *",
        "* " * 300,
        "0" * 500 + " * * * *",
    ],
)
def test_what_is_no_schedule(text):
    with pytest.raises(CronError) as caught:
        cron.parse(text)
    assert len(str(caught.value)) < 150
