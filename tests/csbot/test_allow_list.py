"""CSBOT_OUTBOUND_ALLOW: an entry that can match nothing stops the start."""

import os
import subprocess
import sys

import pytest

from connectors import guard
from csbot.lib import environment

ACCEPTED = [
    ("printer.internal:631", [(None, "printer.internal", 631)], "http://PRINTER.internal.:631/"),
    ("acme=10.0.0.7:80", [("acme", "10.0.0.7", 80)], "http://10.0.0.7/"),
    ("Printer.Internal.:80", [(None, "printer.internal", 80)], "http://printer.internal/"),
    ("tiskárna.internal:80", [(None, "xn--tiskrna-kwa.internal", 80)], "http://tiskárna.internal/"),
    ("[0:0:0:0:0:0:0:1]:8001", [(None, "::1", 8001)], "http://[::1]:8001/"),
    ("acme=[FD00::1]:8001", [("acme", "fd00::1", 8001)], "http://[fd00:0::1]:8001/"),
    (" a:1 , b=c:2 ", [(None, "a", 1), ("b", "c", 2)], "http://a:1/"),
]


@pytest.mark.parametrize(("raw", "entries", "url"), ACCEPTED)
def test_an_entry_is_spelled_as_a_target(raw, entries, url):
    found = environment.allow_list(raw)
    assert found == entries
    target = guard.target_of(url)
    assert (target.host, target.port) == found[0][1:]


REFUSED = [
    "*:80", "*.internal:80", "acme=*:80", "=,,", "=", ",", ",,", " ", "a:1,", ",a:1", "a:1,,b:2", "=a:80", "a", "a:",
    ":80", "a:0", "a:65536", "a:http", "a:٨٠", "10.0.0.0/8:80", "http://a:80", "a:80/", "a b:80", "a c=b:80",
    "acme =b:80", "a=b=c:80", "*=b:80", "::1:80", "[::1]", "[::1:80", "::1]:80", "[127.0.0.1]:80", "[fe80::1%eth0]:80",
    "[]:80", "a..b:80", ".:80", "a@b:80", "a\x01:80",
]  # fmt: skip


@pytest.mark.parametrize("raw", REFUSED)
def test_what_can_match_nothing_is_refused(raw):
    with pytest.raises(ValueError):
        environment.allow_list(raw)


@pytest.mark.process
@pytest.mark.parametrize("raw", ["*:80", "=,,"])
def test_the_start_ends_with_one_line(raw):
    ended = subprocess.run(
        [sys.executable, "manage.py", "check"],
        env={**os.environ, "CSBOT_OUTBOUND_ALLOW": raw},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith(f"CSBOT_OUTBOUND_ALLOW: {raw!r} is not accepted; expected host:port")
