"""The beat process: a tiny parent of Celery beat and of the one-child worker that runs its ticks.

Ticks have a worker of their own, so that they never wait behind runs. A child that dies is started again: the
DatabaseScheduler, for one, exits when it meets a database that is down.
"""

from __future__ import annotations

import sys

from csbot import programs
from csbot.processes import Child
from csbot.supervisor import Supervisor

# Less than what `make up` grants to all services.
STOP_WITHIN_SECONDS = 6.0


def say(line: str) -> None:
    """Write one line to the process's log."""
    print(f"beat: {line}", flush=True)


def main() -> None:
    """Keep both children alive until somebody asks to stop."""
    supervisor = Supervisor(say)
    children = [
        Child("scheduler", [sys.executable, *programs.scheduler()], own_group=False),
        Child("tick worker", [sys.executable, *programs.tick_worker()], own_group=False),
    ]
    for child in children:
        supervisor.watch(child)
    supervisor.run()
    supervisor.stop(children, within_seconds=STOP_WITHIN_SECONDS)


if __name__ == "__main__":
    main()
