"""A day by the identity of its events: what became of each, what is missing, starting it, and the clock's part."""

from datetime import UTC, date, datetime, timedelta

import pytest

from automations import services as automations
from csbot.lib import database_clock
from incidents.models import Incident
from runtime import daily, late, reconcile, tasks
from runtime.models import Delivery, DeliveryCount, Reaction, Reconciliation, Run, RunData, RunStep
from runtime.queue import states
from runtime.queue.claim import Claimer
from runtime.queue.states import DeliveryIdentity
from tests.factories import PersonFactory
from tests.runtime.explained import plan_of
from tickets import services as tickets
from tickets.events import SYSTEM, Actor
from tickets.models import AuditEntry, Membership, TicketEvent

pytestmark = pytest.mark.django_db(transaction=True)

ON_TICKET = {"kind": "ticket", "on": ["created", "changed"]}
WEBHOOK = {"kind": "webhook", "params": []}
ADD_TAG = [{"id": "st_1", "type": "action", "op": "ticket/add-tags", "inputs": {"tags": ["seen"]}}]
ENDED = (Run.Status.DONE, Run.Status.FAILED, Run.Status.CANCELLED)
ADDED_UP = ("done", "failed", "review", "waiting", "cancelled", "refused", "duplicate")


def today(tenant) -> date:
    return reconcile.today(tenant, database_clock.now())


def results(tenant, day: date | None = None) -> dict[str, dict]:
    """The rows of a day (the present one) by the automation's name; each of them adds up."""
    tallies = reconcile.compare(tenant, reconcile.day_of(tenant, day or today(tenant)))
    rows = {tally.automation.name: tally.representation() for tally in tallies}
    for row in rows.values():
        assert row["received"] == sum(row[key] for key in ADDED_UP) + len(row["missing"])
    return rows


def counts(row: dict) -> dict[str, int]:
    """What of a row is not zero, without its automation."""
    return {key: value for key, value in row.items() if key not in {"automation", "missing"} and value}


def long_ago_active(automation) -> None:
    """Let the automation have been published an hour ago, outside of the margin."""
    entries = AuditEntry.objects.filter(object=f"automations/{automation.public_id}")
    entries.update(at=database_clock.in_seconds(-3600))


def lose(run: Run) -> None:
    """Let a run be lost, as after a careless hand in the database."""
    RunStep.objects.filter(run=run).delete()
    run.delete()


@pytest.fixture
def deliver(enqueue):
    """`deliver(automation, key, body)` takes a delivery in and returns its run."""

    def take(automation, key: str | None = None, body=None) -> Run:
        return enqueue(
            automation,
            body or {},
            trigger="webhook",
            delivery=DeliveryIdentity(key, key.encode() if key else b""),
        )

    return take


def settle(run: Run, status: int) -> None:
    ended = database_clock.now() if status in ENDED else None
    Run.objects.filter(pk=run.pk).update(status=status, finished_at=ended, due_at=None)


class TestWebhooks:
    def test_each_delivery_counts_once_under_what_became_of_it(self, shop, stranger, publish, deliver):
        automation = publish(shop, [], WEBHOOK)
        publish(stranger, [], WEBHOOK)
        Status = Run.Status
        for status in (Status.DONE, Status.DONE, Status.FAILED, Status.UNCERTAIN, Status.CANCELLED):
            settle(deliver(automation), status)
        deliver(automation)
        DeliveryCount.objects.create(
            tenant=shop, automation=automation, day=today(shop), refused=4, duplicate=2
        )
        row = results(shop)["Orders"]
        assert row["automation"] == {"id": str(automation.public_id), "name": "Orders"}
        assert row["missing"] == []
        assert counts(row) == {
            "received": 12, "done": 2, "failed": 1, "review": 1, "waiting": 1, "cancelled": 1, "refused": 4,
            "duplicate": 2,
        }  # fmt: skip
        assert counts(results(stranger)["Orders"]) == {}

    def test_a_taken_delivery_without_its_run_is_missing(self, shop, publish, deliver):
        automation = publish(shop, [], WEBHOOK)
        settle(deliver(automation, "idempotency-key: 1"), Run.Status.DONE)
        lose(deliver(automation, "idempotency-key: 2"))
        lost = Delivery.objects.get(key="idempotency-key: 2")
        row = results(shop)["Orders"]
        assert row["missing"] == [str(lost.public_id)]
        assert counts(row) == {"received": 2, "done": 1}

    def test_reruns_and_runs_by_hand_are_no_events(self, shop, publish, enqueue, deliver):
        automation = publish(shop, [], WEBHOOK)
        run = deliver(automation)
        enqueue(automation)
        enqueue(automation, trigger="webhook", rerun_of=run)
        assert counts(results(shop)["Orders"]) == {"received": 1, "waiting": 1}

    def test_a_day_is_the_tenants_also_when_it_has_25_hours(self, shop, publish, deliver):
        automation = publish(shop, [], WEBHOOK)
        day = date(2026, 10, 25)
        bounds = reconcile.day_of(shop, day)
        assert bounds.begins == datetime(2026, 10, 24, 22, tzinfo=UTC)
        assert bounds.ends - bounds.begins == timedelta(hours=25)
        for at in (bounds.begins, bounds.ends - timedelta(seconds=1), bounds.ends):
            Run.objects.filter(pk=deliver(automation).pk).update(created_at=at)
        assert counts(results(shop, day)["Orders"]) == {"received": 2, "waiting": 2}
        assert counts(results(shop, date(2026, 10, 26))["Orders"]) == {"received": 1, "waiting": 1}


class TestTicketEvents:
    def test_started_joined_refused_and_own_doing(self, shop, publish, execute):
        automation = publish(shop, ADD_TAG, ON_TICKET)
        long_ago_active(automation)
        ticket = tickets.create(shop, SYSTEM, {"title": "Order"})
        tickets.change(shop, ticket.number, SYSTEM, {"title": "Order 1"})
        assert counts(results(shop)["Orders"]) == {"received": 2, "waiting": 1, "duplicate": 1}
        execute(Run.objects.get())
        assert "seen" in TicketEvent.objects.filter(ticket=ticket).last().data["changes"]["tags"]["to"]
        assert counts(results(shop)["Orders"]) == {"received": 2, "done": 1, "duplicate": 1}
        for number in range(6):
            tickets.change(shop, ticket.number, SYSTEM, {"title": f"Again {number}"})
            while (claimed := Claimer("test").next_run()) is not None:
                states.complete(claimed, 0)
        row = results(shop)["Orders"]
        assert counts(row) == {"received": 8, "done": 5, "duplicate": 1, "refused": 2}
        assert row["missing"] == []

    def test_work_handed_out_by_a_run_is_its_own_doing(self, shop, publish, execute):
        """The entry of the hand-out names no run; the record does know who caused it."""
        Membership.objects.of(shop).update(capacity=1)
        solo = PersonFactory(tenant=shop, name="Solo", email="solo@shop.test")
        warehouse = Membership.objects.of(shop).filter(group__key="warehouse")
        group = warehouse.first().group
        warehouse.delete()
        Membership.objects.create(tenant=shop, group=group, person=solo, capacity=1)
        held, waiting = (tickets.create(shop, SYSTEM, {"title": name}) for name in ("held", "waiting"))
        for ticket in (held, waiting):
            tickets.assign_least_busy(shop, ticket.number, SYSTEM, "warehouse", respect_capacity=True)
        TicketEvent.objects.update(at=database_clock.in_seconds(-7200))
        close = [{"id": "st_1", "type": "action", "op": "ticket/close", "inputs": {}}]
        automation = publish(shop, close, {"kind": "ticket", "on": ["changed"]})
        long_ago_active(automation)
        tickets.change(shop, held.number, SYSTEM, {"title": "close me"})
        execute(Run.objects.get())
        waiting.refresh_from_db()
        assert waiting.assignee == solo
        assert results(shop)["Orders"]["missing"] == []
        assert Reaction.objects.filter(event__ticket=waiting).get().outcome == "own"

    def test_only_the_filter_makes_an_event(self, shop, publish):
        """The ticket counts as it stood after the event, not as it is now."""
        wanted = {"type": "error", "status": "new", "tags": ["urgent"], "changed": ["status"]}
        automation = publish(shop, [], {"kind": "ticket", "on": ["changed"], "filter": wanted})
        long_ago_active(automation)
        Reaction.objects.all().delete()
        ticket = tickets.create(shop, SYSTEM, {"title": "E", "type": "error", "tags": ["urgent"]})
        tickets.change(shop, ticket.number, SYSTEM, {"status": "new"})
        became_new = TicketEvent.objects.filter(ticket=ticket).last()
        tickets.change(shop, ticket.number, SYSTEM, {"status": "solved", "removeTags": ["urgent"]})
        tickets.change(shop, ticket.number, SYSTEM, {"type": "order", "status": "new"})
        lose(Run.objects.get())
        Reaction.objects.all().delete()
        row = results(shop)["Orders"]
        assert row["missing"] == [str(became_new.public_id)]
        assert counts(row) == {"received": 1}

    def test_an_event_whose_run_is_gone_is_missing(self, shop, publish):
        long_ago_active(publish(shop, [], ON_TICKET))
        ticket = tickets.create(shop, SYSTEM, {"title": "Order"})
        lose(Run.objects.get())
        event = TicketEvent.objects.get(ticket=ticket)
        assert results(shop)["Orders"]["missing"] == [str(event.public_id)]

    def test_nothing_is_expected_of_who_was_not_active_then(self, shop, publish):
        """A draft, a paused one, one published a moment ago: what happened around then is nobody's fault."""
        just_now = publish(shop, [], ON_TICKET, name="Just now")
        paused = publish(shop, [], ON_TICKET, name="Paused")
        long_ago_active(paused)
        automations.pause(paused, SYSTEM)
        AuditEntry.objects.filter(action="automation.paused").update(at=database_clock.in_seconds(-600))
        ticket = tickets.create(shop, SYSTEM, {"title": "Order"})
        Reaction.objects.all().delete()
        rows = results(shop)
        assert rows["Just now"]["missing"] == rows["Paused"]["missing"] == []
        long_ago_active(just_now)
        event = TicketEvent.objects.get(ticket=ticket)
        assert results(shop)["Just now"]["missing"] == [str(event.public_id)]

    def test_what_is_asked_of_the_log_is_asked_by_its_indexes(self, shop, publish):
        automation = publish(shop, [], {**ON_TICKET, "filter": {"type": "error", "tags": ["x"]}})
        long_ago_active(automation)
        ticket = tickets.create(shop, SYSTEM, {"title": "Order"})
        event = TicketEvent.objects.get(ticket=ticket)
        day = reconcile.day_of(shop, today(shop))
        copies = [
            TicketEvent(
                tenant=shop,
                ticket=ticket,
                kind="comment",
                actor_kind="system",
                actor_name="x",
                code="x",
                data=event.data,
            )
            for _ in range(3000)
        ]
        TicketEvent.objects.bulk_create(copies, batch_size=1000)
        TicketEvent.objects.filter(kind="comment").update(at=day.begins - timedelta(days=30))
        long_ago = day.begins - timedelta(days=30)
        Run.objects.bulk_create(
            Run(tenant=shop, automation=automation, version=automation.published, trigger="webhook", status=4,
                finished_at=long_ago, created_at=long_ago)
            for _ in range(3000)
        )  # fmt: skip
        tables = ("tickets_ticketevent", "runtime_run")
        compared = plan_of(lambda: reconcile.compare(shop, day), *tables)
        assert compared.scanned_whole == set()
        assert compared.indexes >= {"ticket_event_of_day", "run_arrived"}
        own = plan_of(lambda: reconcile.unknown_ids(automation, day.date, ["5001"]), *tables)
        assert own.scanned_whole == set()


class TestStartingWhatIsMissing:
    ACTOR = Actor("person", "Jana")

    def missing(self, shop, publish) -> TicketEvent:
        long_ago_active(publish(shop, ADD_TAG, ON_TICKET))
        ticket = tickets.create(shop, SYSTEM, {"title": "Order"})
        lose(Run.objects.get())
        return TicketEvent.objects.get(ticket=ticket)

    def test_it_is_started_once_and_belongs_to_the_day_it_arrived(self, shop, publish, execute):
        event = self.missing(shop, publish)
        yesterday = today(shop) - timedelta(days=1)
        at = reconcile.day_of(shop, yesterday).begins + timedelta(hours=12)
        TicketEvent.objects.update(at=at)
        Reaction.objects.update(at=at)
        AuditEntry.objects.update(at=at - timedelta(hours=1))
        first = late.start(shop, self.ACTOR, [event.public_id])
        again = late.start(shop, self.ACTOR, [event.public_id])
        assert first == again
        run = Run.objects.get()
        assert first.run_ids == [str(run.public_id)]
        assert first.not_started == []
        assert RunData.objects.get(run=run).input == {
            "ticket": "TK-1",
            "event": "created",
            "changes": event.data["changes"],
        }
        assert execute(run).status == Run.Status.DONE
        assert counts(results(shop, yesterday)["Orders"]) == {"received": 1, "done": 1}
        assert counts(results(shop)["Orders"]) == {}

    def test_an_event_that_no_receiver_heard_is_started_too(self, shop, publish):
        event = self.missing(shop, publish)
        Reaction.objects.all().delete()
        assert results(shop)["Orders"]["missing"] == [str(event.public_id)]
        assert len(late.start(shop, self.ACTOR, [event.public_id]).run_ids) == 1
        assert results(shop)["Orders"]["missing"] == []

    def test_what_is_not_missing_starts_nothing(self, shop, publish):
        long_ago_active(publish(shop, [], ON_TICKET))
        ticket = tickets.create(shop, SYSTEM, {"title": "Order"})
        event = TicketEvent.objects.get(ticket=ticket)
        assert late.start(shop, self.ACTOR, [event.public_id]).run_ids == []
        assert Run.objects.count() == 1

    def test_what_cannot_be_started_is_told(self, shop, publish, deliver):
        event = self.missing(shop, publish)
        automations.pause(Reaction.objects.get().automation, SYSTEM)
        lose(deliver(publish(shop, [], WEBHOOK, name="Hook"), "idempotency-key: 1"))
        delivery = Delivery.objects.get()
        started = late.start(shop, self.ACTOR, [event.public_id, delivery.public_id])
        assert started.run_ids == []
        assert started.not_started == [
            {"id": str(event.public_id), "reason": "automation.notActive"},
            {"id": str(delivery.public_id), "reason": "delivery.bodyGone"},
        ]


class TestClock:
    @pytest.mark.parametrize(
        ("now", "expected"),
        [
            ("2026-11-30T23:09:59Z", date(2026, 11, 29)),
            ("2026-11-30T23:10:00Z", date(2026, 11, 30)),
            ("2026-12-01T22:00:00Z", date(2026, 11, 30)),
        ],
    )
    def test_a_day_is_due_after_its_own_midnight(self, shop, now, expected):
        assert daily.newest_due(shop, datetime.fromisoformat(now)) == expected

    def test_each_day_is_compared_once_and_missed_ones_are_made_up_for(self, shop):
        newest = daily.newest_due(shop, database_clock.now())
        assert daily.reconcile_due() == 1
        assert daily.reconcile_due() == 0
        Reconciliation.objects.update(day=newest - timedelta(days=3))
        assert daily.reconcile_due() == 3
        Reconciliation.objects.all().delete()
        Reconciliation.objects.create(tenant=shop, day=newest - timedelta(days=60))
        assert daily.reconcile_due() == 7
        assert Reconciliation.objects.latest("day").day == newest

    def test_a_suspended_tenant_waits(self, shop):
        shop.suspended_at = database_clock.now()
        shop.save()
        assert daily.reconcile_due() == 0

    def test_a_difference_founds_an_incident_for_both_readers(self, shop, stranger, publish, deliver):
        automation = publish(shop, [], WEBHOOK)
        lose(deliver(automation, "idempotency-key: 1"))
        day = daily.newest_due(shop, database_clock.now())
        Delivery.objects.update(at=reconcile.day_of(shop, day).begins)
        tasks.reconcile()
        incident = Incident.objects.get()
        assert (incident.tenant, incident.code) == (shop, "reconciliation.missing")
        assert incident.automation == {"id": str(automation.public_id), "name": "Orders"}
        assert incident.detail["day"] == day.isoformat()
        assert incident.detail["missing"] == [str(Delivery.objects.get().public_id)]
        tasks.reconcile()
        assert Incident.objects.get().count == 1

    def test_a_day_that_adds_up_founds_none(self, shop, publish, deliver):
        settle(deliver(publish(shop, [], WEBHOOK)), Run.Status.DONE)
        tasks.reconcile()
        assert not Incident.objects.exists()

    def test_stuck_work_founds_one(self, shop, stranger, publish, deliver):
        run = deliver(publish(shop, [], WEBHOOK))
        Run.objects.filter(pk=run.pk).update(due_at=database_clock.in_seconds(-301))
        settle(deliver(publish(shop, [], WEBHOOK)), Run.Status.UNCERTAIN)
        tasks.reconcile()
        incident = Incident.objects.get()
        assert (incident.tenant, incident.code) == (shop, "reconciliation.stuck")
        assert incident.detail["review"] == 1
        assert incident.detail["oldestDueAt"] is not None
        assert not reconcile.stuck(stranger)

    def test_what_is_due_for_less_than_five_minutes_is_not_stuck(self, shop, publish, deliver):
        run = deliver(publish(shop, [], WEBHOOK))
        Run.objects.filter(pk=run.pk).update(due_at=database_clock.in_seconds(-290))
        assert not reconcile.stuck(shop)
        assert reconcile.stuck(shop).representation() == {"oldestDueAt": None, "review": 0}


class TestApi:
    def test_a_day(self, shop, stranger, publish, deliver, api):
        automation = publish(shop, [], WEBHOOK)
        settle(deliver(automation), Run.Status.DONE)
        answer = api(shop, "viewer").get(f"/api/reconciliation?day={today(shop)}")
        assert answer.status_code == 200
        assert answer.json() == {
            "day": today(shop).isoformat(),
            "results": [
                {
                    "automation": {"id": str(automation.public_id), "name": "Orders"},
                    "received": 1, "done": 1, "failed": 0, "review": 0, "waiting": 0, "cancelled": 0,
                    "refused": 0, "duplicate": 0, "missing": [],
                }
            ],
            "stuck": {"oldestDueAt": None, "review": 0},
            "silent": [],
        }  # fmt: skip
        assert api(shop, "viewer").get("/api/reconciliation").json() == answer.json()
        assert api(stranger).get(f"/api/reconciliation?day={today(shop)}").json()["results"] == []

    @pytest.mark.parametrize(
        "query", ["day=2026-13-01", "day=20261130", "day=", "day=0001-01-01", "day=9999-12-31",
                  "day=2026-11-30&day=2026-11-30", "from=2026-11-30", "day=２０２６-11-30"],
    )  # fmt: skip
    def test_a_bad_query_is_400(self, shop, api, query):
        assert api(shop).get(f"/api/reconciliation?{query}").status_code == 400

    def test_a_senders_own_ids(self, shop, stranger, publish, deliver, api):
        automation = publish(shop, [], WEBHOOK)
        deliver(automation, "idempotency-key: 5001")
        deliver(automation, None, {"orderId": "5002"})
        deliver(automation, None, {"orderId": 5003})
        late_one = deliver(automation, None, {"orderId": "5004"})
        tomorrow = reconcile.day_of(shop, today(shop)).ends
        Run.objects.filter(pk=late_one.pk).update(created_at=tomorrow + timedelta(minutes=5))
        lose(deliver(automation, "idempotency-key: 5005"))
        tickets.create(shop, SYSTEM, {"title": "Order", "externalId": "5006"})
        tickets.create(stranger, SYSTEM, {"title": "Order", "externalId": "5007"})
        ids = ["5007", "5001", "5002", "5003", "5004", "5005", "5006", "9999", "9999"]
        body = {"automation": str(automation.public_id), "day": today(shop).isoformat(), "ids": ids}
        answer = api(shop, "agent").post("/api/reconciliation/compare", body)
        assert (answer.status_code, answer.json()) == (200, {"missing": ["5007", "5005", "9999"]})
        assert api(stranger).post("/api/reconciliation/compare", body).status_code == 404
        assert api(shop, "viewer").post("/api/reconciliation/compare", body).status_code == 403

    @pytest.mark.parametrize(
        ("key", "value"),
        [("ids", []), ("ids", "5001"), ("day", "today"), ("day", 5), ("automation", "x"), ("more", 1)],
    )
    def test_a_bad_comparison_is_400(self, shop, publish, api, key, value):
        automation = publish(shop, [], WEBHOOK)
        body = {"automation": str(automation.public_id), "day": "2026-11-30", "ids": ["1"], key: value}
        answer = api(shop).post("/api/reconciliation/compare", body)
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["pointer"].startswith(f"/{key}")

    def test_starting_what_is_missing(self, shop, stranger, publish, api):
        event = TestStartingWhatIsMissing().missing(shop, publish)
        (listed,) = api(shop).get("/api/reconciliation").json()["results"]
        assert listed["missing"] == [str(event.public_id)]
        body = {"ids": listed["missing"]}
        assert api(stranger).post("/api/reconciliation/enqueue", body).status_code == 404
        assert Run.objects.count() == 0
        program = api(shop, "agent")
        answer = program.post("/api/reconciliation/enqueue", body)
        assert answer.status_code == 202
        assert answer.json() == {"runIds": [str(Run.objects.get().public_id)], "notStarted": []}
        assert program.post("/api/reconciliation/enqueue", body).json() == answer.json()
        assert Run.objects.count() == 1
