"""Credentials open in their own row only, and are masked wherever people read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors import credentials
from connectors.credentials import MASK, Mask
from connectors.models import Connection
from csbot.lib.crypto import DecryptionError
from tickets.models import Tenant

VALUES = {"basic": {"username": "jana", "password": "heslo č"}}


def account() -> Connection:
    return Connection(tenant=Tenant(pk=1, slug="shop"), provider="http", name="shop")


def test_what_is_sealed_opens_again():
    sealed = account()
    credentials.seal(sealed, VALUES)
    assert "heslo" not in sealed.credentials
    assert credentials.unsealed(sealed) == VALUES
    assert credentials.marks(sealed) == {"basic": {"username": True, "password": True}}


def test_no_credentials_are_an_empty_text():
    empty = account()
    credentials.seal(empty, {})
    assert (empty.credentials, credentials.unsealed(empty), credentials.marks(empty)) == ("", {}, {})


def test_a_copy_into_another_row_or_tenant_does_not_open():
    sealed = account()
    credentials.seal(sealed, VALUES)
    other_row = account()
    other_tenant = account()
    other_tenant.public_id, other_tenant.tenant_id = sealed.public_id, 2
    for copy in (other_row, other_tenant):
        copy.credentials = sealed.credentials
        with pytest.raises(DecryptionError):
            credentials.unsealed(copy)
        assert credentials.marks(copy) is None


def test_a_secret_is_masked_in_every_form():
    secret = 'p"a/ss wörd&+'
    forms = [
        secret,
        "p%22a%2Fss%20w%C3%B6rd%26%2B",
        "p%22a%2Fss+w%C3%B6rd%26%2B",
        'p\\"a/ss w\\u00f6rd&+',
        'p\\"a/ss wörd&+',
        "cCJhL3NzIHfDtnJkJis=",
    ]
    for form in forms:
        assert Mask([secret]).text(f"before {form} after") == f"before {MASK} after"


def test_the_longer_secret_goes_first():
    assert Mask(["abcd", "abcdefgh"]).text("abcdefgh abcd") == f"{MASK} {MASK}"


def test_nothing_is_masked_without_secrets():
    assert Mask(["", ""]).text("text") == "text"
    assert Mask().data({"a": [1, "text"]}) == {"a": [1, "text"]}


def test_data_loses_long_secrets_only():
    mask = Mask(["long-secret", "7"])
    data = {
        "echo": "Bearer long-secret",
        "n": 7,
        "t": "7 pieces",
        "list": ["long-secret", None],
        "long-secret": 1,
    }
    assert mask.data(data) == {
        "echo": f"Bearer {MASK}",
        "n": 7,
        "t": "7 pieces",
        "list": [MASK, None],
        MASK: 1,
    }


@settings(deadline=None)
@given(st.text(min_size=1, max_size=12), st.text(max_size=20), st.text(max_size=20))
def test_no_text_keeps_a_secret(secret, before, after):
    try:
        secret.encode()
    except UnicodeEncodeError:
        return
    masked = Mask([secret]).text(before + secret + after)
    # The mark itself is the only thing that may hold a secret made of such signs.
    assert secret not in masked or set(secret) <= set(MASK)
