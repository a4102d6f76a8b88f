"""Staff get one e-mail for each cause, at least once, and a mail server's trouble is nobody else's."""

import smtplib
from datetime import timedelta

import pytest
from django.core import mail
from django.core.mail.backends import locmem
from django.core.mail.backends.base import BaseEmailBackend
from django.db.models.functions import Now

from incidents import notify, services, tasks
from incidents.models import Incident
from tests.factories import ConnectionFactory, TicketFactory
from tests.incidents.test_services import fail


@pytest.fixture(autouse=True)
def staff_address(settings):
    settings.CSBOT_STAFF_EMAIL = ["staff@csbot.test"]


class SilentServer(BaseEmailBackend):
    """A mail server that takes connections and says nothing."""

    tried = 0

    def send_messages(self, email_messages):
        SilentServer.tried += 1
        raise smtplib.SMTPServerDisconnected("Connection unexpectedly closed: timed out")


class PickyServer(locmem.EmailBackend):
    """A mail server that refuses what is about the stranger."""

    def send_messages(self, messages):
        if "stranger" in messages[0].subject:
            raise smtplib.SMTPDataError(554, b"no strangers")
        return super().send_messages(messages)


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


def test_what_could_not_be_sent_is_tried_again_later(shop, settings, caplog, monkeypatch):
    monkeypatch.setattr(SilentServer, "tried", 0)
    settings.EMAIL_BACKEND = "tests.incidents.test_notify.SilentServer"
    for cause in ("one", "two", "three"):
        fail(shop, cause=cause)

    assert notify.send_due() == 0
    assert SilentServer.tried == 1, "one mail waits for a silent server, not each of them"
    assert "cannot be sent" in caplog.text
    assert not Incident.objects.of(shop).exclude(notified_at=None).exists()

    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    assert notify.send_due() == 0, "not before the lease is over"

    Incident.objects.of(shop).update(notify_after=Now() - timedelta(seconds=1))
    assert notify.send_due() == 3


def test_one_refused_mail_does_not_hold_back_the_others(shop, stranger, settings, caplog):
    settings.EMAIL_BACKEND = "tests.incidents.test_notify.PickyServer"
    refused = fail(stranger)
    fail(shop)

    assert notify.send_due() == 1
    assert str(refused.public_id) in caplog.text
    assert "no strangers" in caplog.text
    assert mail.outbox[0].subject.startswith("[csbot] shop: ")


def test_mails_become_files_without_a_server(shop, settings, tmp_path):
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = tmp_path / "mail"
    fail(shop)

    assert notify.send_due() == 1

    (written,) = (tmp_path / "mail").iterdir()
    assert "To: staff@csbot.test" in written.read_text()


def test_a_real_server_that_is_not_there_costs_nothing_but_time(shop, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = "127.0.0.1", 1, 1
    incident = fail(shop)

    assert notify.send_due() == 0
    incident.refresh_from_db()
    assert incident.notified_at is None


def test_the_tick_sends(shop):
    fail(shop)

    tasks.notify()

    assert len(mail.outbox) == 1


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
