"""Decides whether and when a failed attempt is repeated: the retry table of SPEC section 5.3. Pure.

| attempt | 1 | 2 | 3 | 4 | 5 |
| when | at once | +30 s | +2 min | +10 min | +1 h |
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

from csbot.lib.errors import RetryableError, RunError

# Spreads runs that failed together; it only adds, so that no service is asked sooner than promised.
JITTER = 0.1
# A service may ask for a longer wait than the table; a day is the longest that is believed.
LONGEST_RETRY_AFTER_SECONDS = 86_400.0


def decide(
    error: RunError, attempts: int, now: datetime, backoff: Sequence[int], *, jitter: float | None = None
) -> datetime | None:
    """Return when the next attempt is due, or None when there is none.

    `attempts` counts the failed attempts with this one; `backoff` holds the seconds before each attempt, so it also
    says how many there are. `jitter` (0 to 1) is random when not given.
    """
    if not isinstance(error, RetryableError) or attempts >= len(backoff):
        return None
    share = random.random() if jitter is None else jitter
    wait = backoff[attempts] * (1 + JITTER * share)
    wait = max(wait, min(error.retry_after or 0.0, LONGEST_RETRY_AFTER_SECONDS))
    return now + timedelta(seconds=wait)
