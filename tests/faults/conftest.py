"""Faults are played on the engine's own fixtures."""

from tests.runtime.conftest import enqueue, execute, publish

__all__ = ["enqueue", "execute", "publish"]
