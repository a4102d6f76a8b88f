"""One spelling for each host."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csbot.lib import hosts


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("shop.example", "shop.example"),
        ("SHOP.Example.", "shop.example"),
        ("my_printer", "my_printer"),
        ("tiskárna.example", "xn--tiskrna-kwa.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("FD00::00AB", "fd00::ab"),
    ],
)
def test_a_host_has_one_spelling(written, host):
    assert hosts.canonical(written) == host


@pytest.mark.parametrize(
    "written",
    [
        "", ".", "..", "*", "*.example", "a..b", "a b", "a/b", "a=b", "10.0.0.0/8", "a\x00", "\udcff", "a" * 64, ":",
        "1::2::3", "fe80::1%eth0", "[::1]", "\u0338", "ч." * 500_000, "ч" * 500_000, "a." * 127 + "aa",
    ],
    ids=lambda written: ascii(written)[:20],
)  # fmt: skip
def test_what_is_no_host(written):
    begun = time.monotonic()
    with pytest.raises(ValueError):
        hosts.canonical(written)
    assert time.monotonic() - begun < 2


@settings(deadline=None)
@given(st.text(alphabet="aA1.-_:*%[]č\u0338\u200d。\x00\udcff", max_size=20) | st.text(max_size=20))
def test_a_spelling_is_stable(written):
    try:
        host = hosts.canonical(written)
    except ValueError:
        return
    assert host.isascii()
    assert hosts.canonical(host) == host
