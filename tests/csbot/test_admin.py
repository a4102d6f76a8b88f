"""The admin as a whole: its name, its tables, who may touch beat's, and no page that ends in an error 500."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from connectors import services as connectors
from tests.factories import ConnectionFactory, LoginFactory
from tickets.models import AuditEntry


@pytest.fixture
def staff(db, client):
    client.force_login(LoginFactory(staff=True))
    return client


def test_the_index_names_everything_once_and_in_plain_plurals(staff):
    page = staff.get("/admin/").content.decode()

    assert "Django administration" not in page
    names = [str(model._meta.verbose_name_plural) for model in admin.site._registry]
    assert len(set(names)) == len(names)
    for plural in ("people", "API tokens", "audit entries", "deliveries", "worker processes", "logins"):
        assert plural in names
    for gone in ("clocked", "solar"):
        assert not any(gone in name for name in names)


def test_every_list_tells_instants_to_the_second(staff):
    for model in admin.site._registry:
        meta = model._meta
        if meta.app_label == "django_celery_beat":
            continue
        assert staff.get(f"/admin/{meta.app_label}/{meta.model_name}/").status_code == 200
        columns = admin.site.get_model_admin(model).get_list_display(staff.get("/admin/").wsgi_request)
        instants = {field.name for field in meta.fields if field.get_internal_type() == "DateTimeField"}
        assert not instants & {name for name in columns if isinstance(name, str)}


def test_beats_tables_are_changed_by_superusers_alone(staff, db):
    interval = IntervalSchedule.objects.create(every=5, period="seconds")
    task = PeriodicTask.objects.create(name="tick", task="x", interval=interval)
    address = "/admin/django_celery_beat/periodictask/"
    assert staff.get(f"{address}{task.pk}/change/").status_code == 200
    helper = LoginFactory(is_staff=True)
    helper.user_permissions.set(Permission.objects.filter(content_type__app_label="django_celery_beat"))
    staff.force_login(helper)

    assert staff.get(address).status_code == 200
    assert staff.get(f"{address}add/").status_code == 403
    assert staff.post(f"{address}{task.pk}/change/", {"name": "x"}).status_code == 403
    staff.post(address, {"action": "disable_tasks", "_selected_action": [task.pk]})
    task.refresh_from_db()
    assert task.enabled


def test_a_connection_is_named_and_deleted_through_its_services(shop, staff, monkeypatch):
    ConnectionFactory(tenant=shop, name="carrier")
    account = ConnectionFactory(tenant=shop, name="eshop")
    address = f"/admin/connectors/connection/{account.pk}/"

    taken = staff.post(f"{address}change/", {"name": "carrier"})
    assert taken.status_code == 200
    assert taken.context["adminform"].form.errors == {"name": ["There is a connection with this name."]}
    assert staff.post(f"{address}change/", {"name": "e-shop"}).status_code == 302

    monkeypatch.setattr(connectors, "connection_users", [lambda used: ["automations/1"]])
    refused = staff.post(f"{address}delete/", {"post": "yes"}, follow=True).content.decode()
    assert "It is still used by automations/1." in refused
    several = {"action": "delete_selected", "_selected_action": [account.pk], "post": "yes"}
    refused = staff.post("/admin/connectors/connection/", several, follow=True).content.decode()
    assert "It is still used by automations/1." in refused
    assert "Successfully deleted" not in refused
    monkeypatch.setattr(connectors, "connection_users", [])
    assert staff.post(f"{address}delete/", {"post": "yes"}).status_code == 302
    entries = AuditEntry.objects.of(shop).order_by("pk").values_list("action", flat=True)
    assert list(entries) == ["connection.changed", "connection.deleted"]
