"""`Idempotency-Key`: the same answer again, once, for its caller alone, and nothing left of a refusal."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.db.models.functions import Now
from rest_framework.response import Response

from tests.csbot.test_api import problem
from tests.factories import PASSWORD, PersonFactory
from tickets import idempotency, people
from tickets.models import ApiToken, AuditEntry, Group, IdempotentAnswer, Tenant
from tickets.viewset import TenantViewSet

BODY = {"key": "returns", "name": "Returns"}
KEY = {"Idempotency-Key": "first-of-today"}


def test_a_repeat_is_answered_with_the_first_answer(api, shop):
    program = api(shop)
    first = program.post("/api/groups", BODY, headers=KEY)
    again = program.post("/api/groups/", BODY, headers=KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert Group.objects.of(shop).filter(key="returns").count() == 1
    assert AuditEntry.objects.of(shop).count() == 1


def test_another_body_is_422(api, shop):
    program = api(shop)
    program.post("/api/groups", BODY, headers=KEY)
    problem(program.post("/api/groups", {**BODY, "name": "x"}, headers=KEY), 422, "idempotencyKey.otherBody")


def test_a_key_belongs_to_its_path_caller_and_tenant(api, staff_api, shop, stranger):
    first, second = api(shop), api(shop)
    assert first.post("/api/groups", BODY, headers=KEY).status_code == 201
    problem(second.post("/api/groups", BODY, headers=KEY), 409, "exists")
    assert first.post("/api/ticket-types", BODY, headers=KEY).status_code == 201
    assert api(stranger).post("/api/groups", BODY, headers=KEY).status_code == 201
    problem(staff_api.post("/api/groups", BODY, headers={**KEY, "X-Tenant": "shop"}), 409, "exists")
    assert IdempotentAnswer.objects.count() == 3


def test_a_key_of_a_session_is_the_logins(client, shop):
    person = PersonFactory(tenant=shop, with_login=True, role="admin")
    client.login(username=person.login.username, password=PASSWORD)
    answers = [
        client.post("/api/groups", BODY, content_type="application/json", headers=KEY) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].content == answers[1].content


def test_a_refusal_is_not_kept_so_a_mended_body_is_welcome(api, shop):
    program = api(shop)
    problem(program.post("/api/groups", {"key": "returns"}, headers=KEY), 400, "invalid")
    assert program.post("/api/groups", BODY, headers=KEY).status_code == 201


def test_a_secret_is_stored_and_repeated_as_null(api, staff_api, shop):
    program = api(shop)
    body = {"name": "erp", "role": "agent"}
    first = program.post("/api/tokens", body, headers=KEY).json()
    again = program.post("/api/tokens", body, headers=KEY)
    assert again.status_code == 201
    assert again.json() == {**first, "token": None}
    assert ApiToken.objects.of(shop).filter(name="erp").count() == 1
    founded = staff_api.post("/api/tenants", {"slug": "acme", "name": "Acme"}, headers=KEY).json()
    assert (
        staff_api.post("/api/tenants", {"slug": "acme", "name": "Acme"}, headers=KEY).json()["token"] is None
    )
    stored = str(list(IdempotentAnswer.objects.values()))
    assert first["token"] not in stored
    assert founded["token"] not in stored
    assert Tenant.objects.filter(slug="acme").count() == 1


def test_an_answer_is_forgotten_after_24_hours(api, shop):
    program = api(shop)
    program.post("/api/groups", BODY, headers=KEY)
    IdempotentAnswer.objects.update(created_at=Now() - timedelta(hours=23, minutes=59))
    assert program.post("/api/groups", BODY, headers=KEY).status_code == 201
    IdempotentAnswer.objects.update(created_at=Now() - timedelta(hours=24))
    problem(program.post("/api/groups", BODY, headers=KEY), 409, "exists")
    assert program.post("/api/groups", {**BODY, "key": "other"}, headers=KEY).status_code == 201
    assert IdempotentAnswer.objects.count() == 1


def test_keeping_an_answer_clears_old_ones(api, shop):
    program = api(shop)
    program.post("/api/groups", BODY, headers={"Idempotency-Key": "old"})
    IdempotentAnswer.objects.update(created_at=Now() - timedelta(days=2))
    program.post("/api/groups", {**BODY, "key": "other"}, headers=KEY)
    assert IdempotentAnswer.objects.count() == 1


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "ž"])
def test_a_bad_key_is_400(api, shop, key):
    problem(
        api(shop).post("/api/groups", BODY, headers={"Idempotency-Key": key}), 400, "idempotencyKey.invalid"
    )


def test_who_may_not_write_learns_nothing_by_a_key(api, shop):
    api(shop).post("/api/groups", BODY, headers=KEY)
    problem(api(shop, "viewer").post("/api/groups", BODY, headers=KEY), 403, "permission_denied")


def test_a_crash_leaves_neither_effect_nor_answer(api, shop, monkeypatch):
    def crash(*_args, **_values):
        raise RuntimeError("the process dies here")

    program = api(shop)
    program.raise_request_exception = False
    with monkeypatch.context() as patched:
        patched.setattr(idempotency, "_keep", crash)
        assert program.post("/api/groups", BODY, headers=KEY).status_code == 500
    assert not Group.objects.of(shop).filter(key="returns").exists()
    assert program.post("/api/groups", BODY, headers=KEY).status_code == 201


@pytest.mark.django_db(transaction=True)
def test_an_action_that_calls_out_runs_outside_a_transaction(api, shop, monkeypatch):
    seen = []

    def create(self, request):
        seen.append(connection.in_atomic_block)
        return Response({"n": len(seen)})

    monkeypatch.setattr("tickets.api.GroupViewSet.create", create)
    program = api(shop)
    program.post("/api/groups", BODY, headers=KEY)
    monkeypatch.setattr(TenantViewSet, "actions_calling_out", frozenset({"create"}))
    answers = [program.post("/api/groups", BODY, headers={"Idempotency-Key": "out"}).json() for _ in range(2)]
    assert seen == [True, False]
    assert answers == [{"n": 2}, {"n": 2}]


@pytest.mark.django_db(transaction=True)
def test_while_the_first_is_running_a_repeat_is_409(api, shop, monkeypatch):
    is_inside, may_end, answers = threading.Event(), threading.Event(), []
    create_group = people.create_group

    def slow(*args):
        is_inside.set()
        assert may_end.wait(10)
        return create_group(*args)

    monkeypatch.setattr("tickets.api.GroupViewSet.create_one", staticmethod(slow))
    program = api(shop)

    def first() -> None:
        try:
            answers.append(program.post("/api/groups", BODY, headers=KEY).status_code)
        finally:
            connections.close_all()

    thread = threading.Thread(target=first)
    thread.start()
    assert is_inside.wait(10)
    problem(program.post("/api/groups", BODY, headers=KEY), 409, "idempotencyKey.running")
    may_end.set()
    thread.join(10)
    assert answers == [201]
    assert program.post("/api/groups", BODY, headers=KEY).status_code == 201
    assert Group.objects.of(shop).filter(key="returns").count() == 1


@pytest.mark.django_db(transaction=True)
def test_twenty_at_once_make_one(api, shop):
    program, answers = api(shop), []
    barrier = threading.Barrier(20)

    def send() -> None:
        try:
            barrier.wait(10)
            answers.append(program.post("/api/groups", BODY, headers=KEY).status_code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=send) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(answers) == 20
    assert set(answers) <= {201, 409}
    assert 201 in answers
    assert Group.objects.of(shop).filter(key="returns").count() == 1
