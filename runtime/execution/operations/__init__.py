"""Built-in operations: they run inside the transaction of their step row, so each happens exactly once."""

from runtime.execution.operations import data, flow, incident, ticket

__all__ = ["data", "flow", "incident", "ticket"]
