"""Open incidents bother somebody: one e-mail to staff for each cause, sent by a tick and by nobody else.

At least once: an incident is taken for `LEASE` first and marked as told only after its mail has left, so a
sender that dies leaves it to the next one.
"""

from __future__ import annotations

import logging
import smtplib
from datetime import timedelta

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import connection
from django.db.models.functions import Now
from django.utils.translation import gettext, override

from incidents import messages
from incidents.models import Incident

logger = logging.getLogger(__name__)

# Of one call; the tick comes again at once, and a mail server takes few at a time kindly.
BATCH = 20
# After a failure or a death the next try comes so much later; longer than a batch takes at the worst.
LEASE = timedelta(minutes=5)
# A subject is one line; mail programs show about this much of it.
SUBJECT_LENGTH = 150

# Each incident goes to one sender; `incident_to_notify` makes it an index scan over the few that wait.
TAKE = """
UPDATE incidents_incident SET notify_after = clock_timestamp() + %s WHERE id IN (
  SELECT id FROM incidents_incident
  WHERE notified_at IS NULL AND status IN ('open', 'acknowledged') AND notify_after <= clock_timestamp()
  ORDER BY notify_after LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
) RETURNING id
"""


def send_due() -> int:
    """E-mail staff about incidents that nobody was told of yet; return how many mails left.

    Without `CSBOT_STAFF_EMAIL` nothing is sent and nothing is marked. What cannot be sent is logged and tried again
    after `LEASE`. Belongs outside a transaction: a mail server may be slow.
    """
    if not settings.CSBOT_STAFF_EMAIL:
        return 0
    taken = _take()
    if not taken:
        return 0
    sender = get_connection()
    sent = 0
    try:
        sender.open()
        for incident in taken:
            sent += _send(incident, sender)
    except OSError as error:
        # The server itself: each further mail would wait for it as long, and ticks have better things to do.
        logger.error("E-mails about incidents cannot be sent: %s", error)
    finally:
        sender.close()
    return sent


def _take() -> list[Incident]:
    with connection.cursor() as cursor:
        cursor.execute(TAKE, [LEASE, BATCH])
        ids = [row[0] for row in cursor.fetchall()]
    return list(
        Incident.objects.filter(pk__in=ids).select_related("tenant", "ticket", "connection").order_by("pk")
    )


def _send(incident: Incident, sender: BaseEmailBackend) -> bool:
    """Send one mail and mark its incident. False: the server refused this mail, or somebody else marked it first.

    Raises OSError when the server cannot be talked to.
    """
    try:
        _mail(incident, sender).send()
    except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused) as error:
        logger.error("Incident %s: the server refused the e-mail to staff: %s", incident.public_id, error)
        return False
    return bool(Incident.objects.filter(pk=incident.pk, notified_at=None).update(notified_at=Now()))


def _mail(incident: Incident, sender: BaseEmailBackend) -> EmailMessage:
    texts = messages.texts(incident.code, incident.params, settings.LANGUAGE_CODE)
    title, impact = incident.title or texts.title, incident.impact or texts.impact
    address = f"{settings.CSBOT_PUBLIC_URL}/admin/incidents/incident/{incident.pk}/change/"
    with override(settings.LANGUAGE_CODE):
        lines = [
            title,
            impact,
            "",
            gettext("Company: %(name)s") % {"name": incident.tenant.name},
            gettext("Kind of error: %(code)s") % {"code": incident.code},
            *_optional_lines(incident),
            gettext("Since %(at)s, so far %(count)s×") % {
                "at": f"{incident.first_at:%Y-%m-%d %H:%M:%S} UTC",
                "count": incident.count,
            },
            "",
            address,
        ]  # fmt: skip
    # A title may come from an automation's data; a line break in a subject would begin a new header.
    subject = " ".join(f"[csbot] {incident.tenant.slug}: {title}".split())
    return EmailMessage(
        subject=subject[:SUBJECT_LENGTH],
        body="\n".join(lines),
        to=list(settings.CSBOT_STAFF_EMAIL),
        connection=sender,
    )


def _optional_lines(incident: Incident) -> list[str]:
    lines = []
    if incident.automation:
        lines.append(gettext("Automation: %(name)s") % {"name": incident.automation["name"]})
    if incident.connection:
        lines.append(gettext("Connection: %(name)s") % {"name": incident.connection.name})
    if incident.ticket:
        lines.append(gettext("Ticket: %(number)s") % {"number": incident.ticket.key})
    return lines
