"""An event that a sender offers, and whom it is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from automations.contract import Parameter


class Addressee(Protocol):
    """The published version of an automation that an event is for; `automations.services.WebhookTarget` is one."""

    @property
    def tenant_id(self) -> int: ...

    @property
    def tenant_timezone(self) -> str: ...

    @property
    def automation_id(self) -> int: ...

    @property
    def version_id(self) -> int: ...

    @property
    def trigger(self) -> Mapping[str, Any]: ...

    @property
    def parameters(self) -> Sequence[Parameter]: ...


@dataclass(frozen=True)
class Offer:
    """A body as it came: its bytes, its Content-Type and the headers that a run keeps."""

    to: Addressee
    raw: bytes
    content_type: str | None
    headers: Mapping[str, str]
