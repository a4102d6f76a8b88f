"""Staff look at incidents in the admin, acknowledge and resolve them there, and change nothing else."""

import pytest
from django.urls import reverse

from tests.factories import LoginFactory
from tests.incidents.test_services import fail
from tickets.models import AuditEntry


@pytest.fixture
def staff(client):
    client.force_login(LoginFactory(staff=True))
    return client


def test_the_page_shows_both_levels(shop, staff):
    incident = fail(shop)

    page = staff.get(reverse("admin:incidents_incident_change", args=[incident.pk]))

    assert page.status_code == 200
    assert "did not finish, no data was lost" in page.content.decode()
    assert "401 came" in page.content.decode()


def test_nothing_can_be_added_changed_or_deleted(shop, staff):
    incident = fail(shop)

    added = staff.get(reverse("admin:incidents_incident_add"))
    changed = staff.post(
        reverse("admin:incidents_incident_change", args=[incident.pk]), {"status": "resolved"}
    )
    deleted = staff.post(reverse("admin:incidents_incident_delete", args=[incident.pk]), {"post": "yes"})

    assert [added.status_code, changed.status_code, deleted.status_code] == [403, 403, 403]
    incident.refresh_from_db()
    assert incident.status == "open"


def test_resolving_there_is_written_down(shop, staff):
    incident = fail(shop)
    data = {"action": "resolve", "_selected_action": [incident.pk]}

    staff.post(reverse("admin:incidents_incident_changelist"), data)

    incident.refresh_from_db()
    assert incident.status == "resolved"
    entry = AuditEntry.objects.of(shop).get()
    assert (entry.action, entry.object) == ("incident.resolved", f"incidents/{incident.public_id}")
    assert (entry.before, entry.after) == ({"status": "open"}, {"status": "resolved"})


def test_each_refusal_is_said(shop, staff):
    open_one, resolved = fail(shop, cause="a"), fail(shop, cause="b")
    list_address = reverse("admin:incidents_incident_changelist")
    staff.post(list_address, {"action": "resolve", "_selected_action": [resolved.pk]})

    data = {"action": "acknowledge", "_selected_action": [open_one.pk, resolved.pk]}
    page = staff.post(list_address, data, follow=True).content.decode()

    assert f"{resolved.public_id}: A resolved incident cannot be acknowledged." in page
    assert "Changed: 1" in page


def test_staff_without_the_right_to_change_have_no_actions(shop, client):
    incident = fail(shop)
    client.force_login(LoginFactory(is_staff=True))

    answer = client.post(
        reverse("admin:incidents_incident_changelist"),
        {"action": "resolve", "_selected_action": [incident.pk]},
    )

    assert answer.status_code == 403


def test_the_list_counts_at_most_its_newest_rows(shop, staff, django_assert_max_num_queries):
    for number in range(3):
        fail(shop, cause=str(number))

    with django_assert_max_num_queries(8) as captured:
        page = staff.get(reverse("admin:incidents_incident_changelist"))

    assert page.status_code == 200
    counting = [query["sql"] for query in captured.captured_queries if "COUNT(" in query["sql"]]
    assert len(counting) == 1
    assert "LIMIT 1000" in counting[0]
