"""Registration of the engine: its operations, its receiver of ticket changes, its worker process."""

from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    name = "runtime"

    def ready(self) -> None:
        """Load what registers itself."""
        import runtime.execution.operations
        import runtime.queue.process
        import runtime.triggers.tickets  # noqa: F401
