"""Reads settings from environment variables; a wrong value stops the start with one line that names it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from csbot.lib import hosts

T = TypeVar("T")
# Scheme, host (RFC 3986; a name of other letters in its ASCII form), port, path.
ADDRESS = r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?(/[a-z0-9._~%/-]*)?"


def stop(name: str, came: str, accepted: str) -> NoReturn:
    """End the process with one line: which variable, what came and what is accepted."""
    raise SystemExit(f"{name}: {came!r} is not accepted; expected {accepted}.")


def read(name: str, default: T, convert: Callable[[str], T], accepted: str, *, is_secret: bool = False) -> T:
    """Return variable `name` converted, or `default` when it is unset or empty. Stops the start on ValueError.

    `is_secret`: the value may hold a password, so the line does not repeat it.
    """
    raw = os.environ.get(name, "")
    if raw == "":
        return default
    try:
        return convert(raw)
    except ValueError:
        stop(name, "•••" if is_secret else raw, accepted)


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a converter for a whole number between `low` and `high`, both included."""

    def convert(raw: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", raw) or not low <= int(raw) <= high:
            raise ValueError(raw)
        return int(raw)

    return convert


def seconds_list(raw: str) -> list[int]:
    """`0,30,120` -> [0, 30, 120]; one to twenty whole numbers of seconds. Raises ValueError."""
    values = [whole(0, 86_400 * 7)(part.strip()) for part in raw.split(",")]
    if len(values) > 20:
        raise ValueError(raw)
    return values


def rate(raw: str) -> tuple[int, int]:
    """`50/200` -> (50, 200): events per second and burst; `0/0` is closed. Raises ValueError.

    A burst of 0 admits nothing whatever comes in per second, so beside a rate it is a mistake.
    """
    events, _, most = raw.partition("/")
    per_second, burst = whole(0, 1_000_000)(events.strip()), whole(0, 1_000_000)(most.strip())
    if per_second and not burst:
        raise ValueError(raw)
    return per_second, burst


def switch(raw: str) -> bool:
    """`on`, `1`, `true`, `yes` and their opposites. Raises ValueError."""
    words = {
        "on": True,
        "1": True,
        "true": True,
        "yes": True,
        "off": False,
        "0": False,
        "false": False,
        "no": False,
    }
    if raw.lower() not in words:
        raise ValueError(raw)
    return words[raw.lower()]


def allow_list(raw: str) -> list[tuple[str | None, str, int]]:
    """`host:port,acme=host:port` -> [(tenant slug or None, host, port)]. Raises ValueError.

    A host is a name or an address, IPv6 in brackets, and comes back as `hosts.canonical` spells it; patterns,
    networks and empty entries are refused, since they would match nothing.
    """
    return [_allowed(part.strip()) for part in raw.split(",")]


# As tenants' slugs are (`Tenant.slug`).
_SLUG = r"[A-Za-z0-9_-]{1,63}"
_ALLOWED = re.compile(rf"(?:({_SLUG})=)?(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:=]+)):([0-9]{{1,5}})")


def _allowed(entry: str) -> tuple[str | None, str, int]:
    found = _ALLOWED.fullmatch(entry)
    if found is None:
        raise ValueError(entry)
    slug, ipv6, name, port = found.groups()
    if ipv6 and ":" not in ipv6:
        raise ValueError(entry)
    return slug, hosts.canonical(ipv6 or name), whole(1, 65_535)(port)


def http_url(raw: str) -> str:
    """An absolute http or https address without a trailing slash. Raises ValueError.

    Paths are added to it, so it has neither query nor fragment; it is shown to everyone, so it has no account.
    """
    if not re.fullmatch(ADDRESS, raw, re.IGNORECASE):
        raise ValueError(raw)
    parts = urlsplit(raw)
    # Reading the port raises ValueError for one beyond 65535.
    if parts.port == 0:
        raise ValueError(raw)
    return parts.geturl().rstrip("/")


def database_url(raw: str) -> dict[str, Any]:
    """`postgresql://user:password@host:port/name?sslmode=…` -> Django's keys. Raises ValueError."""
    parts = urlsplit(raw)
    if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
        raise ValueError(raw)
    return {
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or 5432),
        "OPTIONS": dict(parse_qsl(parts.query)),
    }


def redis_url(raw: str) -> str:
    """A redis:// or rediss:// address. Raises ValueError."""
    parts = urlsplit(raw)
    # Reading the port raises ValueError for one that is no number or beyond 65535.
    if parts.scheme not in {"redis", "rediss"} or not parts.hostname or parts.port == 0:
        raise ValueError(raw)
    return raw


def smtp_url(raw: str) -> dict[str, Any]:
    """`smtp://…:587` (STARTTLS), `smtps://…:465` (TLS), `smtp+plain://…:25` -> Django's keys. Raises ValueError."""
    parts = urlsplit(raw)
    ports = {"smtp": 587, "smtps": 465, "smtp+plain": 25}
    if parts.scheme not in ports or not parts.hostname:
        raise ValueError(raw)
    return {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": parts.port or ports[parts.scheme],
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": parts.scheme == "smtp",
        "EMAIL_USE_SSL": parts.scheme == "smtps",
    }


def addresses(raw: str) -> list[str]:
    """`ops@acme.test,night@acme.test` -> list. Raises ValueError."""
    found = [part.strip() for part in raw.split(",")]
    if not all(re.fullmatch(r"[^@\s<>,]+@[^@\s<>,]+", address) for address in found):
        raise ValueError(raw)
    return found


def home_file(home: Path, name: str) -> dict[str, str]:
    """Return what the embedded start keeps in `<home>/<name>`, or an empty dict when nothing can be made of it.

    Stops the start when `home` is no folder, or one whose files we may not read.
    """
    try:
        return dict(json.loads((home / name).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return {}
    except OSError as error:
        stop("CSBOT_HOME", str(home), f"a folder to write in ({error.strerror})")
