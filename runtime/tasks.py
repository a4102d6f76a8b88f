"""Celery's side of the engine: shells of one or two lines around `runtime.queue` and `runtime.execution`."""

from __future__ import annotations

from celery import shared_task

from runtime.execution import loop
from runtime.queue import pump as pumping
from runtime.queue import rescue
from runtime.triggers import clock as triggers


@shared_task
def wake() -> None:
    """Claim and execute runs until none is ready or the budget is spent."""
    loop.run_ready()


@shared_task
def pump() -> None:
    """Beat's tick: stage due runs and wake workers."""
    pumping.tick()


@shared_task
def clock() -> None:
    """Beat's tick: start polls and schedules that are due."""
    triggers.start_due()


@shared_task
def sweep() -> None:
    """Beat's tick: bring back runs whose worker is gone."""
    rescue.sweep()
