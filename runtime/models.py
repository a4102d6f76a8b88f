"""The queue and its history: a run's row in PostgreSQL is the queue; nothing else is.

`Run` is narrow and hot, so bodies live in `RunData`, results in `RunStep`, lines in `RunLog`. Only
`runtime.queue.states` changes a run's state, each arrow one guarded UPDATE.
"""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from automations.models import Automation, AutomationVersion
from csbot.lib.json import JSONField
from incidents.models import Incident
from tickets.models import Tenant, TenantOwned, Ticket, TicketEvent


def hot_tenant() -> models.ForeignKey[Tenant, Tenant]:
    """Return the tenant of a row that every event writes, without a check of its own and without an index.

    Such a row hangs on a version of an automation, by itself or by its run, and that one on its tenant; each check
    and each index less is 15 to 30 µs of PostgreSQL for each event (measured), and a shared lock less.
    """
    return models.ForeignKey(
        Tenant, on_delete=models.CASCADE, related_name="+", db_index=False, db_constraint=False
    )


class Run(TenantOwned):
    """One execution of an automation for one event."""

    class Status(models.IntegerChoices):
        """Inside, `ready` and `scheduled` are apart, so that a claim reads no clock; outside all three are `queued`."""

        READY = 0
        RUNNING = 1
        SCHEDULED = 2
        BLOCKED = 3
        DONE = 4
        FAILED = 5
        CANCELLED = 6
        UNCERTAIN = 7

    class Trigger(models.TextChoices):
        WEBHOOK = "webhook"
        TICKET = "ticket"
        POLL = "poll"
        SCHEDULE = "schedule"
        MANUAL = "manual"
        CALL = "call"
        SEND = "send"

    class Found(models.IntegerChoices):
        """What a poll found, as the `items` of its first step say (SPEC section 7); untold where it has none."""

        NOTHING = 0
        SOMETHING = 1
        UNTOLD = 2

    id = models.BigAutoField(primary_key=True)
    tenant = hot_tenant()
    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    automation = models.ForeignKey(
        Automation, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    version = models.ForeignKey(AutomationVersion, on_delete=models.PROTECT, related_name="+", db_index=False)
    trigger = models.CharField(max_length=10, choices=Trigger.choices)
    ticket = models.ForeignKey(Ticket, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False)
    status = models.SmallIntegerField(choices=Status.choices, default=Status.READY)
    # Why it waits (SPEC section 5.9), while it is scheduled or blocked.
    wait_reason = models.CharField(max_length=12, blank=True)
    # Lower first; 5 for every trigger unless it says otherwise.
    priority = models.SmallIntegerField(default=5)
    # Scheduled: when it becomes ready; ready: since when it is.
    due_at = models.DateTimeField(null=True)
    # The fence: grows with every claim and rescue; every write of an executor carries it.
    claim_no = models.IntegerField(default=0)
    hb_seq = models.IntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    suspect_seq = models.IntegerField(null=True)
    suspect_at = models.DateTimeField(null=True)
    worker = models.CharField(max_length=100, blank=True)
    # Failed attempts; a claim, a wait or a rescue does not count.
    attempts = models.SmallIntegerField(default=0)
    rescues = models.SmallIntegerField(default=0)
    # The first instant of waiting for a limit or a breaker, which may last 24 h.
    waiting_since = models.DateTimeField(null=True)
    dedup_key = models.CharField(max_length=200, null=True)
    # Runs of one line (SPEC section 5.8) go in the order of `order_place`, one at a time; a rerun takes the place of
    # the run that it repeats. `order_holds`: behind an earlier one that failed it waits.
    order_key = models.CharField(max_length=200, null=True)
    order_place = models.BigIntegerField(null=True)
    order_holds = models.BooleanField(default=True)
    cancel_requested = models.BooleanField(default=False)
    # {"code", "message", "stepId", "retryable"} of the last failure.
    error = JSONField(null=True)
    # Executed steps, against MAX_ACTIONS.
    actions = models.IntegerField(default=0)
    caused_by = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    depth = models.SmallIntegerField(default=1)
    rerun_of = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    incident = models.ForeignKey(
        Incident, null=True, on_delete=models.SET_NULL, related_name="runs", db_index=False
    )
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    # Of a poll that is done; null until `runtime.queue.findings` has looked.
    found = models.SmallIntegerField(choices=Found.choices, null=True)
    # When retention took its bodies: input, inputs and outputs of steps, log. The row keeps its facts.
    stripped_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=[0, 2], due_at__isnull=False)
                | (~Q(status__in=[0, 2]) & Q(due_at__isnull=True)),
                name="run_queued_has_due_at",
            ),
            models.CheckConstraint(
                condition=Q(status__in=[4, 5, 6], finished_at__isnull=False)
                | (~Q(status__in=[4, 5, 6]) & Q(finished_at__isnull=True)),
                name="run_ended_has_finished_at",
            ),
            models.CheckConstraint(
                condition=~Q(status=1) | Q(lease_until__isnull=False), name="run_running_has_lease"
            ),
            models.UniqueConstraint(
                fields=["dedup_key"],
                condition=Q(status__in=[0, 1, 2, 3], dedup_key__isnull=False),
                name="run_dedup",
            ),
        ]
        # No index on lease_until or hb_seq: heartbeats have to stay HOT updates.
        indexes = [
            models.Index(F("tenant"), F("priority"), F("id"), condition=Q(status=0), name="run_ready"),
            models.Index(fields=["tenant"], condition=Q(status=1), name="run_running"),
            models.Index(fields=["due_at"], condition=Q(status=2), name="run_scheduled"),
            models.Index(fields=["due_at"], condition=Q(status=0), name="run_due"),
            models.Index(fields=["tenant"], condition=Q(status__in=[3, 7]), name="run_held"),
            models.Index(
                fields=["order_key", "order_place"],
                condition=Q(order_key__isnull=False) & ~Q(status__in=[4, 6]),
                name="run_in_line",
            ),
            models.Index(
                fields=["tenant", "finished_at"],
                condition=Q(status__in=[4, 5, 6], stripped_at__isnull=True),
                name="run_to_strip",
            ),
            models.Index(fields=["tenant", "-id"], name="run_newest"),
            models.Index(fields=["automation", "created_at"], name="run_arrived"),
            models.Index(
                fields=["found", "automation", "-created_at"],
                condition=Q(trigger="poll", status=4),
                name="run_poll_done",
            ),
            # For the end of a called run, and for the look at who names a run before it is deleted.
            models.Index(
                fields=["caused_by"], condition=Q(caused_by__isnull=False), name="run_caused_by_another"
            ),
            models.Index(fields=["rerun_of"], condition=Q(rerun_of__isnull=False), name="run_again"),
            models.Index(fields=["incident"], condition=Q(incident__isnull=False), name="run_with_incident"),
            models.Index(
                fields=["tenant", "automation", "ticket"],
                condition=Q(trigger="ticket"),
                name="run_of_ticket_trigger",
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.short_id}"

    @property
    def short_id(self) -> str:
        """The first eight digits of the id, which tell runs of one list apart."""
        return str(self.public_id)[:8]


class RunData(TenantOwned):
    """What a run was given.

    `input` is `{"body", "headers", "params"}`, of a ticket run `{"ticket", "event", "changes"}`.
    `raw` are the bytes as they came, for signatures and replays; null where no body came over HTTP.
    """

    tenant = hot_tenant()
    run = models.OneToOneField(Run, primary_key=True, on_delete=models.CASCADE, related_name="data")
    input = JSONField()
    raw = models.BinaryField(null=True)
    content_type = models.CharField(max_length=200, blank=True)

    def __str__(self) -> str:
        return f"input of run {self.run_id}"


class RunStep(TenantOwned):
    """One execution of one step of a run; `path` (`st_3/17/st_4`) is its key.

    The intent of a foreign call is committed before it as `started`.
    """

    class State(models.TextChoices):
        STARTED = "started"
        DONE = "done"
        FAILED = "failed"
        SKIPPED = "skipped"
        WAITING = "waiting"
        UNKNOWN = "unknown"

    tenant = hot_tenant()
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps", db_index=False)
    path = models.CharField(max_length=500)
    seq = models.IntegerField()
    step_id = models.CharField(max_length=100)
    op = models.CharField(max_length=100, blank=True)
    type = models.CharField(max_length=10)
    state = models.CharField(max_length=8, choices=State.choices)
    claim_no = models.IntegerField()
    attempt = models.SmallIntegerField(default=1)
    idempotency_key = models.CharField(max_length=500, blank=True)
    input = JSONField(null=True)
    output = JSONField(null=True)
    message = models.TextField(blank=True)
    rules = JSONField(null=True)
    started_at = models.DateTimeField(db_default=Now())
    duration_ms = models.IntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "path"], name="run_step_once")]

    def __str__(self) -> str:
        return f"{self.path} {self.op or self.type} {self.state}"


class RunLog(TenantOwned):
    """A line of a run's log; `code` and `params` make the message in the reader's language."""

    tenant = hot_tenant()
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="log")
    at = models.DateTimeField(db_default=Now())
    level = models.CharField(max_length=7, default="info")
    code = models.CharField(max_length=60)
    params = JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.level} {self.code}"


class Delivery(TenantOwned):
    """One delivery of a sender to a webhook: taken, parked or refused (SPEC sections 2.3 and 2.5)."""

    class Outcome(models.TextChoices):
        TAKEN = "taken"
        PARKED = "parked"
        REFUSED = "refused"

    tenant = hot_tenant()
    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    automation = models.ForeignKey(
        Automation, on_delete=models.CASCADE, related_name="+", db_index=False, db_constraint=False
    )
    # What identifies the delivery for its sender; null where the sender names nothing.
    key = models.CharField(max_length=500, null=True)
    sha256 = models.BinaryField(max_length=32)
    outcome = models.CharField(max_length=8, choices=Outcome.choices)
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    # Of a refused or parked one: {"status", "code", "reason", "missing", "invalid"}, the bytes and the kept headers.
    # A parked one whose bytes had to make room is remembered without them.
    refusal = JSONField(null=True)
    raw = models.BinaryField(null=True)
    headers = JSONField(null=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["automation", "key"],
                condition=Q(outcome__in=["taken", "parked"], key__isnull=False),
                name="delivery_once",
            )
        ]
        indexes = [
            models.Index(
                fields=["automation", "-id"], condition=~Q(outcome="taken"), name="delivery_not_taken"
            ),
            models.Index(fields=["at"], name="delivery_age"),
            # Always empty, unless a run was lost.
            models.Index(
                fields=["tenant", "at"],
                condition=Q(outcome="taken", run__isnull=True),
                name="delivery_without_run",
            ),
        ]
        verbose_name_plural = "deliveries"

    def __str__(self) -> str:
        return f"{self.outcome} {self.key or self.public_id}"


class DeliveryCount(TenantOwned):
    """What arrived for an automation on a day of its tenant and has no row any more, or never had one."""

    automation = models.ForeignKey(Automation, on_delete=models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    # Deliveries that made no run: refused or parked ones, and repeats.
    refused = models.PositiveIntegerField(default=0)
    duplicate = models.PositiveIntegerField(default=0)
    # Polls that found nothing and whose runs were deleted.
    empty_polls = models.PositiveIntegerField(default=0, db_default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["automation", "day"], name="delivery_count_of_day")]

    def __str__(self) -> str:
        return f"{self.day}: {self.refused} refused, {self.duplicate} repeated"


class Reaction(TenantOwned):
    """What one ticket event did to one automation whose trigger asks for it: what reconciliation compares with the log.

    `run` is the run that stands for the event; null where none does, and where it was lost.
    """

    class Outcome(models.TextChoices):
        STARTED = "started"
        JOINED = "joined"
        REFUSED = "refused"
        # A change by the automation itself, which starts nothing (SPEC section 6, mark).
        OWN = "own"
        # Started late, by a person who saw that it was missing.
        LATE = "late"

    automation = models.ForeignKey(Automation, on_delete=models.CASCADE, related_name="+", db_index=False)
    event = models.ForeignKey(TicketEvent, on_delete=models.CASCADE, related_name="+", db_index=False)
    outcome = models.CharField(max_length=7, choices=Outcome.choices)
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False)
    # When the event arrived.
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["event", "automation"], name="reaction_once")]
        indexes = [
            models.Index(fields=["automation", "at"], name="reaction_of_day"),
            models.Index(fields=["run"], condition=Q(run__isnull=False), name="reaction_of_run"),
        ]

    def __str__(self) -> str:
        return f"event {self.event_id} {self.outcome}"


class Reconciliation(TenantOwned):
    """A day of a tenant that was compared by the clock; its differences have founded their incidents."""

    day = models.DateField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "day"], name="reconciliation_once")]

    def __str__(self) -> str:
        return f"{self.day} compared"


class WorkerProcess(models.Model):
    """A living worker process; all slots of the installation are those of the processes seen lately."""

    id = models.CharField(max_length=100, primary_key=True)
    host = models.CharField(max_length=200)
    pid = models.IntegerField()
    slots = models.IntegerField()
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "worker processes"

    def __str__(self) -> str:
        return self.id
