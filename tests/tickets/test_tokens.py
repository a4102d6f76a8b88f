"""Tokens of programs: made, hashed, found, used, expired and revoked."""

import hashlib
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.factories import TenantFactory, TokenFactory
from tickets import tokens
from tickets.models import ApiToken

pytestmark = pytest.mark.django_db


def test_only_the_hash_of_the_whole_is_stored():
    token, written = tokens.issue(TenantFactory(), "shop", "agent")
    assert re.fullmatch(r"csb_[A-Za-z0-9]{8}_[A-Za-z0-9]{32}", written)
    row = ApiToken.objects.filter(pk=token.pk).values().get()
    assert bytes(row["digest"]) == hashlib.sha256(written.encode()).digest()
    assert row["prefix"] == written[:12]
    assert written[13:] not in repr(row)


def test_two_tokens_are_never_alike():
    tenant = TenantFactory()
    assert len({tokens.issue(tenant, "shop", "agent")[1] for _ in range(20)}) == 20


def test_a_token_is_found_by_its_text_alone():
    token = TokenFactory()
    assert tokens.find(token.written) == token
    assert tokens.find(token.written[:-1]) is None
    assert tokens.find(token.prefix) is None
    assert tokens.find("") is None


def test_an_expired_token_is_not_found():
    soon, past = timezone.now() + timedelta(minutes=1), timezone.now() - timedelta(seconds=1)
    assert tokens.find(TokenFactory(expires_at=soon).written) is not None
    assert tokens.find(TokenFactory(expires_at=past).written) is None


@pytest.mark.parametrize("written", ["", "x", "csb_12345678_" + "a" * 32, "ř" * 50, "csb_" + "a" * 5000])
def test_an_unknown_token_costs_the_same_as_a_known_one(written):
    known = TokenFactory().written
    with CaptureQueriesContext(
        connection,
    ) as of_known:
        tokens.find(known)
    with CaptureQueriesContext(connection) as of_unknown:
        assert tokens.find(written) is None
    assert len(of_known) == len(of_unknown) == 1


def test_the_last_use_is_written_at_most_once_a_minute():
    token = TokenFactory()
    assert tokens.note_use(token)
    token.refresh_from_db()
    first = token.last_used_at
    assert first is not None
    assert not tokens.note_use(token)
    ApiToken.objects.filter(pk=token.pk).update(last_used_at=first - timedelta(seconds=61))
    token.refresh_from_db()
    assert tokens.note_use(token)


def test_two_processes_at_once_write_the_use_once():
    token = TokenFactory()
    read_earlier = ApiToken.objects.get(pk=token.pk)
    assert tokens.note_use(token)
    assert not tokens.note_use(read_earlier)


def test_a_revoked_token_is_gone():
    token = TokenFactory()
    assert tokens.revoke(token)
    assert tokens.find(token.written) is None
    assert not tokens.revoke(ApiToken(pk=10**9))
