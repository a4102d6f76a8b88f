"""Finding tickets by words: what is searched and what is asked are folded in the same way. Pure.

PostgreSQL's own dictionaries know no Czech, so letters are compared without accents and case, as parts of
words: `zlutoucky kun` finds "Žluťoučký kůň".
"""

from __future__ import annotations

import unicodedata

DESCRIPTION_CHARACTERS = 10_000
"""How much of a description is searched; more would make the rows of a list heavy for little gain."""

MAX_WORDS = 10
"""Words of one question that count; each is a condition of its own in the query."""


def fold(text: str) -> str:
    """Return `text` in small letters, without accents and with single blanks between words."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(c for c in decomposed if not unicodedata.combining(c)).casefold().split())


def searched_text(
    *, title: str, description: str, external_id: str | None, requester: list[str | None]
) -> str:
    """Return the text of a ticket that a search looks through."""
    parts = [external_id, title, *requester, description[:DESCRIPTION_CHARACTERS]]
    return fold("\n".join(part for part in parts if part))


def words(question: str) -> list[str]:
    """Return the folded words of a question; a ticket is found when it contains all of them."""
    return fold(question).split()[:MAX_WORDS]
