"""Staff's pages over the engine: everything to see, nothing to edit, and a list that counts no millions."""

import uuid
from datetime import datetime

import pytest
from django.urls import reverse
from django.utils import timezone

from automations.models import AutomationVersion
from incidents import services as incidents
from runtime.models import Delivery, Run, RunData, RunLog, RunStep, WorkerProcess
from tests.factories import AutomationFactory, LoginFactory, RunFactory
from tickets import services
from tickets.events import SYSTEM, Actor
from tickets.models import AuditEntry, TicketEvent

LIST = reverse("admin:runtime_run_changelist")


@pytest.fixture
def staff(client):
    client.force_login(LoginFactory(staff=True))
    return client


def run_of(tenant, status=Run.Status.FAILED, **values):
    """A run as the engine leaves it: failed unless said otherwise."""
    automation = AutomationFactory(tenant=tenant, name="Orders")
    version = AutomationVersion.objects.create(
        tenant=tenant,
        automation=automation,
        number=1,
        tree={"trigger": {"kind": "manual"}},
        created_by="Jana",
    )
    if status == Run.Status.FAILED:
        values.setdefault("finished_at", timezone.now())
    run = RunFactory(
        tenant=tenant, automation=automation, version=version, trigger="manual", status=status, **values
    )
    RunData.objects.create(tenant=tenant, run=run, input={"body": {"orderId": "5001"}})
    return run


def page_of(client, run):
    answer = client.get(reverse("admin:runtime_run_change", args=[run.pk]))
    assert answer.status_code == 200
    return answer.content.decode()


def act(client, action, *runs):
    data = {"action": action, "_selected_action": [run.pk for run in runs]}
    return client.post(LIST, data, follow=True).content.decode()


def test_the_page_shows_steps_log_error_and_the_admin_level(shop, staff):
    incident = incidents.open_incident(
        shop, cause="c", code="bug", params={}, detail={"trace": {"traceback": "File worker.py"}}
    )
    run = run_of(shop, error={"code": "bug", "message": "KeyError"}, incident=incident)
    RunStep.objects.create(
        tenant=shop, run=run, path="st_1", seq=1, step_id="st_1", op="http/request", type="action",
        state="failed", claim_no=1, input={"json": {"a": "<script>"}}, message="401 came", duration_ms=12,
    )  # fmt: skip
    RunLog.objects.create(tenant=shop, run=run, code="run.started", params={"actor": "Jana"})

    page = page_of(staff, run)

    for expected in (
        "KeyError",
        "File worker.py",
        "http/request",
        "401 came",
        "12 ms",
        "Started by Jana.",
        "5001",
    ):
        assert expected in page
    assert "&lt;script&gt;" in page


def test_a_run_without_data_has_a_page(shop, staff):
    run = run_of(shop)
    run.data.delete()

    assert "Orders" in page_of(staff, run)


@pytest.mark.parametrize("model", ["run", "delivery", "workerprocess"])
def test_nothing_can_be_added(db, staff, model):
    assert staff.get(reverse(f"admin:runtime_{model}_add")).status_code == 403
    assert staff.get(reverse(f"admin:runtime_{model}_changelist")).status_code == 200


def test_a_run_can_be_neither_edited_nor_deleted(shop, staff):
    run = run_of(shop)

    edited = staff.post(reverse("admin:runtime_run_change", args=[run.pk]), {"status": 4})
    deleted = staff.post(reverse("admin:runtime_run_delete", args=[run.pk]), {"post": "yes"})

    assert (edited.status_code, deleted.status_code) == (403, 403)
    run.refresh_from_db()
    assert run.status == Run.Status.FAILED


def test_retrying_there_is_written_down_and_each_refusal_is_said(shop, staff):
    failed, ready = run_of(shop), run_of(shop, Run.Status.READY)

    page = act(staff, "retry", failed, ready)

    failed.refresh_from_db()
    assert failed.status == Run.Status.READY
    assert f"{ready.public_id}: Only a failed run can be retried" in page
    assert "Changed: 1" in page
    entry = AuditEntry.objects.of(shop).get()
    assert (entry.action, entry.object, entry.before) == (
        "run.retry", f"runs/{failed.public_id}", {"status": "failed"},
    )  # fmt: skip


def test_a_rerun_and_a_cancelled_one(shop, staff):
    failed, ready = run_of(shop), run_of(shop, Run.Status.READY)

    act(staff, "rerun", failed)
    act(staff, "cancel", ready)

    ready.refresh_from_db()
    assert ready.status == Run.Status.CANCELLED
    assert Run.objects.of(shop).get(rerun_of=failed).status == Run.Status.READY


@pytest.mark.parametrize(
    ("action", "status"),
    [("happened", Run.Status.READY), ("again", Run.Status.READY), ("give_up", Run.Status.FAILED)],
)
def test_a_person_decides_about_a_run_in_review(shop, staff, action, status):
    run = run_of(shop, Run.Status.UNCERTAIN)

    act(staff, action, run)

    run.refresh_from_db()
    assert run.status == status


def test_staff_without_the_right_to_change_have_no_actions(shop, client):
    run = run_of(shop)
    client.force_login(LoginFactory(is_staff=True))

    assert client.post(LIST, {"action": "retry", "_selected_action": [run.pk]}).status_code == 403


@pytest.mark.parametrize("query", ["", "?status=failed", "?trigger__exact=manual", "?q=shop"])
def test_a_list_costs_few_queries_and_counts_no_further_than_it_pages(
    shop, staff, django_assert_max_num_queries, query
):
    for _ in range(5):
        run_of(shop)

    with django_assert_max_num_queries(8) as captured:
        page = staff.get(LIST + query)

    assert page.content.decode().count("Orders") >= 5
    counting = [entry["sql"] for entry in captured.captured_queries if "COUNT(" in entry["sql"]]
    assert len(counting) == 1
    assert "LIMIT 1000" in counting[0]


def test_searching_finds_by_id_and_by_tenant(shop, stranger, staff):
    ours, theirs = run_of(shop), run_of(stranger)

    def found(term):
        page = staff.get(LIST, {"q": term}).content.decode()
        return {run for run in (ours, theirs) if str(run.public_id) in page.partition("result_list")[2]}

    assert found(ours.public_id) == {ours}
    assert found(ours.short_id) == {ours}
    assert found("stranger") == {theirs}
    assert found("nobody") == set()


def test_runs_of_a_ticket_are_found_by_its_number(shop, staff):
    ticket = services.create(shop, SYSTEM, {"title": "Broken box"})
    ours, other = run_of(shop, ticket=ticket), run_of(shop)

    page = staff.get(LIST, {"q": ticket.key}).content.decode()

    assert str(ours.public_id) in page
    assert str(other.public_id) not in page


@pytest.mark.parametrize(
    ("word", "inside"),
    [("queued", Run.Status.BLOCKED), ("review", Run.Status.UNCERTAIN), ("failed", Run.Status.FAILED)],
)
def test_states_are_told_and_filtered_in_the_words_of_outside(shop, staff, word, inside):
    run, running = run_of(shop, inside), run_of(shop, Run.Status.RUNNING)

    page = staff.get(LIST, {"status": word}).content.decode()

    assert str(run.public_id) in page
    assert str(running.public_id) not in page
    assert f'<td class="field-status_shown">{word}</td>' in page


def test_a_page_opens_by_the_id_that_logs_name(shop, staff):
    run = run_of(shop)

    assert staff.get(reverse("admin:runtime_run_change", args=[run.public_id])).status_code == 200
    assert staff.get(reverse("admin:runtime_run_change", args=[uuid.uuid4()])).status_code == 302


def test_an_error_is_one_line_and_a_cancel_is_told_where_somebody_asked(shop, staff):
    run = run_of(shop, error={"code": "http.401", "message": "401 came", "stepId": "st_1"})

    page = page_of(staff, run)

    assert "http.401: 401 came (step st_1)<details>" in page
    assert "Cancel requested" not in page
    Run.objects.filter(pk=run.pk).update(cancel_requested=True)
    assert "Cancel requested" in page_of(staff, run)


def test_instants_are_told_to_the_second_in_utc(shop, staff):
    run = run_of(shop, finished_at=datetime(2026, 3, 1, 9, 5, 7, tzinfo=timezone.get_fixed_timezone(60)))

    assert "2026-03-01 08:05:07" in page_of(staff, run)
    assert f"{run.created_at:%Y-%m-%d %H:%M:%S}" in staff.get(LIST).content.decode()


def test_from_a_ticket_to_its_story(shop, staff):
    ticket = services.create(shop, SYSTEM, {"title": "Broken box"})
    incident = incidents.open_incident(shop, cause="c", code="bug", params={}, detail={}, ticket=ticket)
    run = run_of(shop, ticket=ticket, incident=incident, error={"code": "bug", "message": "KeyError"})
    services.comment(
        shop, ticket.number, Actor("automation", "Orders", run.public_id), "Label printed", public=False
    )
    event = TicketEvent.objects.of(shop).get(kind="comment")
    by_number = reverse("admin:runtime_run_change", args=[run.pk])
    by_id = reverse("admin:runtime_run_change", args=[run.public_id])

    ticket_page = staff.get(reverse("admin:tickets_ticket_change", args=[ticket.pk])).content.decode()
    assert by_number in ticket_page
    assert by_id in ticket_page
    assert "Internal note: Label printed" in ticket_page
    assert by_id in staff.get(reverse("admin:tickets_ticketevent_change", args=[event.pk])).content.decode()
    assert by_id in staff.get(reverse("admin:incidents_incident_change", args=[incident.pk])).content.decode()
    run_page = page_of(staff, run)
    for page, row in (
        ("tickets_ticket", ticket),
        ("incidents_incident", incident),
        ("automations_automation", run.automation),
        ("automations_automationversion", run.version),
    ):
        assert reverse(f"admin:{page}_change", args=[row.pk]) in run_page
    assert "Orders v1" in run_page


def test_a_delivery_is_found_by_its_key(shop, staff):
    automation = AutomationFactory(tenant=shop)
    for key in ("evt-1", "evt-2"):
        Delivery.objects.create(
            tenant=shop, automation=automation, sha256=b"x" * 32, outcome="taken", key=key
        )

    page = staff.get(reverse("admin:runtime_delivery_changelist"), {"q": "evt-1"}).content.decode()

    assert "evt-1" in page
    assert "evt-2" not in page


def test_a_refused_delivery_shows_why_and_what_came(shop, staff):
    delivery = Delivery.objects.create(
        tenant=shop, automation=AutomationFactory(tenant=shop), sha256=b"x" * 32, outcome="refused",
        refusal={"reason": "docId is missing"}, raw=b'{"a": "<b>\xff"}',
    )  # fmt: skip

    page = staff.get(reverse("admin:runtime_delivery_change", args=[delivery.pk])).content.decode()

    assert "docId is missing" in page
    assert "&lt;b&gt;" in page


def test_workers_are_listed(db, staff):
    WorkerProcess.objects.create(id="here/1/1", host="machine-7", pid=1, slots=4)

    assert "machine-7" in staff.get(reverse("admin:runtime_workerprocess_changelist")).content.decode()
