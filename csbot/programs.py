"""What each process of csbot runs, as arguments of `python`: for `manage.py` and for those who supervise.

The supervisor starts these directly: through `manage.py` a start loads Django twice and takes twice as long.
"""

from __future__ import annotations

import secrets

CELERY = ["-m", "celery", "--app=csbot"]
# Without their queues on the broker a worker is back a second sooner after the broker was away.
QUIET = ["--without-gossip", "--without-mingle", "--without-heartbeat"]


def web(bind: str, port: int) -> list[str]:
    """Webhooks, REST, portal and admin."""
    return ["-m", "csbot.web", bind, str(port)]


def worker(slots: int) -> list[str]:
    """Executes runs, so many at once. Its node name is its own: two of these are two workers."""
    return [*CELERY, "worker", "--queues=runs", f"--concurrency={slots}", *_prefork("worker")]


def beat() -> list[str]:
    """The parent of the scheduler and the tick worker."""
    return ["-m", "csbot.beat"]


def scheduler() -> list[str]:
    """Celery beat: sends the ticks."""
    database = "--scheduler=django_celery_beat.schedulers:DatabaseScheduler"
    return [*CELERY, "beat", database, "--pidfile=", "--loglevel=INFO"]


def tick_worker() -> list[str]:
    """Runs the ticks, one at a time, and nothing else."""
    return [*CELERY, "worker", "--queues=tick", "--concurrency=1", *_prefork("tick")]


def _prefork(kind: str) -> list[str]:
    return ["--pool=prefork", f"--hostname={kind}-{secrets.token_hex(4)}@%h", "--loglevel=INFO", *QUIET]
