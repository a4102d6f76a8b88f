"""The door's patience with PostgreSQL: a deadline of its own, a gate, and a new connection after every failure."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connection, connections

from runtime.intake import database
from runtime.intake.database import Gate, Patience, Unavailable
from tests.installation import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def gate(monkeypatch) -> Iterator[Gate]:
    """A gate of this test's own; the thread's connection is a new one afterwards."""
    monkeypatch.setattr(database, "gate", Gate())
    yield database.gate
    eventually(lambda: not database.gate.is_closed)
    with connection.cursor() as cursor:
        # The server notices only at the end of its sleep that nobody is listening any more.
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND query LIKE '%%pg_sleep%%'"
        )
    connection.close()


def sleep(seconds: float) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 'slept' FROM (SELECT pg_sleep(%s)) s", [seconds])
        return cursor.fetchone()[0]


def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def timed(use: Callable[[], object]) -> tuple[Unavailable, float]:
    began = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        use()
    return caught.value, time.monotonic() - began


def test_what_answers_in_time_is_returned():
    assert Patience(2).read(lambda: sleep(0)) == "slept"


def test_what_does_not_answer_is_given_up_at_the_deadline_and_the_next_use_has_a_new_connection():
    first = Patience(2).read(backend)
    error, seconds = timed(lambda: Patience(0.3).read(lambda: sleep(20)))
    assert error.has_hung
    assert 0.3 <= seconds < 1.5
    assert Patience(2).read(backend) != first


def test_all_uses_of_a_request_share_one_patience():
    patience = Patience(0.6)
    patience.read(lambda: sleep(0.4))
    error, seconds = timed(lambda: patience.read(lambda: sleep(20)))
    assert error.has_hung
    assert seconds < 0.6


def test_after_two_hangs_in_a_row_it_is_refused_at_once_until_a_probe_passes(gate, monkeypatch):
    may_pass = threading.Event()
    monkeypatch.setattr(database, "_probe", lambda: may_pass.wait(0.01))
    timed(lambda: Patience(0.1).read(lambda: sleep(20)))
    assert not gate.is_closed
    timed(lambda: Patience(0.1).read(lambda: sleep(20)))
    assert gate.is_closed
    error, seconds = timed(lambda: Patience(2).read(lambda: sleep(0)))
    assert not error.has_hung
    assert seconds < 0.05
    may_pass.set()
    eventually(lambda: not gate.is_closed)
    assert Patience(2).read(lambda: sleep(0)) == "slept"


def test_the_probe_passes_when_postgresql_answers(gate):
    for _ in range(2):
        timed(lambda: Patience(0.1).read(lambda: sleep(20)))
    eventually(lambda: not gate.is_closed)


def test_an_answer_in_between_is_no_row_of_hangs(gate):
    for _ in range(3):
        timed(lambda: Patience(0.1).read(lambda: sleep(20)))
        Patience(2).read(lambda: sleep(0))
    assert not gate.is_closed


def test_a_connection_that_died_meanwhile_is_replaced_for_a_read():
    first = Patience(2).read(backend)
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 1000)", [first])
    other.close()
    assert Patience(2).read(backend) != first


def test_an_error_is_unavailable_and_no_hang(gate):
    def fail() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT nothing")

    error, _ = timed(lambda: Patience(2).read(fail))
    assert not error.has_hung
    assert Patience(2).read(lambda: sleep(0)) == "slept"


def test_what_is_no_error_of_the_database_passes_and_keeps_the_connection():
    first = Patience(2).read(backend)
    with pytest.raises(LookupError), Patience(2).spent():
        raise LookupError
    assert Patience(2).read(backend) == first


def in_a_new_thread(use: Callable[[], object]) -> list[object]:
    """Call in a thread that has no connection yet; return its result or the exception and the seconds."""
    outcome: list[object] = []

    def run() -> None:
        began = time.monotonic()
        try:
            outcome.append(use())
        except Unavailable as error:
            outcome.append(error)
        finally:
            outcome.append(time.monotonic() - began)
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    return outcome


def test_a_server_that_takes_connections_and_says_nothing_is_given_up(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as patch:
        patch.setitem(connections.settings["default"], "PORT", str(silent.getsockname()[1]))
        error, seconds = in_a_new_thread(lambda: Patience(0.3).read(lambda: sleep(0)))
    assert isinstance(error, Unavailable)
    assert error.has_hung
    assert seconds < 1.5
    assert in_a_new_thread(lambda: Patience(5).read(lambda: sleep(0)))[0] == "slept"


def test_a_server_that_is_not_there_is_unavailable_at_once(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with monkeypatch.context() as patch:
        patch.setitem(connections.settings["default"], "PORT", str(port))
        error, seconds = in_a_new_thread(lambda: Patience(1.5).read(lambda: sleep(0)))
    assert isinstance(error, Unavailable)
    assert not error.has_hung
    assert seconds < 1
