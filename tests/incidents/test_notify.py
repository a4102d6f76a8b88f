"""Staff get one e-mail for each cause, at least once, and a mail server's trouble is nobody else's."""

import smtplib
from datetime import timedelta

import pytest
from django.core import mail
from django.core.mail.backends.base import BaseEmailBackend
from django.db.models.functions import Now

from incidents import notify, services
from incidents.models import Incident
from tests.factories import ConnectionFactory, TicketFactory
from tests.incidents.test_services import fail


@pytest.fixture(autouse=True)
def staff_address(settings):
    settings.CSBOT_STAFF_EMAIL = ["staff@csbot.test"]


class BrokenServer(BaseEmailBackend):
    """A mail server that refuses everything."""

    def send_messages(self, email_messages):
        raise smtplib.SMTPServerDisconnected("Connection unexpectedly closed")


def test_each_cause_is_told_once(shop, stranger):
    ticket = TicketFactory(tenant=shop)
    account = ConnectionFactory(tenant=shop, name="shop api")
    incident = fail(
        shop,
        ticket=ticket,
        connection=account,
        params={"ticket": ticket.key, "connection": "shop api"},
        detail={"body": "a customer's data"},
    )
    fail(shop, ticket=ticket, connection=account, params={"ticket": ticket.key, "connection": "shop api"})
    fail(stranger)

    assert notify.send_due() == 2
    assert notify.send_due() == 0

    ours, theirs = mail.outbox
    assert ours.to == ["staff@csbot.test"]
    assert ours.subject.startswith(f"[csbot] shop: The automation at ticket {ticket.key}")
    assert theirs.subject.startswith("[csbot] stranger: ")
    for line in ("Company: E-shop", "Kind of error: http.401", "Automation: Orders", "Connection: shop api"):
        assert line in ours.body
    assert "so far 2×" in ours.body
    assert f"http://testserver/admin/incidents/incident/{incident.pk}/change/" in ours.body
    # The admin level stays where staff sign in: a mailbox is no place for a customer's data.
    assert "customer" not in ours.body
    incident.refresh_from_db()
    assert incident.notified_at is not None


def test_a_new_incident_after_resolving_is_told_again(shop):
    services.resolve(fail(shop))
    assert notify.send_due() == 0

    fail(shop)
    assert notify.send_due() == 1


def test_an_acknowledged_one_is_still_told(shop):
    services.acknowledge(fail(shop))

    assert notify.send_due() == 1


def test_a_mail_that_did_not_leave_is_tried_again_later(shop, settings, caplog):
    settings.EMAIL_BACKEND = "tests.incidents.test_notify.BrokenServer"
    incident = fail(shop)

    assert notify.send_due() == 0
    assert "did not leave" in caplog.text
    incident.refresh_from_db()
    assert incident.notified_at is None

    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    assert notify.send_due() == 0, "not before the lease is over"

    Incident.objects.of(shop).update(notify_after=Now() - timedelta(seconds=1))
    assert notify.send_due() == 1


def test_without_an_address_nothing_is_sent_and_nothing_is_marked(shop, settings):
    settings.CSBOT_STAFF_EMAIL = []
    fail(shop)
    assert notify.send_due() == 0

    settings.CSBOT_STAFF_EMAIL = ["late@csbot.test"]
    assert notify.send_due() == 1


def test_a_title_cannot_make_headers(shop):
    fail(shop, code="incident.created", title="Hello\r\nBcc: everyone@example.test\n" + "x" * 500)

    notify.send_due()

    subject = mail.outbox[0].subject
    assert "\n" not in subject
    assert "\r" not in subject
    assert len(subject) <= notify.SUBJECT_LENGTH
    assert "Bcc" not in mail.outbox[0].message()


def test_one_call_sends_a_batch(shop):
    for number in range(notify.BATCH + 3):
        fail(shop, cause=f"cause {number}")

    assert [notify.send_due() for _ in range(3)] == [notify.BATCH, 3, 0]
