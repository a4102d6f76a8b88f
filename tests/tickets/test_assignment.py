"""The assignment table: who of a group gets a ticket, and what is said about why."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickets.assignment import Candidate, choose

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def person(number, open_tickets=0, capacity=10, *, worked=None, away=None):
    """Candidate `number`; `worked`: how long ago work was given, `away`: how long the absence still lasts."""
    return Candidate(
        person_id=number,
        name=f"P{number}",
        open_tickets=open_tickets,
        capacity=capacity,
        last_assigned_at=NOW - worked if worked is not None else None,
        away_until=NOW + away if away is not None else None,
    )


@pytest.mark.parametrize(
    ("candidates", "respect_capacity", "chosen", "decided_by"),
    [
        pytest.param([], False, None, None, id="nobody in the group"),
        pytest.param([person(1, 7)], False, 1, "only", id="one member"),
        pytest.param([person(1, 2), person(2, 1), person(3, 3)], False, 2, "open", id="fewest open"),
        pytest.param([person(1, 2, 10), person(2, 1, 1)], False, 2, "open", id="fewest open before share"),
        pytest.param([person(1, 2, 4), person(2, 2, 10)], False, 2, "share", id="lower share"),
        pytest.param([person(1, 0, 0), person(2, 0, 1)], False, 2, "share", id="no capacity is most taken"),
        pytest.param(
            [person(1, 1, worked=HOUR), person(2, 1, worked=2 * HOUR)], False, 2, "waited", id="longest"
        ),
        pytest.param([person(1, 1, worked=HOUR), person(2, 1)], False, 2, "waited", id="never is longest"),
        pytest.param(
            [person(1, 1, 20, worked=HOUR), person(2, 1, 10)], False, 1, "share", id="share before waiting"
        ),
        pytest.param([person(2), person(1)], False, 1, "order", id="equal in everything"),
        pytest.param([person(1, 0, away=HOUR), person(2, 9)], False, 2, "only", id="absent is passed over"),
        pytest.param([person(1, 0, away=-HOUR), person(2, 9)], False, 1, "open", id="absence is over"),
        pytest.param([person(1, 0, away=0 * HOUR), person(2, 9)], False, 1, "open", id="absence ends now"),
        pytest.param([person(1, away=HOUR), person(2, away=HOUR)], False, None, None, id="all absent"),
        pytest.param([person(1, 2, 2), person(2, 3, 2)], False, 1, "open", id="full ones too"),
        pytest.param([person(1, 2, 2), person(2, 3, 9)], True, 2, "only", id="full is passed over"),
        pytest.param([person(1, 3, 2), person(2, 9, 9)], True, None, None, id="all full"),
        pytest.param([person(1, 0, 0)], True, None, None, id="no capacity is always full"),
        pytest.param([person(1, 1, 2), person(2, 0, 5, away=HOUR)], True, 1, "only", id="one free"),
    ],
)
def test_table(candidates, respect_capacity, chosen, decided_by):
    choice = choose(candidates, now=NOW, respect_capacity=respect_capacity)

    assert (choice.chosen.person_id if choice.chosen else None) == chosen
    assert choice.decided_by == decided_by
    assert [one.candidate for one in choice.considered] == candidates


def test_says_why_somebody_was_passed_over():
    choice = choose([person(1, 5, 5), person(2, away=HOUR), person(3)], now=NOW, respect_capacity=True)

    assert [one.passed_over for one in choice.considered] == ["full", "away", None]


def test_refuses_the_same_person_twice():
    with pytest.raises(ValueError, match="twice"):
        choose([person(1), person(1)], now=NOW)


CANDIDATES = st.lists(
    st.builds(
        person,
        st.integers(1, 30),
        st.integers(0, 4),
        st.integers(0, 4),
        worked=st.none() | st.integers(0, 3).map(lambda hours: hours * HOUR),
        away=st.none() | st.sampled_from([-HOUR, HOUR]),
    ),
    max_size=8,
    unique_by=lambda candidate: candidate.person_id,
)


@given(CANDIDATES, st.booleans(), st.randoms())
def test_order_of_the_members_never_matters_and_nobody_free_has_less(candidates, respect_capacity, random):
    first = choose(candidates, now=NOW, respect_capacity=respect_capacity)
    shuffled = random.sample(candidates, len(candidates))

    assert choose(shuffled, now=NOW, respect_capacity=respect_capacity).chosen == first.chosen
    free = [one.candidate for one in first.considered if one.passed_over is None]
    assert bool(free) == (first.chosen is not None)
    assert all(first.chosen.open_tickets <= other.open_tickets for other in free)
