"""Dates: printing by Django's letters, compared with Django's own printing."""

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from django.utils import dateformat
from hypothesis import given
from hypothesis import strategies as st

from automations import dates
from tests.automations.properties import PATIENT

PRAGUE = ZoneInfo("Europe/Prague")
# These print words, which Django takes from the active translation.
WORDS = "aAbDEFlMNP"
NUMBERS = [letter for letter in dates.FORMAT if letter not in WORDS]


@PATIENT
@given(
    st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(PRAGUE))
)
def test_numbers_are_printed_as_django_does(moment):
    for letter in NUMBERS:
        django = dateformat.format(moment, letter)
        # For an hour that the clock has twice or never Django prints no zone; it is known here.
        assert dates.show(moment, letter, "en") == django or (django == "" and letter in "eIOTZ")


MORNING, AFTERNOON = datetime(2026, 2, 1, 9, 5, tzinfo=PRAGUE), datetime(2026, 11, 22, 15, 0, tzinfo=PRAGUE)
PRINTED = [
    (MORNING, "D l", "Sun Sunday", "ne neděle"),
    (MORNING, "b M F N E", "feb Feb February Feb. February", "úno Úno únor Úno. února"),
    (AFTERNOON, "b M F N E", "nov Nov November Nov. November", "lis Lis listopad Lis. listopadu"),
    (MORNING, "f a A P", "9:05 a.m. AM 9:05 a.m.", "9:05 dop. dop. 9:05 dop."),
    (AFTERNOON, "f a A P", "3 p.m. PM 3 p.m.", "3 odp. odp. 3 odp."),
    (datetime(2026, 1, 1, 0, 0, tzinfo=UTC), "P jS", "midnight 1st", "půlnoc 1st"),
    (datetime(2026, 1, 12, 12, 0, tzinfo=UTC), "P jS", "noon 12th", "poledne 12th"),
    (datetime(2026, 1, 2, 12, 1, tzinfo=UTC), "P jS", "12:01 p.m. 2nd", "12:01 odp. 2nd"),
    (datetime(2026, 1, 23, 0, 0, 1, tzinfo=UTC), "jS", "23rd", "23rd"),
    (
        datetime(2026, 1, 11, tzinfo=timezone(-timedelta(hours=4, minutes=30))),
        "jS O Z",
        "11th -0430 -16200",
        "11th -0430 -16200",
    ),
    (MORNING, r"\Y\\ d\.", r"Y\ 01.", r"Y\ 01."),
    (MORNING, "", "", ""),
]


@pytest.mark.parametrize(("moment", "letters", "english", "czech"), PRINTED)
def test_words_are_printed_in_both_languages(moment, letters, english, czech):
    assert (dates.show(moment, letters, "en"), dates.show(moment, letters, "cs")) == (english, czech)


def test_a_day_alone_begins_at_midnight_in_its_zone():
    assert dates.beginning(date(2026, 3, 29), PRAGUE) == datetime(2026, 3, 29, tzinfo=PRAGUE)
    assert dates.instant(date(2026, 3, 29), PRAGUE) == datetime(2026, 3, 28, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"), [("Z", 0), ("GMT", 0), ("+01:00:30", 3630), ("-0230", -9000), (" +01", 3600)]
)
def test_offsets(text, seconds):
    moment = dates.read_iso(f"2026-11-02T10:00{text}", PRAGUE)
    assert isinstance(moment, datetime)
    assert moment.utcoffset() == timedelta(seconds=seconds)


def test_an_instant_outside_of_the_calendar_is_none():
    moment = dates.read_iso("0001-01-01T00:00+14:00", PRAGUE)
    assert moment is not None
    assert dates.instant(moment, PRAGUE) is None
