"""What the clock starts: polls whose period has passed and schedules that are due (SPEC section 7).

It calls nothing itself: asking a service is the first step of the tree, so it is logged, retried and editable.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction

from automations import schedule
from automations.models import Automation, Trigger
from connectors import catalog
from csbot.lib import database_clock, json
from runtime.models import Run
from runtime.queue import states

# How often a poll runs whose first operation says nothing else (SPEC section 7).
POLL_SECONDS = 60
# Of one tick; the next one takes the rest.
MOST_AT_ONCE = 200


def start_due() -> int:
    """Enqueue a run for every trigger that is due by the database's clock; return how many were started.

    Two beats do no harm: a due trigger is locked, and a poll has at most one living run.
    """
    started = 0
    with transaction.atomic():
        now = database_clock.now()
        due = (
            Trigger.objects.filter(
                next_due_at__lte=now,
                automation__state=Automation.State.ACTIVE,
                automation__published__isnull=False,
                tenant__suspended_at=None,
            )
            .select_related("automation__published", "tenant")
            .select_for_update(skip_locked=True, of=("self",))
            .order_by("next_due_at")[:MOST_AT_ONCE]
        )
        for trigger in due:
            started += _start(trigger, now)
    return started


def _start(trigger: Trigger, now: datetime) -> bool:
    automation = trigger.automation
    assert automation.published is not None and trigger.next_due_at is not None
    due_at = trigger.next_due_at
    tree = automation.published.tree
    is_poll = trigger.kind == "poll"
    run = states.enqueue(
        tenant_id=trigger.tenant_id,
        automation_id=automation.pk,
        version_id=automation.published.pk,
        trigger=Run.Trigger.POLL if is_poll else Run.Trigger.SCHEDULE,
        priority=tree["trigger"].get("priority", 5),
        dedup_key=f"poll:{automation.pk}" if is_poll else f"schedule:{automation.pk}:{due_at.isoformat()}",
        input_json=json.dumps({"body": {}, "headers": {}, "params": {}}),
    )
    trigger.next_due_at = next_due_at(tree, now, ZoneInfo(trigger.tenant.timezone))
    trigger.save(update_fields=["next_due_at"])
    return run is not None


def next_due_at(tree: dict[str, Any], now: datetime, zone: ZoneInfo) -> datetime | None:
    """Return when the clock starts this tree next, None for never."""
    trigger = tree["trigger"]
    if trigger["kind"] == "schedule":
        return schedule.next_at(trigger["cron"], now, zone)
    return now + timedelta(seconds=float(trigger.get("intervalSec") or _period(tree)))


def _period(tree: dict[str, Any]) -> int:
    first = tree["steps"][0] if tree["steps"] else {}
    operation = catalog.find(first.get("op", ""))
    return operation.poll_seconds if operation and operation.poll_seconds else POLL_SECONDS
