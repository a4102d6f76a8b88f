"""The Celery application: it only wakes workers up. Runs live in PostgreSQL, a message carries nothing.

No result, no retry, no eta or countdown, no late acknowledgement: a lost wake-up costs the time to the next
pump, a surplus one costs an empty claim.
"""

import os

from celery import Celery
from django.conf import settings
from kombu import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "csbot.settings")

app = Celery("csbot")
app.conf.update(
    broker_url=settings.REDIS_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # Sockets with deadlines: the defaults wait for ever on a hung Redis (kombu's Redis transport).
    broker_transport_options={
        "visibility_timeout": 120,
        "socket_timeout": 5,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "queue_order_strategy": "priority",
    },
    task_queues=[Queue("tick"), Queue("runs")],
    task_default_queue="runs",
    task_ignore_result=True,
    task_acks_late=False,
    task_publish_retry=False,
    task_track_started=False,
    # The last resort: longer than the longest step and the claim loop's budget together.
    task_time_limit=900,
    worker_prefetch_multiplier=1,
    worker_disable_prefetch=True,
    worker_max_tasks_per_child=200,
    worker_max_memory_per_child=300_000,
    worker_soft_shutdown_timeout=25,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    timezone="UTC",
    enable_utc=True,
    beat_scheduler="django_celery_beat.schedulers:DatabaseScheduler",
    beat_max_loop_interval=1,
    beat_schedule={
        "pump": {"task": "runtime.tasks.pump", "schedule": 2.0, "options": {"queue": "tick"}},
        "clock": {
            "task": "runtime.tasks.clock",
            "schedule": float(settings.CSBOT_SCHEDULER_TICK),
            "options": {"queue": "tick"},
        },
        "notify": {
            "task": "incidents.tasks.notify",
            "schedule": float(settings.CSBOT_SCHEDULER_TICK),
            "options": {"queue": "tick"},
        },
        "sweep": {
            "task": "runtime.tasks.sweep",
            "schedule": settings.CSBOT_HEARTBEAT / 2.0,
            "options": {"queue": "tick"},
        },
        "reconcile": {"task": "runtime.tasks.reconcile", "schedule": 60.0, "options": {"queue": "tick"}},
        "silence": {"task": "runtime.tasks.silence", "schedule": 60.0, "options": {"queue": "tick"}},
        "hand_out": {"task": "runtime.tasks.hand_out", "schedule": 60.0, "options": {"queue": "tick"}},
        "retention": {"task": "runtime.tasks.retention", "schedule": 300.0, "options": {"queue": "tick"}},
    },
)
app.autodiscover_tasks()
