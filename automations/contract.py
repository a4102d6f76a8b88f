"""The contract of a trigger: which parameters it takes, where in the body they lie, of what type (SPEC 2.2).

Pure. A value is converted when nothing is lost by it; an optional one that cannot be is treated as not
arrived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from decimal import Decimal
from typing import Any

from automations import body, dates, paths, sample_body, values
from automations.body import BodyError, Note
from automations.faults import Fault, Faults
from automations.names import name_fault
from automations.values import MISSING

TYPES = ("string", "integer", "number", "boolean", "date", "object", "array")
# A contract is checked for every event that comes.
MAX_PARAMS = 200


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value that a trigger takes out of the body: `{{name}}` in templates, in conditions also its id."""

    id: str
    name: str
    path: str
    type: str
    required: bool

    def dump(self) -> dict[str, Any]:
        """Return the parameter as it stands in a trigger."""
        return {
            "id": self.id,
            "name": self.name,
            "path": self.path,
            "type": self.type,
            "required": self.required,
        }


@dataclass(frozen=True, slots=True)
class Values:
    """The parameters that arrived, by name, and what the run's log says of the others."""

    values: dict[str, Any]
    notes: list[Note] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a body does not fulfil the contract: every required parameter that is missing or of a wrong type.

    `missing` holds `{"param", "path", "type"}`, `invalid` also `"got"`, the kind of what came and never its
    value.
    """

    missing: list[dict[str, str]]
    invalid: list[dict[str, str]]


class ContractError(Exception):
    """Parameters that cannot be a contract; `faults` are `{"pointer", "message"}` relative to their array."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(f"{fault.pointer} {fault.message}" for fault in faults))
        self.faults = [{"pointer": fault.pointer, "message": fault.message} for fault in faults]


def parse_params(raw: Any) -> list[Parameter]:
    """Return the parameters of a trigger. Raises ContractError with every fault.

    `id` and `path` are the name where they are left out, `type` is `string`, `required` false.
    """
    faults = Faults()
    params = read_params(raw, faults, "")
    if faults.found:
        raise ContractError(faults.found)
    return params


def read_params(raw: Any, faults: Faults, pointer: str) -> list[Parameter]:
    """Return the parameters that can be read, and add a fault for each thing that is wrong with the array."""
    items = faults.array(raw, pointer)
    if len(items) > MAX_PARAMS:
        faults.add(pointer, "limit.params", f"Expected at most {MAX_PARAMS} parameters, came {len(items)}.")
        items = items[:MAX_PARAMS]
    params: list[Parameter] = []
    taken: dict[str, set[str]] = {"id": set(), "name": set()}
    for index, item in enumerate(items):
        place = f"{pointer}/{index}"
        param = _read_param(item, faults, place)
        if param is None:
            continue
        for key, value in (("id", param.id), ("name", param.name)):
            if value in taken[key]:
                faults.add(f"{place}/{key}", "id.duplicate", f"Another parameter has the {key} {value!r}.")
            taken[key].add(value)
        params.append(param)
    return params


def _read_param(raw: Any, faults: Faults, pointer: str) -> Parameter | None:
    part = faults.object(raw, pointer, known=("id", "name", "path", "type", "required"))
    if part is None:
        return None
    name = faults.text(part, "name", pointer, required=True)
    if name is None:
        return None
    told = name_fault(name)
    if told:
        faults.add(f"{pointer}/name", "name.invalid", told)
    path = faults.text(part, "path", pointer, blank=True)
    if path is not None and len(paths.split(path)) > paths.MAX_KEYS:
        faults.add(f"{pointer}/path", "value.invalid", f"Expected at most {paths.MAX_KEYS} keys in a path.")
    return Parameter(
        id=faults.text(part, "id", pointer) or name,
        name=name,
        path=paths.join((name,)) if path is None else path,
        type=faults.choice(part, "type", pointer, TYPES) or "string",
        required=faults.boolean(part, "required", pointer) or False,
    )


def lookup_path(path: str, body: Any) -> Any:
    """Return what lies at the dotted path of the body, or MISSING; the empty path is the whole body."""
    return paths.find(body, paths.split(path))


def extract(params: Sequence[Parameter], body: Any, *, zone: tzinfo) -> Values | Refusal:
    """Return the values of the parameters, or why the body is refused, naming all that is wrong at once.

    `zone` is the tenant's, for dates that come without one. Null counts as not arrived.
    """
    arrived: dict[str, Any] = {}
    notes: list[Note] = []
    refusal = Refusal([], [])
    for param in params:
        told = {"param": param.name, "path": param.path, "type": param.type}
        found = lookup_path(param.path, body)
        if found is MISSING or found is None:
            if param.required:
                refusal.missing.append(told)
            continue
        value, more = converted(found, param.type, zone)
        if value is not MISSING:
            arrived[param.name] = value
            notes += more
        elif param.required:
            refusal.invalid.append({**told, "got": values.kind(found)})
        else:
            notes.append(Note("param.notArrived", {**told, "got": values.kind(found)}))
    return refusal if refusal.missing or refusal.invalid else Values(arrived, notes)


def sample(params: Sequence[Parameter]) -> Any:
    """Return a body that fulfils the contract; texts in it are the names of their parameters."""
    return sample_body.build([(param.path, param.type, param.name) for param in params])


def converted(value: Any, type_: str, zone: tzinfo) -> tuple[Any, list[Note]]:
    """Return the value as one of TYPES, or MISSING when something would be lost, and notes of reading it."""
    if type_ in ("object", "array"):
        return _structure(value, type_)
    if type_ == "string":
        return _string(value), []
    if type_ == "boolean":
        answer = values.boolean_in(value)
        return MISSING if answer is None else answer, []
    if type_ == "date":
        text = dates.iso_text(value, zone) if isinstance(value, str) else None
        return MISSING if text is None else text, []
    number = values.number_in(value)
    if number is None or (type_ == "integer" and number != _whole(number)):
        return MISSING, []
    return int(number) if type_ == "integer" else number, []


def _string(value: Any) -> Any:
    return MISSING if isinstance(value, dict | list) else values.text_of(value)


def _whole(number: values.Number) -> values.Number:
    return number.to_integral_value() if isinstance(number, Decimal) else int(number)


def _structure(value: Any, type_: str) -> tuple[Any, list[Note]]:
    """Return an object or array; a text may hold it as JSON, as in forms and in Shoptet's `eventInstance`."""
    notes: list[Note] = []
    if isinstance(value, str):
        try:
            read = body.read_json(value)
        except BodyError:
            return MISSING, []
        value, notes = read.value, read.notes
    return (value, notes) if values.kind(value) == type_ else (MISSING, [])


def by_field_id(params: Sequence[Parameter]) -> Mapping[str, Parameter]:
    """Return the parameters by id and by name; an id goes before another one's name (SPEC section 3.2)."""
    return {param.name: param for param in params} | {param.id: param for param in params}
