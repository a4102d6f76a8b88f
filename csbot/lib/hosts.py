"""Names and addresses of hosts in the one spelling by which they are compared. Pure."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

import idna

# RFC 1035 section 2.3.4; the underscore is no letter of a host's name, but it is used.
LONGEST_NAME = 253
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")


def canonical(host: str) -> str:
    """Return `host` as DNS and TLS see it: ASCII, lower case, no dot at the end; IPv6 in its short form.

    An IPv6 address comes without brackets. Raises ValueError for what is neither a name nor an address.
    """
    host = host.rstrip(".").lower()
    if ":" in host:
        return _ipv6(host)
    # Also before the conversion, which takes quadratic time.
    if len(host) > LONGEST_NAME:
        raise ValueError("it is too long for a name")
    try:
        ascii_host = host if host.isascii() else idna.encode(host, uts46=True).decode()
    except UnicodeError as error:
        raise ValueError("it is no valid name") from error
    if len(ascii_host) > LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in ascii_host.split(".")):
        raise ValueError("it is empty or cannot be a name")
    return ascii_host


def _ipv6(host: str) -> str:
    try:
        literal = IPv6Address(host)
    except ValueError as error:
        raise ValueError("it is no IPv6 address") from error
    if literal.scope_id is not None:
        raise ValueError("it names a network interface of this machine")
    return str(literal)
