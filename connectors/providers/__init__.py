"""The foreign systems that csbot can talk to. A module of this package is a provider by being here.

It calls `register` once and declares its operations with `catalog.operation`; nothing else lists it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.catalog import Call, Shape

# SPEC section 10.
DEFAULT_CONCURRENCY = 4
# A person waits for the outcome of a check.
CHECK_SECONDS = 10.0


@dataclass(frozen=True)
class Check:
    """What came of trying a connection: `code` is an error code of SPEC section 13, None when all is well."""

    is_ok: bool
    message: str
    code: str | None = None
    status: int | None = None


@dataclass(frozen=True)
class Provider:
    """One foreign system: shapes of a connection's `config` and `credentials`, its limits, its own words.

    `check(call)` tries the connection without changing anything. `limits` are the defaults of its
    connections, in the shape of `services.Limits`. `texts` are what clients read about its own error codes,
    title and impact by language: `{"telegram.blocked": {"en": ("…", "…"), "cs": ("…", "…")}}`.
    """

    name: str
    title: Any
    config: type[Shape]
    credentials: type[Shape]
    check: Callable[[Call], Check]
    limits: Mapping[str, Any] = field(
        default_factory=lambda: {"rate": None, "concurrency": DEFAULT_CONCURRENCY}
    )
    texts: Mapping[str, Mapping[str, tuple[str, str]]] = field(default_factory=dict)


_providers: dict[str, Provider] = {}


def register(provider: Provider) -> Provider:
    """Add `provider` to those that connections may name. Raises ValueError for a second one of that name."""
    if provider.name in _providers:
        raise ValueError(f"Provider {provider.name} is registered twice.")
    _providers[provider.name] = provider
    return provider


def find(name: str) -> Provider | None:
    """Return the provider named `name`, or None when there is none."""
    return _providers.get(name)


def every() -> Iterator[Provider]:
    """Yield all providers in the order of their names."""
    for name in sorted(_providers):
        yield _providers[name]


def load() -> None:
    """Import every module of this package, so that each registers itself."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
