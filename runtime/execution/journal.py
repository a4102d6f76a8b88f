"""The step rows of one run: what is finished is not repeated, what was begun is known.

Every write takes the run's row with its claim number in the same statement, so a worker that lost the run writes
nothing. There is no other record of a run's progress; a resumed run rebuilds its variables from these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import connection

from connectors.models import Connection
from csbot.lib import json
from csbot.lib.errors import TerminalError
from runtime.models import RunStep
from runtime.queue.states import Claimed, Fenced

State = RunStep.State
# SPEC section 5.4: all outputs of a run together.
MAX_OUTPUT_BYTES = 16 * 1024 * 1024

WRITE = """
WITH held AS (
  SELECT cancel_requested FROM runtime_run WHERE id = %(run)s AND claim_no = %(claim_no)s AND status = 1
  FOR NO KEY UPDATE
),
written AS (
  INSERT INTO runtime_runstep (run_id, tenant_id, path, seq, step_id, op, type, state, claim_no, attempt,
                               idempotency_key, input, output, message, rules, started_at, duration_ms)
  SELECT %(run)s, %(tenant)s, %(path)s, %(seq)s, %(step_id)s, %(op)s, %(type)s, %(state)s, %(claim_no)s,
         %(attempt)s, %(key)s, %(input)s::jsonb, %(output)s::jsonb, %(message)s, %(rules)s::jsonb,
         clock_timestamp() - make_interval(secs => %(duration)s / 1000.0), %(duration_ms)s
  FROM held
  ON CONFLICT (run_id, path) DO UPDATE SET state = excluded.state, claim_no = excluded.claim_no,
    attempt = excluded.attempt, idempotency_key = excluded.idempotency_key, input = excluded.input,
    output = excluded.output, message = excluded.message, rules = excluded.rules,
    started_at = excluded.started_at, duration_ms = excluded.duration_ms
)
SELECT cancel_requested FROM held
"""


@dataclass(frozen=True)
class Place:
    """Where a step stands in one run: its id, its path with the indices of loops, its operation and kind.

    `connection` is the account that it goes over, once that is known.
    """

    step_id: str
    path: str
    op: str
    type: str
    connection: Connection | None = None


@dataclass
class Entry:
    """What is known of one execution of a step."""

    seq: int
    state: str
    output: Any
    message: str


class Journal:
    """Reads a run's step rows once and writes each change behind the fence."""

    def __init__(self, claimed: Claimed, attempt: int) -> None:
        self._claimed = claimed
        self._attempt = attempt
        self._entries: dict[str, Entry] = {}
        self._output_bytes = 0
        self.is_cancel_requested = False
        for path, seq, state, output, message, size in self._rows():
            self._entries[path] = Entry(seq, state, output, message)
            self._output_bytes += size or 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, path: str) -> Entry | None:
        """Return what is known of the step at `path`, None when it was never begun."""
        return self._entries.get(path)

    def write(
        self,
        place: Place,
        state: str,
        *,
        key: str = "",
        input: Any = None,
        output: Any = None,
        message: str = "",
        rules: Any = None,
        duration_ms: int | None = None,
    ) -> None:
        """Write the row of one step. Raises Fenced when the run is not ours, TerminalError `limit.size`."""
        output_json = json.dumps(output) if output is not None else None
        self._weigh(output_json)
        known = self._entries.get(place.path)
        seq = known.seq if known else len(self._entries) + 1
        with connection.cursor() as cursor:
            cursor.execute(
                WRITE,
                {
                    "run": self._claimed.run_id,
                    "claim_no": self._claimed.claim_no,
                    "tenant": self._claimed.tenant_id,
                    "path": place.path,
                    "seq": seq,
                    "step_id": place.step_id,
                    "op": place.op,
                    "type": place.type,
                    "state": state,
                    "attempt": self._attempt,
                    "key": key,
                    "input": json.dumps(input) if input is not None else None,
                    "output": output_json,
                    "message": message,
                    "rules": json.dumps(rules) if rules is not None else None,
                    "duration": duration_ms or 0,
                    "duration_ms": duration_ms,
                },
            )
            row = cursor.fetchone()
        if row is None:
            raise Fenced
        self.is_cancel_requested = self.is_cancel_requested or row[0]
        self._entries[place.path] = Entry(seq, state, output, message)

    def _weigh(self, output_json: str | None) -> None:
        if output_json is None:
            return
        self._output_bytes += len(output_json.encode())
        if self._output_bytes > MAX_OUTPUT_BYTES:
            raise TerminalError(
                "limit.size", f"The outputs of this run together are larger than {MAX_OUTPUT_BYTES} bytes."
            )

    def _rows(self) -> list[tuple[str, int, str, Any, str, int | None]]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT path, seq, state, output, message, octet_length(output::text) FROM runtime_runstep "
                "WHERE run_id = %s ORDER BY seq",
                [self._claimed.run_id],
            )
            rows = cursor.fetchall()
        return [
            (path, seq, state, None if output is None else json.loads(output), message, size)
            for path, seq, state, output, message, size in rows
        ]
