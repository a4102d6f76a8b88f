"""No spelling of an address, no answer of a resolver and no setting leads to where nobody may go."""

import ipaddress
import socket
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors import guard
from csbot.lib.errors import RetryableError, TerminalError

REFUSED = [
    # loopback, in every spelling that a resolver understands
    "http://127.0.0.1/",
    "http://127.0.0.1./",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.255.255.254/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://0x7f.0.0.1/",
    "http://0x7f000001/",
    "http://0x7F.1/",
    "http://localhost/",
    "http://LOCALHOST./",
    "http://localhost:8000/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://①②⑦.0.0.1/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    # unspecified, private, shared, benchmarking, documentation, multicast, reserved
    "http://0.0.0.0/",
    "http://0/",
    "http://[::]/",
    "http://10.0.0.1/",
    "http://10.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://3232235777/",
    "http://100.64.0.1/",
    "http://100.127.255.254/",
    "http://198.18.0.1/",
    "http://192.0.0.8/",
    "http://192.0.2.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://192.88.99.1/",
    "http://224.0.0.1/",
    "http://239.255.255.255/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    # IPv6: unique local, site-local, multicast, documentation, Teredo, ORCHID, discard, beyond global unicast
    "http://[fc00::1]/",
    "http://[fd12:3456::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[2001:10::1]/",
    "http://[100::1]/",
    "http://[5f00::1]/",
    "http://[4000::1]/",
    # IPv4 inside IPv6: mapped, 6to4, NAT64, ISATAP
    "http://[::ffff:10.0.0.1]/",
    "http://[::ffff:192.168.1.1]/",
    "http://[2002:7f00:1::1]/",
    "http://[2002:a00:1::]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b:1::10.0.0.1]/",
    "http://[2606:4700::5efe:10.0.0.1]/",
    "http://[2606:4700:0:0:200:5efe:a00:1]/",
    "http://[::8.8.8.8]/",
    # link-local and metadata
    "http://169.254.169.254/",
    "http://169.254.169.254./latest/meta-data/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://169.254.170.2/",
    "http://169.254.1.1/",
    "http://[fe80::1]/",
    "http://[fe80::a9fe:a9fe]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::169.254.169.254]/",
    "http://[2002:a9fe:a9fe::]/",
    "http://[fd00:ec2::254]/",
    "http://[fd20:ce::254]/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
]

METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "[fd00:ec2::254]",
    "[fd00:ec2::23]",
    "[fd20:ce::254]",
    "[fe80::a9fe:a9fe]",
    "[::ffff:169.254.169.254]",
    "[64:ff9b::169.254.169.254]",
    "[2002:a9fe:a9fe::]",
]

UNREADABLE = [
    "",
    "shop.example",
    "/orders",
    "//shop.example/",
    "ftp://shop.example/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_",
    "javascript:alert(1)",
    "http://",
    "http:///orders",
    "http://./",
    "http://shop..example/",
    "http://.example/",
    "http://" + "a" * 64 + ".example/",
    "http://" + "a." * 127 + "example/",
    "http://jana@shop.example/",
    "http://jana:heslo@shop.example/",
    "http://shop.example@127.0.0.1/",
    "http://shop.example\\@127.0.0.1/",
    "http://shop.example\\.evil.example/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%2f.evil.example/",
    "http://shop example/",
    "http://shop.example:port/",
    "http://shop.example:99999/",
    "http://shop.example:-1/",
    "http://[::1/",
    "http://[::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[not-an-address]/",
    "http://xn--.example\u0000/",
    "http://" + "ž" * 300 + "/",
]

PUBLIC = ["93.184.215.14", "1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1",
          "192.167.255.255", "11.0.0.1", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450::1", "2002:808:808::",
          "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]  # fmt: skip


def soon() -> float:
    return time.monotonic() + 5


def resolve(url: str, slug: str = "shop") -> list[guard.Address]:
    return guard.resolve(guard.target_of(url), slug, until=soon())


@pytest.mark.parametrize("url", REFUSED)
def test_no_spelling_leads_inside(url):
    with pytest.raises(TerminalError) as caught:
        resolve(url)
    assert caught.value.code == "input.invalid"
    # The address itself is for staff only.
    assert caught.value.trace["address"]


def test_there_are_enough_spellings():
    assert len(set(REFUSED)) == len(REFUSED) >= 40


@pytest.mark.parametrize("url", UNREADABLE)
def test_what_is_no_plain_address_is_refused(url):
    with pytest.raises(TerminalError) as caught:
        guard.target_of(url)
    assert caught.value.code == "input.invalid"


@pytest.mark.parametrize("ip", PUBLIC)
def test_public_addresses_pass_as_they_are(ip):
    url = f"https://[{ip}]/" if ":" in ip else f"https://{ip}/"
    found = resolve(url)
    assert [ipaddress.ip_address(address.sockaddr[0]) for address in found] == [ipaddress.ip_address(ip)]
    assert found[0].sockaddr[1] == 443


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://Shop.Example/x", ("http", "shop.example", 80)),
        ("https://shop.example./", ("https", "shop.example", 443)),
        ("http://shop.example:0080/", ("http", "shop.example", 80)),
        ("https://shop.example:8443/", ("https", "shop.example", 8443)),
        ("http://[2606:4700:0::1]/", ("http", "2606:4700::1", 80)),
        ("https://žluťoučký.example/", ("https", "xn--luouk-uva4it5a4g.example", 443)),
        ("https://straße.example/", ("https", "xn--strae-oqa.example", 443)),
    ],
)
def test_an_origin_has_one_form(url, target):
    found = guard.target_of(url)
    assert (found.scheme, found.host, found.port) == target


def answering(monkeypatch, *ips: str) -> None:
    """Let the resolver answer every name with `ips`."""

    def answer(_host, port, **_):
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (ip, port, 0, 0))
            if ":" in ip
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))
            for ip in ips
        ]

    monkeypatch.setattr("socket.getaddrinfo", answer)


def test_every_answer_of_the_resolver_is_checked(monkeypatch):
    answering(monkeypatch, "93.184.215.14", "2606:4700::1")
    assert [address.sockaddr[0] for address in resolve("https://shop.example/")] == [
        "93.184.215.14",
        "2606:4700::1",
    ]
    for inside in ("127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "fe80::1%eth0", "::ffff:10.0.0.1"):
        answering(monkeypatch, "93.184.215.14", inside)
        with pytest.raises(TerminalError):
            resolve("https://shop.example/")


def test_a_name_is_resolved_once(monkeypatch):
    asked = []

    def rebinding(host, port, **_):
        asked.append(host)
        ip = "93.184.215.14" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))]

    monkeypatch.setattr("socket.getaddrinfo", rebinding)
    assert [address.sockaddr[0] for address in resolve("https://shop.example/")] == ["93.184.215.14"]
    assert asked == ["shop.example"]


@pytest.mark.parametrize("answers", [[], OSError("no such name"), UnicodeError("label too long")])
def test_a_name_without_an_address_may_have_one_later(monkeypatch, answers):
    def answer(*_args, **_kwargs):
        if isinstance(answers, Exception):
            raise answers
        return answers

    monkeypatch.setattr("socket.getaddrinfo", answer)
    with pytest.raises(RetryableError) as caught:
        resolve("https://shop.example/")
    assert caught.value.code == "net.dns"


# What staff allows


@pytest.mark.parametrize(
    ("entry", "url", "slug", "passes"),
    [
        ((None, "127.0.0.1", 8001), "http://127.0.0.1:8001/x", "shop", True),
        ((None, "127.0.0.1", 8001), "http://127.0.0.1:8001/x", "stranger", True),
        (("shop", "127.0.0.1", 8001), "http://127.0.0.1:8001/", "shop", True),
        (("shop", "127.0.0.1", 8001), "http://127.0.0.1:8001/", "stranger", False),
        ((None, "127.0.0.1", 8001), "http://127.0.0.1:8002/", "shop", False),
        ((None, "127.0.0.1", 8001), "http://127.0.0.2:8001/", "shop", False),
        ((None, "127.0.0.1", 80), "http://127.0.0.1/", "shop", True),
        ((None, "127.0.0.1", 443), "https://127.0.0.1/", "shop", True),
        ((None, "localhost", 8001), "http://LOCALHOST.:8001/", "shop", True),
        ((None, "::1", 8001), "http://[::1]:8001/", "shop", True),
    ],
)
def test_staff_opens_one_host_and_port(settings, entry, url, slug, passes):
    settings.CSBOT_OUTBOUND_ALLOW = [entry]
    if passes:
        assert resolve(url, slug)
    else:
        with pytest.raises(TerminalError):
            resolve(url, slug)


@pytest.mark.parametrize("host", METADATA)
def test_metadata_stays_refused_whatever_staff_allows(settings, host):
    settings.CSBOT_OUTBOUND_ALLOW = [(None, host.strip("[]"), 80)]
    with pytest.raises(TerminalError):
        resolve(f"http://{host}/")


def test_an_allowed_name_that_leads_to_metadata_is_refused(settings, monkeypatch):
    settings.CSBOT_OUTBOUND_ALLOW = [(None, "printer.internal", 80)]
    answering(monkeypatch, "10.0.0.7")
    assert resolve("http://printer.internal/")
    answering(monkeypatch, "10.0.0.7", "169.254.169.254")
    with pytest.raises(TerminalError):
        resolve("http://printer.internal/")


@settings(deadline=None)
@given(st.ip_addresses(v=4))
def test_ipv4_agrees_with_the_library_where_both_speak(ip):
    # `is_global` of the library is never stricter for IPv4, but for relay anycast (192.88.99.0/24) and metadata.
    if not ip.is_global or ip.is_multicast:
        assert not guard.is_public(ip)
    for carried in (f"::ffff:{ip}", f"64:ff9b::{ip}"):
        assert guard.is_public(ipaddress.ip_address(carried)) == guard.is_public(ip)


@settings(deadline=None)
@given(st.ip_addresses(v=6))
def test_ipv6_outside_of_global_unicast_is_refused(ip):
    if guard.is_public(ip):
        assert (
            ip in ipaddress.ip_network("2000::/3")
            or ip.ipv4_mapped
            or ip in ipaddress.ip_network("64:ff9b::/96")
        )
        assert not ip.is_private
