"""Celery's side of the engine: shells of one or two lines around `runtime.queue` and `runtime.execution`."""

from __future__ import annotations

from celery import shared_task

from runtime import daily, handing_out
from runtime import silence as silences
from runtime.execution import loop
from runtime.queue import pump as pumping
from runtime.queue import rescue
from runtime.queue import retention as tidying
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


@shared_task
def retention() -> None:
    """Beat's tick: let go of what has been kept long enough."""
    tidying.tidy()


@shared_task
def reconcile() -> None:
    """Beat's tick: compare the days that have ended."""
    daily.reconcile_due()


@shared_task
def silence() -> None:
    """Beat's tick: notice who has become silent, and who no longer is."""
    silences.watch()


@shared_task
def hand_out() -> None:
    """Beat's tick: hand waiting tickets to who has become free."""
    handing_out.hand_out_lines()
