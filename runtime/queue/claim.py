"""Fair claims: a cached ready list of tenants, the one served longest ago first, SKIP LOCKED inside a tenant.

No clock is read: what may not run now is not `ready`, so it is not in the index that a claim walks. A tenant's cap is
exact because the count is read again under a try-lock as soon as the tenant is near it.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from django.conf import settings
from django.db import connection, transaction

from runtime.queue import states
from runtime.queue.states import Claimed

# How long a ready list is believed; a refresh costs about 1 ms however many tenants there are.
READY_LIST_SECONDS = 0.4
# Tenants of one refresh; the next one goes on after the last of them, round robin at constant cost.
READY_LIST_SIZE = 64
# A worker process that was not seen for this many heartbeats has no slots.
SLOTS_SEEN_HEARTBEATS = 3

# Loose index scan over run_ready: one step per tenant that has work, however many rows each has.
READY_TENANTS = """
WITH RECURSIVE t AS (
  (SELECT tenant_id FROM runtime_run WHERE status = 0 AND tenant_id > %(after)s ORDER BY tenant_id LIMIT 1)
  UNION ALL
  SELECT (SELECT r.tenant_id FROM runtime_run r WHERE r.status = 0 AND r.tenant_id > t.tenant_id
          ORDER BY r.tenant_id LIMIT 1)
  FROM t WHERE t.tenant_id IS NOT NULL
),
seen AS MATERIALIZED (SELECT tenant_id FROM t WHERE tenant_id IS NOT NULL LIMIT %(size)s),
busy AS MATERIALIZED (SELECT tenant_id, count(*) AS n FROM runtime_run WHERE status = 1 GROUP BY 1)
SELECT s.tenant_id, coalesce(b.n, 0), o.max_parallel_runs, o.suspended_at IS NOT NULL
FROM seen s JOIN tickets_tenant o ON o.id = s.tenant_id LEFT JOIN busy b ON b.tenant_id = s.tenant_id
ORDER BY s.tenant_id
"""


@dataclass
class Candidate:
    """A tenant with work due: how many of its runs run, and its hard cap if it has one."""

    tenant_id: int
    running: int
    hard_cap: int | None


class Claimer:
    """Claims runs for one worker child; keeps the ready list and whom it served when."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self._ready: list[Candidate] = []
        self._read_at = float("-inf")
        self._is_one_tenant = True
        self._after = 0
        self._slots = settings.CSBOT_SLOTS
        self._served_at: dict[int, float] = {}

    def next_run(self) -> Claimed | None:
        """Claim the fairest ready run. None: nothing that may run now was found."""
        is_fresh = time.monotonic() - self._read_at > READY_LIST_SECONDS
        if is_fresh:
            self._refresh()
        claimed = self._claim_fairest()
        if claimed is None and not is_fresh:
            self._refresh()
            claimed = self._claim_fairest()
        return claimed

    def _claim_fairest(self) -> Claimed | None:
        for candidate in self._in_order():
            # By the list a tenant at its cap costs no statement, so it cannot keep others from their turn.
            claimed = self._claim_of(candidate) if candidate.running < self._cap(candidate) else None
            if claimed:
                self._served_at[candidate.tenant_id] = time.monotonic()
                candidate.running += 1
                return claimed
            self._ready.remove(candidate)
        return None

    def has_more(self) -> bool:
        """Whether another run is ready now, by one look into the index."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT EXISTS (SELECT 1 FROM runtime_run WHERE status = 0)")
            return bool(cursor.fetchone()[0])

    def _in_order(self) -> list[Candidate]:
        return sorted(
            self._ready, key=lambda c: (self._served_at.get(c.tenant_id, 0.0), c.running, random.random())
        )

    def _refresh(self) -> None:
        rows = self._read(self._after)
        if not rows and self._after:
            self._after = 0
            rows = self._read(0)
        self._ready = [Candidate(*row[:3]) for row in rows if not row[3]]
        # Asked of the list as it was read: a tenant at its cap leaves the list but has work due all the same.
        self._is_one_tenant = len(self._ready) < 2 and not self._after and len(rows) < READY_LIST_SIZE
        self._after = rows[-1][0] if len(rows) == READY_LIST_SIZE else 0
        self._slots = all_slots()
        self._read_at = time.monotonic()
        if len(self._served_at) > 10_000:
            self._served_at.clear()

    def _read(self, after: int) -> list[tuple[int, int, int | None, bool]]:
        with connection.cursor() as cursor:
            cursor.execute(READY_TENANTS, {"after": after, "size": READY_LIST_SIZE})
            rows: list[tuple[int, int, int | None, bool]] = cursor.fetchall()
            return rows

    def _cap(self, candidate: Candidate) -> int:
        return cap_of(candidate.hard_cap, self._slots, is_alone=self._is_one_tenant)

    def _claim_of(self, candidate: Candidate) -> Claimed | None:
        cap = self._cap(candidate)
        # Within one list every slot of the installation may have claimed for this tenant.
        if candidate.running + self._slots < cap:
            return states.claim(candidate.tenant_id, self.worker)
        with transaction.atomic(), connection.cursor() as cursor:
            # Try-lock, never wait: a claim that waits holds a slot. A lost race heals at the next claim.
            cursor.execute(
                "SELECT pg_try_advisory_xact_lock(hashtextextended('csbot cap ' || %s, 0))",
                [candidate.tenant_id],
            )
            if not cursor.fetchone()[0]:
                return None
            cursor.execute(
                "SELECT count(*) FROM runtime_run WHERE status = 1 AND tenant_id = %s", [candidate.tenant_id]
            )
            if cursor.fetchone()[0] >= cap:
                return None
            return states.claim(candidate.tenant_id, self.worker)


def cap_of(hard_cap: int | None, slots: int, *, is_alone: bool) -> int:
    """Return how many runs a tenant may have running (SPEC section 5.2).

    A hard cap when it is set, else half of all slots beside others that have work due, all but one alone.
    """
    if hard_cap is not None:
        return hard_cap
    return max(1, slots - 1) if is_alone else max(1, slots // 2)


def all_slots() -> int:
    """Return the slots of all living worker processes together, at least those of this one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(sum(slots), 0) FROM runtime_workerprocess "
            "WHERE seen_at > clock_timestamp() - make_interval(secs => %s)",
            [SLOTS_SEEN_HEARTBEATS * settings.CSBOT_HEARTBEAT],
        )
        return max(int(cursor.fetchone()[0]), settings.CSBOT_SLOTS)
