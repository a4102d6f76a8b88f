"""Who of a group gets a ticket (SPEC section 4, `ticket/assign-least-busy`). Pure: no database, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Candidate:
    """A member of the group.

    `open_tickets` counts all open tickets the person holds in the tenant, whatever their group; `capacity` is
    the person's full load in this group; `last_assigned_at` is None for who was never given work.
    """

    person_id: int
    name: str
    open_tickets: int
    capacity: int
    last_assigned_at: datetime | None = None
    away_until: datetime | None = None

    @property
    def is_full(self) -> bool:
        """Whether the person holds a full load or more."""
        return self.open_tickets >= self.capacity

    @property
    def share(self) -> Fraction:
        """The taken part of the capacity; without any capacity it is more than every other share."""
        return Fraction(self.open_tickets, self.capacity) if self.capacity else Fraction(10**9)

    def is_away(self, now: datetime) -> bool:
        """Whether the person is absent at `now`."""
        return self.away_until is not None and self.away_until > now


@dataclass(frozen=True)
class Considered:
    """A candidate, and why the person was passed over: `away`, `full`, or None for who could be chosen."""

    candidate: Candidate
    passed_over: str | None


@dataclass(frozen=True)
class Choice:
    """The outcome: `chosen` is None when nobody could be; `decided_by` names the first number that told.

    `decided_by` is `only` (nobody else was left), `open`, `share`, `waited` (longest without work) or `order`
    (equal in everything: who joined the company first); None when nobody was chosen.
    """

    chosen: Candidate | None
    considered: tuple[Considered, ...]
    decided_by: str | None


def choose(candidates: Iterable[Candidate], *, now: datetime, respect_capacity: bool = False) -> Choice:
    """Return who of `candidates` gets the ticket, and how that came about.

    1. Who is away is passed over, and with `respect_capacity` who is full.
    2. Of the others: the fewest open tickets; then the lower share of the capacity; then who was given work
       longest ago, never being the longest.
    """
    considered = tuple(
        Considered(candidate, _passed_over(candidate, now, respect_capacity)) for candidate in candidates
    )
    free = sorted((one.candidate for one in considered if one.passed_over is None), key=_rank)
    if not free:
        return Choice(None, considered, None)
    return Choice(free[0], considered, _decided_by(free))


def _passed_over(candidate: Candidate, now: datetime, respect_capacity: bool) -> str | None:
    if candidate.is_away(now):
        return "away"
    return "full" if respect_capacity and candidate.is_full else None


def _rank(candidate: Candidate) -> tuple[int, Fraction, datetime, int]:
    return candidate.open_tickets, candidate.share, candidate.last_assigned_at or _NEVER, candidate.person_id


def _decided_by(free: list[Candidate]) -> str:
    """Return which part of the rank sets the first apart from the second."""
    if len(free) == 1:
        return "only"
    for name, first, second in zip(
        ("open", "share", "waited", "order"), _rank(free[0]), _rank(free[1]), strict=True
    ):
        if first != second:
            return name
    raise ValueError("The same person stands twice among the candidates.")
