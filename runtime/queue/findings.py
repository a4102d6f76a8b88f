"""What polls found: sorted once a poll is done; of those that found nothing the last 20 per automation stay as runs.

A poll found nothing when the `items` of its first step are empty (SPEC section 7). Every function is one batch, for a
transaction of its own in which nobody else does the same.
"""

from __future__ import annotations

from django.db import connection

# Of polls that found nothing, per automation; older ones stay only as counts (SPEC section 7).
KEPT_EMPTY = 20

# The first step is what the executor executed first; a condition, or an operation without `items`, tells nothing.
SORT = """
WITH done AS MATERIALIZED (
  SELECT id FROM runtime_run WHERE trigger = 'poll' AND status = 4 AND found IS NULL
  ORDER BY automation_id, created_at DESC LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE runtime_run r SET found = CASE
  WHEN jsonb_typeof(s.output -> 'items') IS DISTINCT FROM 'array' THEN 2
  WHEN s.output -> 'items' = '[]' THEN 0 ELSE 1 END
FROM done LEFT JOIN runtime_runstep s ON s.run_id = done.id AND s.seq = 1
WHERE r.id = done.id
"""
# A run that another one names (it changed a ticket, or was started again), or an incident, is history and stays.
DROP_SURPLUS = """
WITH placed AS (
  SELECT id, row_number() OVER (PARTITION BY automation_id ORDER BY created_at DESC) AS place
  FROM runtime_run WHERE trigger = 'poll' AND status = 4 AND found = 0
), surplus AS MATERIALIZED (
  SELECT r.id, r.tenant_id, r.automation_id, (r.created_at AT TIME ZONE t.timezone)::date AS day
  FROM placed JOIN runtime_run r ON r.id = placed.id JOIN tickets_tenant t ON t.id = r.tenant_id
  WHERE placed.place > %(kept)s AND r.incident_id IS NULL
    AND NOT EXISTS (SELECT 1 FROM runtime_run o WHERE o.caused_by_id = r.id)
    AND NOT EXISTS (SELECT 1 FROM runtime_run o WHERE o.rerun_of_id = r.id)
  LIMIT %(limit)s
), counted AS (
  INSERT INTO runtime_deliverycount AS known (tenant_id, automation_id, day, refused, duplicate, empty_polls)
  SELECT tenant_id, automation_id, day, 0, 0, count(*) FROM surplus GROUP BY tenant_id, automation_id, day
  ON CONFLICT (automation_id, day) DO UPDATE SET empty_polls = known.empty_polls + excluded.empty_polls
), steps AS (
  DELETE FROM runtime_runstep USING surplus WHERE runtime_runstep.run_id = surplus.id
), lines AS (
  DELETE FROM runtime_runlog USING surplus WHERE runtime_runlog.run_id = surplus.id
), given AS (
  DELETE FROM runtime_rundata USING surplus WHERE runtime_rundata.run_id = surplus.id
)
DELETE FROM runtime_run USING surplus WHERE runtime_run.id = surplus.id
"""


def sort(limit: int) -> int:
    """Note what done polls found that nobody has looked at yet; return how many were noted."""
    with connection.cursor() as cursor:
        cursor.execute(SORT, [limit])
        return int(cursor.rowcount)


def drop_surplus(limit: int) -> int:
    """Delete the surplus polls that found nothing and count them on their days; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(DROP_SURPLUS, {"kept": KEPT_EMPTY, "limit": limit})
        return int(cursor.rowcount)
