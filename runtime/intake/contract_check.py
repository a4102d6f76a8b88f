"""What an edited contract would do to the events that really came (SPEC section 13, `contract/check`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from automations import contract
from automations.contract import ContractError, Parameter, Refusal
from automations.models import Automation
from automations.values import MISSING
from csbot.lib.errors import RequestRefused
from runtime.models import Run, RunData

MAX_LAST = 1_000
# Bodies held in memory at once; each may have a megabyte.
CHUNK = 20


def check(automation: Automation, params: Any, last: int) -> dict[str, Any]:
    """Lay the contract `params` over the bodies of the automation's last webhook runs.

    Returns `{"checked", "refused": [{"runId", "missing", "invalid"}], "notArrived": {"name": n}, "neverSeen": [path]}`;
    `notArrived` names the parameters that some bodies lack, `neverSeen` the paths that none has. Raises RequestRefused
    400 with a pointer into `/params` for each fault.
    """
    parameters = _parameters(params)
    zone = ZoneInfo(automation.tenant.timezone)
    checked = 0
    refused = []
    not_arrived = dict.fromkeys((parameter.name for parameter in parameters), 0)
    unseen = {parameter.path for parameter in parameters}
    bodies = (
        RunData.objects.of(automation.tenant_id)
        .filter(run__automation=automation, run__trigger=Run.Trigger.WEBHOOK, input__has_key="body")
        .order_by("-run_id")
        .values_list("run__public_id", "input")[: min(last, MAX_LAST)]
    )
    for run_id, given in bodies.iterator(chunk_size=CHUNK):
        checked += 1
        outcome = contract.extract(parameters, given["body"], zone=zone)
        if isinstance(outcome, Refusal):
            refused.append({"runId": str(run_id), "missing": outcome.missing, "invalid": outcome.invalid})
        for parameter in parameters:
            found = contract.lookup_path(parameter.path, given["body"])
            if found is not MISSING:
                unseen.discard(parameter.path)
            if not _arrives(parameter, found, zone):
                not_arrived[parameter.name] += 1
    return {
        "checked": checked,
        "refused": refused,
        "notArrived": {name: times for name, times in not_arrived.items() if times},
        "neverSeen": [path for path in dict.fromkeys(one.path for one in parameters) if path in unseen],
    }


def _arrives(parameter: Parameter, found: Any, zone: ZoneInfo) -> bool:
    """Say whether the tree would have the parameter; null and an optional one of a wrong type have not arrived."""
    if found is MISSING or found is None:
        return False
    return parameter.required or contract.converted(found, parameter.type, zone)[0] is not MISSING


def _parameters(params: Any) -> Sequence[Parameter]:
    try:
        return contract.parse_params(params)
    except ContractError as error:
        errors = [{**fault, "pointer": f"/params{fault['pointer']}"} for fault in error.faults]
        raise RequestRefused("contract.invalid", "The contract has faults.", errors=errors) from error
