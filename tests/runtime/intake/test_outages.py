"""The shipped web process against real servers that stop, hang and are killed: what was answered 202 is on disk."""

import contextlib
import json
import signal
import socket
import time
from collections.abc import Iterator

import psutil
import pytest
import requests
from django.db import connection

from csbot import embedded
from csbot.processes import Child
from runtime.models import Run
from tests.installation import eventually
from tests.runtime.intake.conftest import DOC, Webhook
from tests.runtime.intake.load import Outcome, Sender, post
from tests.runtime.intake.web import BODY, CONNECTIONS, Web

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

# The request at which a process is killed, while the others are out.
KILL_AT = 60


@pytest.fixture
def documents(webhook) -> Webhook:
    return webhook(params=[DOC])


@pytest.fixture
def postgres(servers: embedded.Servers) -> Iterator[Child]:
    """The server, running again afterwards."""
    assert servers.postgres
    yield servers.postgres
    if not servers.postgres.is_running:
        servers.postgres.start()
    eventually(lambda: embedded.postgres_answers(servers.database_url), 20)
    connection.close()


@contextlib.contextmanager
def suspended(child: Child) -> Iterator[None]:
    """Stop a process and all that it has started (SIGSTOP), and let them go on afterwards."""
    main = psutil.Process(child.pid)
    processes = [main, *main.children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def taken(outcomes: list[Outcome]) -> set[str]:
    """Return the ids of the runs that were answered with 202."""
    return {json.loads(outcome.body)["runId"] for outcome in outcomes if outcome.status == 202}


def stored(target: Webhook) -> set[str]:
    ids = Run.objects.filter(automation=target.automation).values_list("public_id", flat=True)
    return {str(public_id) for public_id in ids}


def p99(outcomes: list[Outcome]) -> float:
    ordered = sorted(outcome.seconds for outcome in outcomes)
    return ordered[int(len(ordered) * 0.99)]


def timed_post(web: Web, target: Webhook) -> tuple[requests.Response, float]:
    began = time.monotonic()
    answer = web.post(target.path)
    return answer, time.monotonic() - began


def is_taken(web: Web, target: Webhook) -> bool:
    return web.post(target.path).status_code == 202


class TestKilled:
    def test_what_was_answered_202_is_stored_whenever_the_web_process_is_killed(self, web, documents):
        answered: set[str] = set()
        for _ in range(2):

            def make(n: int) -> bytes:
                if n == KILL_AT:
                    web.child.kill()
                return post(documents.path, BODY % n)

            answered |= taken(Sender(web.url, make, CONNECTIONS).run(0.7))
            assert not web.child.is_running
            web.start()
        assert answered
        assert answered <= stored(documents)
        # What was committed and not answered yet was out on one of the connections.
        assert len(stored(documents) - answered) <= 2 * CONNECTIONS


class TestPostgres:
    def test_stopped_is_503_and_started_again_it_goes_on(self, web, documents, postgres):
        assert is_taken(web, documents)
        postgres.send(signal.SIGINT)
        assert postgres.wait(10)
        for _ in range(3):
            answer, seconds = timed_post(web, documents)
            assert answer.status_code == 503
            assert int(answer.headers["Retry-After"]) >= 1
            assert answer.json()["code"] == "storage.unavailable"
            assert seconds < 2
        postgres.start()
        eventually(lambda: is_taken(web, documents), 10)

    def test_hung_is_503_within_two_seconds_then_at_once_and_it_recovers(self, web, documents, postgres):
        before = taken(web.load(documents.path, 0.5))
        with suspended(postgres):
            seconds = []
            for _ in range(4):
                answer, taken_seconds = timed_post(web, documents)
                assert answer.status_code == 503
                assert int(answer.headers["Retry-After"]) >= 1
                seconds.append(taken_seconds)
        assert max(seconds) < 2
        assert max(seconds[2:]) < 0.5
        eventually(lambda: is_taken(web, documents), 10)
        assert before <= stored(documents)

    def test_under_load_nothing_answered_202_is_missing_after_a_hang(self, web, documents, postgres):
        sender = Sender(web.url, lambda n: post(documents.path, BODY % n), 12)
        web.load(documents.path, 0.3)
        with suspended(postgres):
            outcomes = sender.run(1.0)
        assert {outcome.status for outcome in outcomes} == {503}
        assert max(outcome.seconds for outcome in outcomes) < 2.2
        eventually(lambda: is_taken(web, documents), 10)
        after = web.load(documents.path, 0.5)
        assert taken(after) <= stored(documents)
        assert {outcome.status for outcome in after} == {202}

    def test_read_only_is_503(self, web, documents, postgres):
        with connection.cursor() as cursor:
            cursor.execute("ALTER ROLE csbot SET default_transaction_read_only = on")
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        try:
            assert web.post(documents.path).status_code == 503
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER ROLE csbot RESET default_transaction_read_only")
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )
        eventually(lambda: is_taken(web, documents), 5)


class TestRedis:
    def test_hung_or_gone_it_changes_neither_the_answer_nor_its_speed(self, web, documents, servers):
        assert servers.redis
        web.load(documents.path, 0.5, connections=4)
        before = web.load(documents.path, 1.5, connections=4)
        with suspended(servers.redis):
            hung = web.load(documents.path, 1.5, connections=4)
        servers.redis.kill()
        try:
            gone = web.load(documents.path, 1.5, connections=4)
        finally:
            servers.redis.start()
            eventually(lambda: embedded.redis_answers(servers.redis_url), 10)
        for outcomes in (before, hung, gone):
            assert {outcome.status for outcome in outcomes} == {202}
        # A little more than the promise, for a machine that others use as well.
        assert p99(hung) <= 2 * p99(before) + 0.03
        assert p99(gone) <= 2 * p99(before) + 0.03
        assert taken(before + hung + gone) <= stored(documents)


class TestSenders:
    def test_a_slow_sender_costs_nobody_else(self, web, documents):
        head = f"POST {documents.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n".encode()
        slow = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(20)]
        try:
            for one in slow:
                one.sendall(head + b'{"document"')
            answer, seconds = timed_post(web, documents)
            assert answer.status_code == 202
            assert seconds < 1
        finally:
            for one in slow:
                one.close()

    def test_a_body_that_breaks_off_is_no_event(self, web, documents):
        head = f"POST {documents.path} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n".encode()
        with socket.create_connection(("127.0.0.1", web.port)) as one:
            one.sendall(head + b"Content-Length: 1000\r\n\r\n123")
        with socket.create_connection(("127.0.0.1", web.port)) as one:
            one.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n3\r\n123\r\n")
        assert is_taken(web, documents)
        assert len(stored(documents)) == 1

    def test_a_huge_body_is_refused_early_and_takes_no_memory(self, web, documents):
        web.load(documents.path, 0.3)
        before = web.memory()

        def endless() -> Iterator[bytes]:
            for _ in range(400):
                yield b"x" * 262_144

        for _ in range(3):
            with contextlib.suppress(requests.ConnectionError):
                answer = requests.post(f"{web.url}{documents.path}", data=endless(), timeout=10)
                assert answer.status_code == 413
        with socket.create_connection(("127.0.0.1", web.port)) as one:
            one.sendall(
                f"POST {documents.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n".encode()
            )
            assert one.recv(1000).startswith(b"HTTP/1.1 413")
        assert web.memory() - before < 20 * 1024 * 1024

    @pytest.mark.parametrize(
        "raw",
        [
            b"[" * 1_048_576,
            b'{"a":' * 200_000,
            b'{"document":{"id":"' + b"\\u0000" * 170_000 + b'"}}',
            b'{"document":{"id":"1"},"n":' + b"9" * 1_000_000 + b"}",
            b'{"document":{"id":"1"},"n":[' + b"0.5," * 250_000 + b"1]}",
            b'{"document":{"id":"1"},"n":{' + b",".join(b'"%x":1' % n for n in range(90_000)) + b"}}",
        ],
        ids=["brackets", "objects", "escapes", "digits", "decimals", "keys"],
    )
    def test_a_hostile_body_takes_neither_memory_nor_time(self, web, documents, raw):
        web.load(documents.path, 0.3)
        before = web.memory()
        began = time.monotonic()
        answer = requests.post(f"{web.url}{documents.path}", data=raw, timeout=10)
        assert answer.status_code in (202, 400, 413)
        assert time.monotonic() - began < 2
        assert web.memory() - before < 20 * 1024 * 1024

    def test_header_bytes_of_any_kind_are_no_error(self, web, documents):
        with socket.create_connection(("127.0.0.1", web.port)) as one:
            body = BODY % 7
            one.sendall(
                f"POST {documents.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n".encode()
                + b"X-Odd: \xff\xfe\r\nIdempotency-Key: \xc5\xbe\r\n\r\n"
                + body
            )
            assert one.recv(1000).startswith(b"HTTP/1.1 202")

    def test_head_tells_the_length_of_get(self, web, documents):
        head, get = (
            requests.request(method, f"{web.url}{documents.path}", timeout=10) for method in ("HEAD", "GET")
        )
        assert head.headers["Content-Length"] == get.headers["Content-Length"]
        assert head.content == b""

    def test_the_token_is_in_no_log_of_the_process(self, web, documents):
        web.post(documents.path)
        requests.put(f"{web.url}{documents.path}", timeout=10)
        requests.post(f"{web.url}{documents.path}", data=b"{", timeout=10)
        assert documents.token not in web.log()
