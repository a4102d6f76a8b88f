"""From a step of the tree to what its operation is given: templates, fields of conditions, keys, tickets, accounts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from automations import expressions, paths
from automations.conditions import Found, Rule
from automations.contract import Parameter
from automations.expressions import MISSING, TemplateError
from automations.steps import ActionStep
from connectors.catalog import Operation
from connectors.models import Connection
from csbot.lib.errors import TerminalError
from runtime.execution.context import Variables
from runtime.models import Run

# Length of the column that keeps an idempotency key; services take less, often 255.
MAX_KEY = 500
# What a condition may ask a ticket for by its plain name (SPEC section 3.2).
TICKET_FIELDS = ("status", "type", "tags", "closed", "assignee", "group", "title")


class Rendering:
    """Renders templates of one run; dates are printed in the tenant's zone and language."""

    def __init__(self, run: Run, variables: Variables, parameters: Sequence[Parameter]) -> None:
        self._run = run
        self._variables = variables
        self._parameters = {parameter.id: parameter for parameter in parameters}
        self.zone = ZoneInfo(run.tenant.timezone)

    def value(self, template: Any) -> Any:
        """Return the rendered template, MISSING for a lone placeholder that did not arrive. Raises TerminalError."""
        try:
            return expressions.render(
                template, self._lookup, zone=self.zone, language=self._run.tenant.language
            )
        except TemplateError as error:
            raise TerminalError("input.invalid", error.message) from error

    def inputs(self, step: ActionStep, operation: Operation) -> dict[str, Any]:
        """Return the step's inputs; what did not arrive is left out. Raises TerminalError `input.invalid`."""
        raw = {key: step.inputs[key] for key in step.inputs if key not in operation.raw_inputs}
        rendered: dict[str, Any] = self.value(raw)
        for key in operation.raw_inputs & step.inputs.keys():
            rendered[key] = self._path(step.inputs[key])
        if step.ticket is not None:
            rendered["ticket"] = self._given(step.ticket, "ticket")
        if "idempotencyKey" in step.inputs:
            rendered["idempotencyKey"] = self.given_key(step)
        return rendered

    def given_key(self, step: ActionStep) -> str | None:
        """Return the idempotency key that the step itself gives, None when it gives none.

        Raises TerminalError when a placeholder of it did not arrive: it would be a key shared with everyone else.
        """
        template = step.inputs.get("idempotencyKey")
        if template is None:
            return None
        self._expect_arrived(template, "idempotencyKey")
        key = self.value(template)
        if not isinstance(key, str | int) or isinstance(key, bool) or not 0 < len(str(key)) <= MAX_KEY:
            raise TerminalError(
                "input.invalid", f"`idempotencyKey` has to be a text of 1 to {MAX_KEY} characters."
            )
        return str(key)

    def rules(self, rules: Sequence[Rule]) -> list[Rule]:
        """Return the rules of a condition with their values rendered."""
        return [replace(rule, value=self.value(rule.value)) for rule in rules]

    def field(self, field_id: str) -> Found:
        """Return what a condition's field holds: a parameter by its id, a ticket's field, an output, a name."""
        parameter = self._parameters.get(field_id)
        if parameter is not None:
            return Found(self._lookup(paths.join((parameter.name,))), parameter.type, parameter.name)
        ticket = self._variables.get("ticket")
        if isinstance(ticket, Mapping) and not field_id.startswith("ticket."):
            found = self._of_ticket(ticket, field_id)
            if found is not None:
                return found
        return Found(self._lookup(field_id))

    def _of_ticket(self, ticket: Mapping[str, Any], field_id: str) -> Found | None:
        for definition in self._variables.ticket_fields():
            if definition["id"] == field_id:
                value = ticket["fields"].get(definition["key"], MISSING)
                return Found(value, definition["type"], definition["key"])
        if field_id in TICKET_FIELDS and self._run.trigger == Run.Trigger.TICKET:
            return Found(ticket[field_id])
        return None

    def account(self, step: ActionStep, operation: Operation) -> Connection | None:
        """Return the connection that the step names by name or id; None where its operation needs none.

        Raises TerminalError `missing.connection`.
        """
        if operation.provider is None:
            return None
        reference = self.connection_of(step)
        owned = Connection.objects.of(self._run.tenant).filter(provider=operation.provider)
        found = owned.filter(name=reference).first()
        if found is None and _is_uuid(reference):
            found = owned.filter(public_id=reference).first()
        if found is None:
            raise TerminalError(
                "missing.connection",
                f"There is no connection {reference!r} of provider {operation.provider}; "
                "make one with this name or choose another in the step.",
            )
        return found

    def connection_of(self, step: ActionStep) -> str:
        """Return the name or id that the step gives for its connection, the empty text when it gives none."""
        return str(self._given(step.connection or "", "connection"))

    def _given(self, template: Any, name: str) -> Any:
        value = self.value(template)
        if value is MISSING:
            raise TerminalError("input.invalid", f"`{name}` of the step did not arrive.")
        return value

    def _expect_arrived(self, template: Any, name: str) -> None:
        """Raise TerminalError when a placeholder did not arrive: the key or the path would be a shared one."""
        for placeholder in expressions.placeholders(template) if isinstance(template, str) else []:
            has_default = any(call.name == "default" for call in placeholder.filters)
            if not has_default and self._lookup(placeholder.path) in (MISSING, None, ""):
                raise TerminalError(
                    "input.invalid",
                    f"`{name}` needs {placeholder.path}, which did not arrive; nothing was sent.",
                )

    def _path(self, template: Any) -> Any:
        if not isinstance(template, str):
            return template
        self._expect_arrived(template, "path")
        try:
            return expressions.render_path(
                template, self._lookup, zone=self.zone, language=self._run.tenant.language
            )
        except TemplateError as error:
            raise TerminalError("input.invalid", error.message) from error

    def _lookup(self, path: str) -> Any:
        return expressions.resolve(self._variables, path)


def faults_of(error: ValidationError) -> str:
    """Return one sentence for all that is wrong with a step's inputs, without their values."""
    faults = [
        f"`{'.'.join(str(part) for part in fault['loc']) or 'inputs'}`: {fault['msg']}"
        for fault in error.errors(include_input=False, include_url=False)
    ]
    return "The inputs of this step do not fit: " + "; ".join(faults) + "."


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
