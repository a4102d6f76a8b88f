"""Statements past the cursor: the same values, errors and transactions as with one."""

import threading
import time
import uuid
from datetime import UTC, datetime
from decimal import Decimal

import psycopg
import pytest
from django.db import DatabaseError, DataError, IntegrityError, OperationalError, connection, transaction

from csbot.lib.prepared import Statement
from tickets.models import Tenant

NOW = datetime(2026, 11, 30, 18, 5, 0, 123456, tzinfo=UTC)


@pytest.mark.django_db
class TestValues:
    @pytest.mark.parametrize(
        ("type", "value"),
        [
            ("text", "a'b\\ ž \U0001f600 %"),
            ("text", ""),
            ("bigint", 2**62),
            ("smallint", -5),
            ("float8", 1.5),
            ("boolean", True),
            ("boolean", False),
            ("bytea", b"\x00\xff'\\"),
            ("bytea", b""),
            ("uuid", uuid.UUID(int=7)),
            ("timestamptz", NOW),
            ("text", None),
        ],
    )
    def test_go_in_and_come_out(self, type, value):
        assert Statement(f"SELECT %(value)s::{type}").row(value=value) == (value,)

    def test_a_name_may_stand_twice_and_a_percent_sign_doubled(self):
        statement = Statement("SELECT %(a)s::int + %(b)s::int + %(a)s::int, 7 %% 4")
        assert statement.row(a=1, b=10) == (12, 3)

    def test_no_row_is_none_and_of_several_the_first_counts(self):
        assert Statement("SELECT 1 WHERE false").row() is None
        assert Statement("SELECT n FROM generate_series(1, 3) n").row() == (1,)

    def test_other_values_are_refused(self):
        with pytest.raises(TypeError):
            Statement("SELECT %(a)s::numeric").row(a=Decimal("1.5"))

    def test_a_value_is_never_sql(self):
        text = "'; DROP TABLE tickets_tenant; --"
        assert Statement("SELECT %(a)s::text").row(a=text) == (text,)

    def test_who_watches_queries_sees_it(self, django_assert_num_queries):
        with django_assert_num_queries(1):
            assert Statement("SELECT %(a)s::int").row(a=1) == (1,)


@pytest.mark.django_db(transaction=True)
class TestTransactions:
    INSERT = Statement(
        "INSERT INTO tickets_tenant (public_id, slug, name, language, timezone, retention_days, created_at) "
        "VALUES (gen_random_uuid(), %(slug)s, 'T', 'en', 'UTC', 90, now()) RETURNING slug"
    )

    def test_alone_it_commits(self):
        assert self.INSERT.row(slug="one") == ("one",)
        transaction.set_autocommit(True)
        assert Tenant.objects.filter(slug="one").exists()
        assert connection.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    def test_first_in_a_transaction_it_is_rolled_back_with_it(self):
        with pytest.raises(RuntimeError), transaction.atomic():
            self.INSERT.row(slug="one")
            raise RuntimeError
        assert not Tenant.objects.exists()

    def test_in_a_savepoint_an_error_leaves_the_transaction_alive(self):
        with transaction.atomic():
            self.INSERT.row(slug="one")
            with pytest.raises(IntegrityError), transaction.atomic():
                self.INSERT.row(slug="one")
            assert Tenant.objects.get().slug == "one"

    @pytest.mark.parametrize(
        ("sql", "error"),
        [
            ("SELECT 1 / 0", DataError),
            ("SELECT pg_sleep(5)", OperationalError),
            ("SELECT nothing", DatabaseError),
        ],
    )
    def test_errors_are_djangos(self, sql, error):
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 50")
        with pytest.raises(error):
            Statement(sql).row()
        connection.close()

    def test_a_lost_connection_is_an_operational_error_and_the_next_one_prepares_again(self):
        statement = Statement("SELECT pg_backend_pid()")
        (pid,) = statement.row()
        with psycopg.connect(
            **connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}
        ) as other:
            other.execute("SELECT pg_terminate_backend(%s, 1000)", [pid])
        with pytest.raises(OperationalError):
            statement.row()
        connection.close()
        assert statement.row() != (pid,)

    def test_other_threads_go_on_while_it_waits(self):
        Statement("SELECT 1").row()
        beats: list[float] = []
        is_over = threading.Event()

        def beat() -> None:
            while not is_over.wait(0.01):
                beats.append(time.monotonic())

        thread = threading.Thread(target=beat)
        thread.start()
        Statement("SELECT pg_sleep(0.5)").row()
        is_over.set()
        thread.join()
        assert len(beats) > 10
