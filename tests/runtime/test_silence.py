"""Silence by the learned rhythm: when it is one, its one incident, and that it resolves itself."""

from datetime import UTC, datetime, timedelta

import pytest

from automations import services as automations
from csbot.lib import database_clock
from incidents import services as incidents
from incidents.models import Incident
from runtime import silence, tasks
from runtime.models import Run, RunStep
from tests.runtime.explained import plan_of
from tickets.events import SYSTEM
from tickets.models import Tenant

WEBHOOK = {"kind": "webhook", "params": []}
POLL = {"kind": "poll", "intervalSec": 60}
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def events(*gaps: timedelta) -> list[datetime]:
    """Instants, the newest first, with these gaps between them from the newest on."""
    instants = [NOW]
    for gap in gaps:
        instants.append(instants[-1] - gap)
    return instants


@pytest.mark.parametrize(
    ("newest_first", "allowed"),
    [
        ([], None),
        (events(*[MINUTE] * 18), None),
        (events(*[MINUTE] * 19), HOUR),
        (events(*[HOUR] * 20), 3 * HOUR),
        (events(*[MINUTE] * 10, 2 * HOUR, *[MINUTE] * 9), 6 * HOUR),
        # The twentieth gap counts, the one before it does not.
        (events(*[MINUTE] * 19, 2 * HOUR), 6 * HOUR),
        (events(*[MINUTE] * 20, 2 * HOUR), HOUR),
        # Twenty events have to be within seven days; one before that is no part of the rhythm.
        (events(*[8.5 * HOUR] * 19), 25.5 * HOUR),
        (events(*[9 * HOUR] * 19), None),
        (events(*[MINUTE] * 19, 30 * DAY), HOUR),
    ],
)
def test_the_rhythm_is_learned_from_the_last_twenty_gaps(newest_first, allowed):
    assert silence.allowed_gap(newest_first) == allowed


@pytest.fixture
def arrive(enqueue):
    """`arrive(automation, last_ago, gap)` lets twenty-one events come, the last one `last_ago` before now."""

    def come(
        automation, last_ago: timedelta, gap: timedelta = MINUTE, trigger="webhook", output=None
    ) -> None:
        for number in range(21):
            run = enqueue(automation, trigger=trigger)
            at = database_clock.now() - last_ago - number * gap
            Run.objects.filter(pk=run.pk).update(created_at=at, status=4, finished_at=at, due_at=None)
            if output is not None:
                RunStep.objects.create(
                    tenant=run.tenant, run=run, path="st_1", seq=1, step_id="st_1", op="http/request",
                    type="action", state="done", claim_no=1, output=output,
                )  # fmt: skip

    return come


def open_ones(tenant: Tenant) -> list[Incident]:
    return list(Incident.objects.of(tenant).filter(code=silence.CODE, status="open"))


@pytest.mark.django_db
class TestWatch:
    def test_one_incident_for_each_silent_automation(self, shop, stranger, publish, arrive):
        quiet = publish(shop, [], WEBHOOK, name="Quiet")
        arrive(quiet, 61 * MINUTE)
        arrive(publish(shop, [], WEBHOOK, name="Lively"), 59 * MINUTE)
        arrive(publish(shop, [], WEBHOOK, name="Slow"), 61 * MINUTE, gap=HOUR)
        arrive(publish(stranger, [], WEBHOOK, name="Theirs"), MINUTE)
        for _ in range(2):
            tasks.silence()
        (incident,) = open_ones(shop)
        assert incident.automation == {"id": str(quiet.public_id), "name": "Quiet"}
        assert incident.count == 1
        assert incident.detail["allowedSec"] == 3600
        assert open_ones(stranger) == []
        told = incidents.representation(incident, "en")
        assert told["title"] == "The automation “Quiet” has received no event for unusually long."

    def test_it_resolves_itself_when_events_come_again(self, shop, publish, enqueue, arrive):
        automation = publish(shop, [], WEBHOOK)
        arrive(automation, 2 * HOUR)
        silence.watch()
        enqueue(automation)
        silence.watch()
        assert len(open_ones(shop)) == 1, "a run by hand is no event"
        enqueue(automation, trigger="webhook")
        silence.watch()
        assert open_ones(shop) == []

    def test_a_silence_that_a_person_has_resolved_is_not_founded_again(self, shop, publish, enqueue, arrive):
        automation = publish(shop, [], WEBHOOK)
        arrive(automation, 2 * HOUR)
        silence.watch()
        incidents.resolve(open_ones(shop)[0])
        silence.watch()
        assert open_ones(shop) == []
        Incident.objects.update(first_at=database_clock.in_seconds(-3 * 86400))
        silence.watch()
        assert len(open_ones(shop)) == 1, "the next silence is a new one"

    def test_who_is_not_expected_to_bring_anything_is_not_silent(self, shop, publish, arrive):
        paused, suspended = (publish(shop, [], WEBHOOK, name=name) for name in ("Paused", "Suspended"))
        arrive(paused, 2 * HOUR)
        silence.watch()
        automations.pause(paused, SYSTEM)
        silence.watch()
        assert open_ones(shop) == []
        arrive(suspended, 2 * HOUR)
        Tenant.objects.update(suspended_at=database_clock.now())
        silence.watch()
        assert open_ones(shop) == []

    def test_of_a_poll_only_what_found_something_is_an_event(self, shop, publish, enqueue, arrive):
        found, empty, untold = (publish(shop, [], POLL, name=name) for name in ("Found", "Empty", "Untold"))
        arrive(found, 2 * HOUR, trigger="poll", output={"items": [1]})
        arrive(empty, 2 * HOUR, trigger="poll", output={"items": []})
        arrive(untold, 2 * HOUR, trigger="poll", output={"status": 200})
        arrive(found, MINUTE, trigger="poll", output={"items": []})
        silence.watch()
        (incident,) = open_ones(shop)
        assert incident.automation["name"] == "Found"

    def test_it_is_shown_to_its_tenant_alone(self, shop, stranger, publish, arrive, api):
        arrive(publish(shop, [], WEBHOOK), 2 * HOUR)
        (one,) = api(shop).get("/api/reconciliation").json()["silent"]
        assert one["automation"]["name"] == "Orders"
        assert api(stranger).get("/api/reconciliation").json()["silent"] == []

    def test_looking_costs_one_probe_of_an_index_for_each_automation(self, shop, publish, arrive):
        for name in ("A", "B"):
            arrive(publish(shop, [], WEBHOOK, name=name), MINUTE)
        template = Run.objects.filter(automation__name="A").first()
        Run.objects.bulk_create(
            Run(tenant=shop, automation=template.automation, version=template.version, trigger="call", status=4,
                finished_at=NOW, created_at=NOW - number * MINUTE)
            for number in range(3000)
        )  # fmt: skip
        plan = plan_of(lambda: silence.silent(database_clock.now()), "runtime_run")
        assert plan.scanned_whole == set()
        assert plan.indexes >= {"run_arrived", "run_poll_done"}
