"""How often a draft's trigger would have fired in the last 30 days, before it is published (SPEC section 13).

Webhooks and manual starts are the runs that they made; ticket events are replayed out of the tickets' logs and asked as
the engine asks; the clock is computed. Nothing is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection

from automations import cron, schedule
from automations.cron import Cron
from automations.models import Automation
from csbot.lib import database_clock, json
from runtime import trial
from runtime.triggers import clock, tickets
from tickets.models import Ticket, TicketType

DAYS = 30
MINUTE = timedelta(minutes=1)

# Runs that their events made, each day and minute counted by the database; a rerun is no new event.
RUNS = """
SELECT date_trunc('minute', created_at) AS minute, count(*) FROM runtime_run
WHERE tenant_id = %(tenant)s AND automation_id = %(automation)s AND trigger = %(trigger)s
  AND created_at >= %(since)s AND rerun_of_id IS NULL
GROUP BY minute
"""

# Every change of those tickets of the tenant that were touched since: the older ones tell how a ticket stood. A change
# made by a run of the automation itself does not start it (SPEC section 6).
EVENTS = """
SELECT event.ticket_id, event.at, event.kind = 'created', event.data -> 'changes',
       EXISTS (SELECT 1 FROM runtime_run run
               WHERE run.public_id = event.run_id AND run.automation_id = %(automation)s)
FROM tickets_ticket ticket JOIN tickets_ticketevent event ON event.ticket_id = ticket.id
WHERE ticket.tenant_id = %(tenant)s AND ticket.updated_at >= %(since)s
  AND event.kind IN ('created', 'changed', 'assigned')
ORDER BY event.ticket_id, event.id
"""


def of(automation: Automation) -> dict[str, Any]:
    """Return `{"perDay", "peakPerMinute"}` of the draft's trigger: 30 days of the tenant, the last one today.

    Joined events and refusals by ceiling or depth are not taken off. Raises RequestRefused 400 with every fault for a
    draft that is no tree.
    """
    trigger = trial.draft_of(automation).trigger.dump()
    now = database_clock.now()
    zone = ZoneInfo(automation.tenant.timezone)
    today = now.astimezone(zone).date()
    days = [today - timedelta(days=back) for back in reversed(range(DAYS))]
    if trigger["kind"] in ("schedule", "poll"):
        per_day, peak = _by_the_clock(automation, days, now, zone)
    else:
        per_day, peak = _by_minutes(_fired(automation, trigger, _midnight(days[0], zone)), days, zone)
    return {"perDay": per_day, "peakPerMinute": peak}


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone)


def _by_minutes(
    fired: Iterable[tuple[datetime, int]], days: list[date], zone: ZoneInfo
) -> tuple[list[int], int]:
    """Return how many of the events fell on each day, and the most of one minute."""
    of_day: Counter[date] = Counter()
    of_minute: Counter[datetime] = Counter()
    for minute, count in fired:
        of_day[minute.astimezone(zone).date()] += count
        of_minute[minute] += count
    return [of_day[day] for day in days], max(of_minute.values(), default=0)


def _fired(
    automation: Automation, trigger: dict[str, Any], since: datetime
) -> Iterator[tuple[datetime, int]]:
    """Yield minutes in which the trigger would have fired, and how often; a minute may come more than once."""
    values = {"tenant": automation.tenant_id, "automation": automation.pk, "since": since}
    if trigger["kind"] != "ticket":
        with connection.cursor() as cursor:
            cursor.execute(RUNS, {**values, "trigger": trigger["kind"]})
            yield from cursor.fetchall()
        return
    replay = Replay()
    with connection.cursor() as cursor:
        cursor.execute(EVENTS, values)
        while rows := cursor.fetchmany(1000):
            for ticket_id, at, is_new, changes_json, is_own in rows:
                changes = json.loads(changes_json) if changes_json else {}
                replay.apply(ticket_id, changes)
                event = "created" if is_new else "changed"
                if not (changes or is_new) or at < since or is_own:
                    continue
                if tickets.matches(trigger, replay.ticket, event, changes):
                    yield at.replace(second=0, microsecond=0), 1


class Replay:
    """A ticket as its log says that it stood, as far as a trigger's filter asks; one object serves all of them."""

    def __init__(self) -> None:
        self.ticket = Ticket()
        self._of: int | None = None
        self._types: dict[str | None, TicketType | None] = {None: None}

    def apply(self, ticket_id: int, changes: dict[str, Any]) -> None:
        """Change the ticket as one entry of its log tells; another ticket begins from nothing."""
        if ticket_id != self._of:
            self._of = ticket_id
            self.ticket.type, self.ticket.status, self.ticket.tags = None, None, []
        if "type" in changes:
            key = changes["type"]["to"]
            if key not in self._types:
                self._types[key] = TicketType(key=key)
            self.ticket.type = self._types[key]
        if "status" in changes:
            self.ticket.status = changes["status"]["to"]
        if "tags" in changes:
            self.ticket.tags = changes["tags"]["to"] or []


# --- the clock ----------------------------------------------------------------------------------------------


def _by_the_clock(
    automation: Automation, days: list[date], now: datetime, zone: ZoneInfo
) -> tuple[list[int], int]:
    """Return how often a poll or a schedule fires on each day up to now, and the most of one minute."""
    trigger = automation.draft["trigger"]
    if trigger["kind"] == "schedule":
        parsed = cron.parse(trigger["cron"])
        of_days = [_scheduled(trigger["cron"], parsed, day, now, zone) for day in days]
        return of_days, 1 if any(of_days) else 0
    due_at = clock.next_due_at(automation.draft, now, zone)
    assert due_at is not None
    interval = due_at - now
    return [_elapsed(day, now, zone) // interval for day in days], max(1, MINUTE // interval)


def _elapsed(day: date, now: datetime, zone: ZoneInfo) -> timedelta:
    """Return how much of a day has passed; two days of the year have 23 and 25 hours."""
    begin = _midnight(day, zone).timestamp()
    end = min(_midnight(day + timedelta(days=1), zone).timestamp(), now.timestamp())
    return timedelta(seconds=end - begin)


def _scheduled(expression: str, parsed: Cron, day: date, now: datetime, zone: ZoneInfo) -> int:
    """Return how often a schedule fires on a day up to now."""
    midnight, next_midnight = _midnight(day, zone), _midnight(day + timedelta(days=1), zone)
    if midnight.utcoffset() != next_midnight.utcoffset():
        return _counted(expression, midnight, min(next_midnight, now), zone)
    if not parsed.matches_day(datetime.combine(day, time())):
        return 0
    if next_midnight <= now:
        return len(parsed.hours) * len(parsed.minutes)
    last = now.astimezone(zone)
    return sum(
        (hour, minute) <= (last.hour, last.minute) for hour in parsed.hours for minute in parsed.minutes
    )


def _counted(expression: str, begin: datetime, end: datetime, zone: ZoneInfo) -> int:
    """Count instants of a day on which the clock is put forward or back, as the scheduler finds them."""
    count = 0
    at = schedule.next_at(expression, begin - timedelta(microseconds=1), zone)
    while at is not None and at.timestamp() < end.timestamp():
        count += 1
        at = schedule.next_at(expression, at, zone)
    return count
