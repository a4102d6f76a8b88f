"""Celery's side of incidents."""

from __future__ import annotations

from celery import shared_task

from incidents import notify as notifying


@shared_task
def notify() -> None:
    """Beat's tick: tell staff about incidents that nobody was told of yet."""
    notifying.send_due()
