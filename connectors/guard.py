"""Which addresses may be reached: resolve once, check every answer, hand back what was checked.

Invariant: a socket is opened only to an address that `resolve` returned. The check looks at resolved
addresses, so the spelling of a host (decimal, octal, a trailing dot, another script) makes no difference, and
a name that changes its answer after the check reaches nothing (SPEC section 10).
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from csbot.lib import hosts
from csbot.lib.errors import RetryableError, TerminalError

DEFAULT_PORTS = {"http": 80, "https": 443}

# IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890 and successors): what is not globally
# reachable. Spelled out, because what `ipaddress` calls private differs between Python's patch releases.
_REFUSED_V4 = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    )
)  # fmt: skip
# Only 2000::/3 is given out as global unicast (RFC 4291); these parts of it are special all the same:
# protocol assignments with Teredo and ORCHID, documentation.
_GLOBAL_V6 = ip_network("2000::/3")
_REFUSED_V6 = tuple(ip_network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))
# Cloud metadata and everything link-local: refused even when staff allows the host. AWS, GCP, Azure and
# OpenStack answer at 169.254.169.254, ECS and EKS in the same network; the others are Azure's wire server,
# Alibaba, Oracle, and the IPv6 forms of AWS and GCP.
_METADATA = tuple(
    ip_network(text)
    for text in (
        "169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fe80::/10",
        "fd00:ec2::/32", "fd20:ce::254/128",
    )
)  # fmt: skip
_NAT64 = ip_network("64:ff9b::/96")


@dataclass(frozen=True)
class Address:
    """One checked address: what `socket.socket` and `connect` need."""

    family: int
    sockaddr: tuple[Any, ...]


@dataclass(frozen=True)
class Target:
    """Where a URL leads: scheme, ASCII host in lower case, port. URLs of one origin have equal targets."""

    scheme: str
    host: str
    port: int

    @property
    def origin(self) -> str:
        """The origin as the beginning of a URL, always with its port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def target_of(url: str) -> Target:
    """Return where `url` leads. Raises TerminalError `input.invalid` for what is no plain http(s) address.

    User names in the address are refused: they hide the real host from a reader and belong into credentials.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise _invalid(f"The address cannot be read: {error}.") from error
    if parts.scheme not in DEFAULT_PORTS:
        raise _invalid("The address has to begin with http:// or https://.")
    if "@" in parts.netloc or "\\" in parts.netloc:
        raise _invalid("The address may hold neither a user name nor a backslash in its host.")
    try:
        ascii_host = hosts.canonical(host)
    except ValueError as error:
        raise _invalid(f"The address has no usable host: {error}.") from error
    return Target(parts.scheme, ascii_host, DEFAULT_PORTS[parts.scheme] if port is None else port)


def resolve(target: Target, tenant_slug: str, *, until: float) -> list[Address]:
    """Return the addresses of `target`, all of them checked, in the order of the resolver.

    `until` is a value of `time.monotonic()` that ends the waiting for DNS. Raises RetryableError `net.dns`
    when the name does not resolve, TerminalError `input.invalid` when any answer may not be reached.
    """
    answers = _look_up(target, until)
    is_allowed = _is_allowed(target, tenant_slug)
    for answer in answers:
        ip = ipaddress.ip_address(answer.sockaddr[0].partition("%")[0])
        if is_metadata(ip) or (not is_allowed and not is_public(ip)):
            raise TerminalError(
                "input.invalid",
                f"The host {target.host} may not be reached: it leads to a private, loopback, link-local or "
                "reserved address.",
                trace={"address": str(ip)},
            )
    return answers


def is_public(ip: IPv4Address | IPv6Address) -> bool:
    """True when `ip` is globally reachable; an IPv6 address that carries an IPv4 one is no better than it."""
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _REFUSED_V4)
    carried = _carried(ip)
    if carried is not None and not is_public(carried):
        return False
    # The system turns these two into plain IPv4; they lie outside of the global unicast range.
    if ip.ipv4_mapped or ip in _NAT64:
        return True
    return ip in _GLOBAL_V6 and not any(ip in network for network in _REFUSED_V6)


def is_metadata(ip: IPv4Address | IPv6Address) -> bool:
    """True for addresses that no setting opens: cloud metadata and everything link-local."""
    carried = _carried(ip) if isinstance(ip, IPv6Address) else None
    return any(address in network for network in _METADATA for address in (ip, carried or ip))


def _carried(ip: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address inside an IPv6 one (mapped, compatible, 6to4, NAT64, ISATAP), or None."""
    if ip.ipv4_mapped or ip.sixtofour:
        return ip.ipv4_mapped or ip.sixtofour
    low = int(ip) & 0xFFFF_FFFF
    is_compatible = int(ip) >> 32 == 0 and low > 1
    is_isatap = int(ip) >> 32 & 0xFDFF_FFFF == 0x5EFE
    return IPv4Address(low) if ip in _NAT64 or is_compatible or is_isatap else None


def _is_allowed(target: Target, tenant_slug: str) -> bool:
    """True when staff lets this tenant reach a private host and port.

    CSBOT_OUTBOUND_ALLOW holds hosts as `hosts.canonical` spells them, as a target does.
    """
    return any(
        slug in (None, tenant_slug) and host == target.host and port == target.port
        for slug, host, port in settings.CSBOT_OUTBOUND_ALLOW
    )


def _look_up(target: Target, until: float) -> list[Address]:
    """Ask the resolver in a thread of its own, since `getaddrinfo` knows no deadline."""
    answers: list[Address] = []
    failures: list[Exception] = []

    def ask() -> None:
        try:
            found = socket.getaddrinfo(
                target.host, target.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )
        except (OSError, UnicodeError) as error:
            failures.append(error)
        else:
            answers.extend(Address(family, sockaddr) for family, _type, _proto, _name, sockaddr in found)

    asking = threading.Thread(target=ask, name="dns", daemon=True)
    asking.start()
    asking.join(max(0.0, until - time.monotonic()))
    if asking.is_alive():
        raise RetryableError("net.dns", f"The name {target.host} was not resolved in time; nothing was sent.")
    if not answers:
        reason = failures[0] if failures else "no address"
        raise RetryableError(
            "net.dns", f"The name {target.host} does not resolve ({reason}); nothing was sent."
        )
    return answers


def _invalid(message: str) -> TerminalError:
    return TerminalError("input.invalid", message)
