"""How fast a token may send (SPEC section 2): a token bucket for each in the memory of each web process."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

# Buckets kept by a process, about 200 bytes each. The one longest unused goes first: it has filled up meanwhile
# wherever fewer tokens than these are in use.
KEPT_BUCKETS = 10_000
# What a sender is told whose bucket never fills (a rate of 0), or fills later than in this time.
LONGEST_WAIT_SECONDS = 60


@dataclass(frozen=True)
class Rate:
    """So many a second on the average, so many at once."""

    per_second: float
    burst: float


def rate_of(trigger: Mapping[str, Any], default: tuple[float, float]) -> Rate:
    """Return the trigger's `rate`; what it does not say is the default `(per second, burst)`."""
    told = trigger.get("rate") or {}
    return Rate(float(told.get("perSecond", default[0])), float(told.get("burst", default[1])))


@dataclass
class _Bucket:
    left: float
    at: float


class Buckets:
    """The buckets of one process. `clock` counts seconds and never goes back."""

    def __init__(self, *, kept: int = KEPT_BUCKETS, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept = kept
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def take(self, key: Hashable, rate: Rate) -> int:
        """Take one from the bucket of `key`. Returns 0, or the whole seconds until there is one to take."""
        if rate.per_second <= 0 or rate.burst < 1:
            return LONGEST_WAIT_SECONDS
        now = self._clock()
        with self._lock:
            bucket = self._buckets.get(key)
            if bucket is None:
                bucket = self._buckets[key] = _Bucket(rate.burst, now)
                if len(self._buckets) > self._kept:
                    self._buckets.popitem(last=False)
            else:
                self._buckets.move_to_end(key)
                bucket.left = min(rate.burst, bucket.left + (now - bucket.at) * rate.per_second)
                bucket.at = now
            if bucket.left >= 1:
                bucket.left -= 1
                return 0
            wait = math.ceil((1 - bucket.left) / rate.per_second)
        return min(max(1, wait), LONGEST_WAIT_SECONDS)
