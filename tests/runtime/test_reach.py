"""How often a draft's trigger would have fired: runs, tickets' logs and the clock, by days of the tenant."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from automations import cron
from automations import services as automations
from csbot.lib import database_clock
from runtime import reach
from runtime.models import Run
from tickets import services as tickets
from tickets.events import SYSTEM, Actor
from tickets.models import Ticket, TicketEvent

pytestmark = pytest.mark.django_db

PRAGUE = ZoneInfo("Europe/Prague")


def log_step(id: str = "st_1") -> dict:
    return {"id": id, "type": "action", "op": "flow/log", "inputs": {"message": "x"}}


@pytest.fixture
def draft(shop):
    """`draft(trigger)` makes an automation with this trigger that was never published."""

    def make(trigger):
        raw = {"name": "Orders", "trigger": trigger, "steps": [log_step()]}
        return automations.create(shop, SYSTEM, raw).automation

    return make


@pytest.fixture
def ask(api, shop):
    """`ask(automation)` answers the reach as an agent reads it."""

    def post(automation):
        answer = api(shop, "agent").post(f"/api/automations/{automation.public_id}/reach")
        assert answer.status_code == 200, answer.content
        return answer.json()

    return post


def noon(days_ago: int) -> datetime:
    """An instant on a day of the tenant that is `days_ago` days before today."""
    day = database_clock.now().astimezone(PRAGUE).date() - timedelta(days=days_ago)
    return datetime(day.year, day.month, day.day, 12, 0, 7, tzinfo=PRAGUE)


def at(run: Run, instant: datetime, **values) -> None:
    Run.objects.filter(pk=run.pk).update(created_at=instant, **values)


def test_webhooks_are_counted_by_their_runs(shop, publish, enqueue, ask):
    automation = publish(shop, [log_step()], {"kind": "webhook", "params": []})
    for days_ago in (0, 3, 3, 29, 30):
        at(enqueue(automation, {}, trigger="webhook"), noon(days_ago))
    at(enqueue(automation, {}, trigger="webhook"), noon(3) + timedelta(minutes=5))
    at(enqueue(automation, {}, trigger="manual"), noon(3))
    first = enqueue(automation, {}, trigger="webhook")
    at(first, noon(40))
    at(enqueue(automation, {}, trigger="webhook"), noon(3), rerun_of=first)
    answer = ask(automation)
    assert set(answer) == {"perDay", "peakPerMinute"}
    assert len(answer["perDay"]) == 30
    assert (answer["perDay"][0], answer["perDay"][26], answer["perDay"][29]) == (1, 3, 1)
    assert sum(answer["perDay"]) == 5
    assert answer["peakPerMinute"] == 2


def test_manual_starts_count_for_a_manual_draft(shop, publish, enqueue, ask):
    automation = publish(shop, [log_step()])
    at(enqueue(automation, {}), noon(1))
    at(enqueue(automation, {}, trigger="call"), noon(1))
    assert sum(ask(automation)["perDay"]) == 1


def test_nothing_is_nought(draft, ask):
    assert ask(draft({"kind": "webhook", "params": []})) == {"perDay": [0] * 30, "peakPerMinute": 0}


def history(shop, days_ago: int, *edits: dict, actor: Actor = SYSTEM) -> Ticket:
    """Make a ticket of type order and edit it, all `days_ago` days ago."""
    ticket = tickets.create(shop, actor, {"title": "x", "type": "order", "status": "new"})
    for values in edits:
        tickets.change(shop, ticket.number, actor, values)
    TicketEvent.objects.filter(ticket=ticket).update(at=noon(days_ago))
    return ticket


EDITS = ({"addTags": ["urgent"]}, {"status": "handed over"}, {"removeTags": ["urgent"], "title": "y"})


@pytest.mark.parametrize(
    ("trigger", "count"),
    [
        ({}, 4),
        ({"on": ["created"]}, 1),
        ({"on": ["changed"]}, 3),
        ({"filter": {"type": "error"}}, 0),
        ({"filter": {"type": "order", "status": "handed over"}}, 2),
        ({"filter": {"tags": ["urgent"]}}, 2),
        ({"on": ["changed"], "filter": {"changed": ["status"]}}, 1),
        ({"filter": {"changed": ["tags", "title"], "tags": ["urgent"]}}, 1),
    ],
)
def test_ticket_events_are_asked_as_the_ticket_stood_then(shop, draft, ask, trigger, count):
    history(shop, 2, *EDITS)
    answer = ask(draft({"kind": "ticket", **trigger}))
    assert answer["perDay"][27] == sum(answer["perDay"]) == count
    assert answer["peakPerMinute"] == count


def test_what_was_before_the_window_counts_as_state_only(shop, draft, ask):
    ticket = history(shop, 35, {"addTags": ["urgent"]})
    tickets.change(shop, ticket.number, SYSTEM, {"status": "handed over"})
    answer = ask(draft({"kind": "ticket", "filter": {"tags": ["urgent"]}}))
    assert answer["perDay"] == [0] * 29 + [1]


def test_own_changes_do_not_fire(shop, publish, enqueue, ask):
    automation = publish(shop, [log_step()], {"kind": "ticket"})
    run = enqueue(automation, None, trigger="ticket", input_json='{"event": "changed"}')
    history(shop, 1, {"title": "y"}, actor=Actor("automation", "Orders", run.public_id))
    history(shop, 1, actor=Actor("automation", "Other"))
    assert sum(ask(automation)["perDay"]) == 1


def test_another_tenants_tickets_and_runs_do_not_count(shop, stranger, publish, enqueue, draft, ask):
    tickets.create(stranger, SYSTEM, {"title": "x"})
    enqueue(publish(stranger, [log_step()]), {})
    assert sum(ask(draft({"kind": "ticket"}))["perDay"]) == 0
    assert sum(ask(draft({"kind": "manual", "params": []}))["perDay"]) == 0


def test_a_stranger_finds_nothing_and_a_viewer_may_not(api, shop, stranger, draft):
    address = f"/api/automations/{draft({'kind': 'ticket'}).public_id}/reach"
    assert api(stranger).post(address).status_code == 404
    assert api(shop, "viewer").post(address).status_code == 403


def test_a_poll_is_computed_from_its_period(draft, ask):
    answer = ask(draft({"kind": "poll", "intervalSec": 20}))
    assert set(answer["perDay"][:29]) <= {23 * 180, 24 * 180, 25 * 180}
    assert 24 * 180 in answer["perDay"]
    assert answer["peakPerMinute"] == 3
    assert ask(draft({"kind": "poll"}))["peakPerMinute"] == 1


def test_a_schedule_fires_on_its_days(draft, ask):
    answer = ask(draft({"kind": "schedule", "cron": "0 0 * * 1-5"}))
    today = database_clock.now().astimezone(PRAGUE).date()
    days = [today - timedelta(days=back) for back in reversed(range(30))]
    assert answer == {"perDay": [int(day.isoweekday() <= 5) for day in days], "peakPerMinute": 1}


@pytest.mark.parametrize(
    ("expression", "day", "count"),
    [
        ("30 2 * * *", date(2026, 3, 29), 1),
        ("*/30 * * * *", date(2026, 3, 29), 46),
        ("*/30 * * * *", date(2026, 3, 28), 48),
        ("30 2 * * *", date(2026, 10, 25), 1),
        ("*/30 * * * *", date(2026, 10, 25), 48),
        ("0 7 * * 1", date(2026, 10, 25), 0),
    ],
)
def test_days_on_which_the_clock_is_moved(expression, day, count):
    now = datetime(2026, 12, 1, tzinfo=UTC)
    assert reach._scheduled(expression, cron.parse(expression), day, now, PRAGUE) == count


def test_of_today_only_what_has_passed_counts():
    now = datetime(2026, 11, 30, 10, 15, tzinfo=PRAGUE)
    count = reach._scheduled("*/15 8-20 * * *", cron.parse("*/15 8-20 * * *"), now.date(), now, PRAGUE)
    assert count == 10


@pytest.mark.parametrize(("sql", "trigger"), [(reach.EVENTS, "ticket"), (reach.RUNS, "manual")])
def test_what_is_counted_is_found_through_indexes(shop, draft, sql, trigger):
    automation = draft({"kind": trigger})
    values = {"tenant": shop.pk, "automation": automation.pk, "since": noon(29), "trigger": trigger}
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {sql}", values)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Index Cond" in plan
    assert "Seq Scan" not in plan
