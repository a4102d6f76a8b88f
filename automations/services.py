"""Every write of automations, and what the engine reads of published ones.

A draft is edited, a version never is: publishing copies the draft under the next number, and runs stay with
the version they began with. Each write locks the automation's row, and its UPDATE is guarded by the revision
it read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from django.db import IntegrityError, transaction
from django.db.models import F, Max, ProtectedError
from django.db.models.functions import Now

from automations import exchange, lint, references, schedule, tokens, tree, trigger_secrets, webhook
from automations.check import Checked, check, refuse
from automations.contract import Parameter
from automations.faults import Fault
from automations.models import Automation, AutomationVersion, Trigger
from automations.tree import Tree
from automations.trigger_secrets import TriggerSecrets
from csbot.lib.errors import RequestRefused
from csbot.lib.json import dumps, loads
from csbot.lib.prepared import Statement
from tickets import audit
from tickets.events import Actor
from tickets.models import Tenant

MAX_NAME = 200
OVERLAP_SECONDS = 86_400
# Longer than any sender needs to be told of its new address; a forgotten old one ends some day.
MAX_OVERLAP_SECONDS = 30 * 86_400
# Parsed trees of versions kept by each process; a tree of fifty steps is about 100 KiB of Python objects.
KEPT_TREES = 256


@dataclass(frozen=True)
class Saved:
    """An automation after a write of its draft, with what the check says of it."""

    automation: Automation
    faults: list[Fault]
    warnings: list[lint.Warning]


def create(tenant: Tenant, actor: Actor, raw: Mapping[str, Any]) -> Saved:
    """Make a draft of `{"name", "trigger", "steps"}`. Raises RequestRefused 400 that lists every fault."""
    name = _name(raw.get("name"))
    checked = check(tenant, raw)
    refuse(checked.faults)
    return _create(tenant, actor, name, checked)


def import_(tenant: Tenant, actor: Actor, raw: Mapping[str, Any]) -> Saved:
    """Make a draft of what `exchange.exported` gave, in this or another tenant; faults are told, not refused.

    Connections are found by their names; one that this tenant lacks is a fault of the draft, as is a secret,
    which no export holds. Raises RequestRefused 400 for what is no export at all.
    """
    exchange.refuse_other_formats(raw)
    return _create(tenant, actor, _name(raw.get("name")), check(tenant, raw))


def save(
    automation: Automation, actor: Actor, raw: Mapping[str, Any], *, if_match: frozenset[int] | None = None
) -> Saved:
    """Change name, trigger or steps of the draft; what is not given stays, what is as before is no change.

    Where trigger or steps are given, the whole tree is checked. Raises RequestRefused 400 that lists every
    fault, 412 when the present revision is none of `if_match`.
    """
    with transaction.atomic():
        row = _locked(automation, if_match)
        before, kept = {"name": row.name, **row.draft}, _secrets_of(row)
        values: dict[str, Any] = {"name": _name(raw["name"])} if "name" in raw else {}
        checked = check(row.tenant, {**row.draft, **raw}, kept)
        if "trigger" in raw or "steps" in raw:
            refuse(checked.faults)
            values |= _draft_values(row, checked)
        after = {"name": values.get("name", row.name), **values.get("draft", row.draft)}
        changed = [key for key in after if not _same(after[key], before[key])]
        if changed or checked.secrets != kept:
            _write(row, **values)
            told = [{key: document[key] for key in changed} for document in (before, after)]
            _audit(row, actor, "changed", *told)
        return Saved(row, checked.faults, checked.warnings)


def save_draft(
    automation: Automation, actor: Actor, raw: Mapping[str, Any], *, if_match: frozenset[int] | None = None
) -> Saved:
    """Keep an unfinished tree `{"trigger", "steps"}` for an editor and tell its faults and warnings.

    Raises RequestRefused 400 only for what cannot be kept at all (`automations.check`), 412 as `save`.
    """
    with transaction.atomic():
        row = _locked(automation, if_match)
        checked = check(row.tenant, {**row.draft, **raw}, _secrets_of(row))
        _write(row, **_draft_values(row, checked))
        _audit(row, actor, "draft", None, {"revision": row.revision})
        return Saved(row, checked.faults, checked.warnings)


def restore(version: AutomationVersion, actor: Actor, *, if_match: frozenset[int] | None = None) -> Saved:
    """Make a version's tree and secrets the draft again; what runs stays until that is published.

    Raises RequestRefused 412 as `save`.
    """
    with transaction.atomic():
        row = _locked(version.automation, if_match)
        checked = check(row.tenant, version.tree, _unsealed(version.secrets, row))
        _write(row, **_draft_values(row, checked))
        _audit(row, actor, "restored", None, {"version": version.number})
        return Saved(row, checked.faults, checked.warnings)


def look(automation: Automation) -> Saved:
    """Say what the check says of the draft as it is stored; changes nothing."""
    checked = check(automation.tenant, automation.draft, _secrets_of(automation))
    return Saved(automation, checked.faults, checked.warnings)


def delete(automation: Automation, actor: Actor) -> None:
    """Delete an automation that never ran and that no other one calls.

    Raises RequestRefused 409 with `usedBy`.
    """
    try:
        with transaction.atomic():
            row = _locked(automation, None)
            callers = references.callers_of(row)
            if callers:
                raise _used(callers)
            _audit(row, actor, "deleted", {"name": row.name, **row.draft}, None)
            row.delete()
    except (ProtectedError, IntegrityError) as error:
        # Runs are history that names its automation; one may also arrive between the look and the deletion.
        raise _used(["runs"]) from error


def publish(automation: Automation, actor: Actor, *, if_match: frozenset[int] | None = None) -> Automation:
    """Make the draft the version that runs and the automation active; return it with its `published` version.

    A draft equal to the published version makes no new number, so that publishing twice is publishing once.
    Raises RequestRefused 400 that lists the draft's faults, 412 as `save`.
    """
    with transaction.atomic():
        row = _locked(automation, if_match)
        refuse(look(row).faults, "The draft has faults; publishing needs one without.")
        version = row.published
        if version is None or has_unpublished_changes(row):
            version = _next_version(row, actor)
            _set_trigger(row)
        elif row.state == Automation.State.ACTIVE:
            return row
        before = _standing(row)
        _write(row, published=version, state=Automation.State.ACTIVE)
        _audit(row, actor, "published", before, _standing(row))
        return row


def has_unpublished_changes(automation: Automation) -> bool:
    """Say whether the draft is not what the published version holds (without one: always)."""
    version = automation.published
    if version is None or not _same(version.tree, automation.draft):
        return True
    return _unsealed(version.secrets, automation) != _secrets_of(automation)


def pause(automation: Automation, actor: Actor) -> Automation:
    """Stop a published automation; a paused one stays so. Raises RequestRefused 409 for a draft."""
    return _set_state(automation, actor, Automation.State.PAUSED, "paused")


def resume(automation: Automation, actor: Actor) -> Automation:
    """Let a paused automation go on; one that is active stays so. Raises RequestRefused 409 for a draft."""
    with transaction.atomic():
        resumed = _set_state(automation, actor, Automation.State.ACTIVE, "resumed")
        # What the clock would have started during the pause is not made up for.
        Trigger.objects.of(resumed.tenant_id).filter(automation=resumed, kind="schedule").update(
            next_due_at=_first_due_at(resumed.published.tree, resumed.tenant) if resumed.published else None
        )
        return resumed


def rotate_token(automation: Automation, actor: Actor, *, overlap_seconds: int = OVERLAP_SECONDS) -> str:
    """Make a new token and return it; the older ones end after the overlap (0: now).

    Raises RequestRefused 404 where there is no webhook, 400 for an overlap that is not from 0 to thirty days.
    """
    if not 0 <= overlap_seconds <= MAX_OVERLAP_SECONDS:
        message = f"Expected seconds from 0 to {MAX_OVERLAP_SECONDS}, came {overlap_seconds}."
        raise RequestRefused(
            "overlap.invalid", message, errors=[{"pointer": "/overlapSec", "message": message}]
        )
    with transaction.atomic():
        row = _locked(automation, None)
        if webhook.trigger_of(row) is None:
            raise webhook.none()
        token = tokens.rotate(row, timedelta(seconds=overlap_seconds))
        _audit(row, actor, "webhook-rotated", None, {"overlapSec": overlap_seconds})
    return token


@dataclass(frozen=True)
class WebhookTarget:
    """What a webhook's token leads to: everything that taking an event in needs.

    `trigger` is the published version's, with marks in place of its secrets; `parameters` are its contract.
    Both are shared between requests, so nobody may change them.
    """

    tenant_id: int
    tenant_slug: str
    tenant_language: str
    tenant_timezone: str
    automation_id: int
    automation_public_id: uuid.UUID
    automation_name: str
    is_paused: bool
    version_id: int
    version_number: int
    trigger: Mapping[str, Any]
    parameters: tuple[Parameter, ...]
    sealed_secrets: str = field(repr=False)

    def secrets(self) -> TriggerSecrets:
        """Return the secrets of signature and GET challenge, unsealed."""
        return trigger_secrets.unseal(
            self.sealed_secrets, tenant_id=self.tenant_id, automation_id=self.automation_public_id
        )


# What a token leads to, in one look: unknown, ended, not published, no webhook any more and suspended are all
# no row.
_WEBHOOK_OF = Statement("""
SELECT tenant.id, tenant.slug, tenant.language, tenant.timezone,
       automation.id, automation.public_id, automation.name, automation.state = 'paused',
       version.id, version.number, version.tree -> 'trigger', version.secrets
FROM automations_webhooktoken token
JOIN automations_automation automation ON automation.id = token.automation_id
JOIN automations_automationversion version ON version.id = automation.published_id
JOIN tickets_tenant tenant ON tenant.id = token.tenant_id
WHERE token.digest = %(digest)s
  AND (token.expires_at IS NULL OR token.expires_at > clock_timestamp())
  AND automation.state IN ('active', 'paused')
  AND version.tree #>> '{trigger,kind}' = 'webhook'
  AND tenant.suspended_at IS NULL
""")
# Its columns before the trigger are the first fields of WebhookTarget.
_FACTS = [fact.name for fact in fields(WebhookTarget)][:10]


def webhook_of(token: str) -> WebhookTarget | None:
    """Return where the token leads, by one query, or None when it leads nowhere (SPEC section 2: 404)."""
    found = _WEBHOOK_OF.row(digest=tokens.digest_of(token))
    if found is None:
        return None
    *facts, trigger_text, sealed_secrets = found
    trigger, parameters = _read_trigger(trigger_text)
    named = dict(zip(_FACTS, facts, strict=True))
    return WebhookTarget(**named, trigger=trigger, parameters=parameters, sealed_secrets=sealed_secrets)


def tree_of(version: AutomationVersion) -> Tree:
    """Return the parsed tree of a version; it never changes, so each process reads it once."""
    return _read_tree(version.tenant_id, version.pk)


@lru_cache(maxsize=KEPT_TREES)
def _read_tree(tenant_id: int, version_id: int) -> Tree:
    rows = AutomationVersion.objects.of(tenant_id)
    return tree.parse_stored(rows.values_list("tree", flat=True).get(pk=version_id))


@lru_cache(maxsize=KEPT_TREES)
def _read_trigger(text: str) -> tuple[Mapping[str, Any], tuple[Parameter, ...]]:
    trigger = loads(text)
    return trigger, tuple(webhook.parameters(trigger))


def _create(tenant: Tenant, actor: Actor, name: str, checked: Checked) -> Saved:
    row = Automation(tenant=tenant, name=name)
    with transaction.atomic():
        for key, value in _draft_values(row, checked).items():
            setattr(row, key, value)
        row.save(force_insert=True)
        _give_address(row)
        _audit(row, actor, "created", None, {"name": name, **row.draft})
    return Saved(row, checked.faults, checked.warnings)


def _draft_values(row: Automation, checked: Checked) -> dict[str, Any]:
    sealed = trigger_secrets.seal(checked.secrets, tenant_id=row.tenant_id, automation_id=row.public_id)
    return {"draft": checked.document, "secrets": sealed}


def _locked(automation: Automation, if_match: frozenset[int] | None) -> Automation:
    """Return the row locked for writing. Raises RequestRefused 404 when it is gone, 412 when it is newer."""
    # Without a join: after waiting for a lock PostgreSQL reads this row anew, but not the rows joined to it.
    rows = Automation.objects.of(automation.tenant_id).select_for_update(no_key=True)
    row = rows.filter(pk=automation.pk).first()
    if row is None:
        raise RequestRefused("not_found", "There is no such automation any more.", status=404)
    if if_match is not None and row.revision not in if_match:
        message = "The automation was changed meanwhile; read it again."
        headers = {"ETag": f'"{row.revision}"'}
        raise RequestRefused("automation.stale", message, status=412, headers=headers)
    return row


def _write(row: Automation, **values: Any) -> None:
    """Write the values and the next revision into the locked row, and into `row` as well."""
    rows = Automation.objects.of(row.tenant_id).filter(pk=row.pk, revision=row.revision)
    if rows.update(**values, revision=F("revision") + 1, updated_at=Now()) != 1:
        raise RuntimeError(f"Automation {row.public_id} changed under its lock.")
    row.refresh_from_db(fields=[*values, "revision", "updated_at"])
    _give_address(row)


def _set_state(automation: Automation, actor: Actor, state: str, deed: str) -> Automation:
    with transaction.atomic():
        row = _locked(automation, None)
        if row.published is None:
            message = "The automation has not been published yet."
            raise RequestRefused("automation.draft", message, status=409)
        if row.state != state:
            before = _standing(row)
            _write(row, state=state)
            _audit(row, actor, deed, before, _standing(row))
        return row


def _next_version(row: Automation, actor: Actor) -> AutomationVersion:
    versions = AutomationVersion.objects.of(row.tenant_id)
    last = versions.filter(automation=row).aggregate(last=Max("number"))["last"] or 0
    return versions.create(
        tenant_id=row.tenant_id,
        automation=row,
        number=last + 1,
        tree=row.draft,
        secrets=row.secrets,
        created_by=actor.name[:200],
    )


def _set_trigger(row: Automation) -> None:
    """Make what starts the automation what its draft, published now, says."""
    kind = row.draft["trigger"]["kind"]
    Trigger.objects.of(row.tenant_id).update_or_create(
        automation=row,
        defaults={
            "tenant_id": row.tenant_id,
            "kind": kind,
            "next_due_at": _first_due_at(row.draft, row.tenant),
        },
    )


def _first_due_at(tree: Mapping[str, Any], tenant: Tenant) -> Any:
    """Return when the clock starts it first: a poll now, a schedule at its next local time, anything else never."""
    trigger = tree["trigger"]
    if trigger["kind"] == "poll":
        return Now()
    if trigger["kind"] == "schedule":
        return schedule.next_at(trigger["cron"], datetime.now(UTC), ZoneInfo(tenant.timezone))
    return None


def _give_address(row: Automation) -> None:
    """Give a webhook automation its token, so that the address is known from the draft on."""
    if webhook.trigger_of(row) is not None:
        tokens.ensure(row)


def _secrets_of(row: Automation) -> TriggerSecrets:
    return _unsealed(row.secrets, row)


def _unsealed(sealed: str, row: Automation) -> TriggerSecrets:
    return trigger_secrets.unseal(sealed, tenant_id=row.tenant_id, automation_id=row.public_id)


def _name(raw: Any) -> str:
    """Return the name without blanks around it. Raises RequestRefused 400."""
    if isinstance(raw, str) and 0 < len(raw.strip()) <= MAX_NAME:
        return raw.strip()
    message = f"Expected a text of 1 to {MAX_NAME} characters."
    raise RequestRefused("automation.invalid", message, errors=[{"pointer": "/name", "message": message}])


def _same(one: Any, other: Any) -> bool:
    """Say whether two documents are the same JSON; to Python true equals 1."""
    return dumps(one, sort_keys=True) == dumps(other, sort_keys=True)


def _standing(row: Automation) -> dict[str, Any]:
    return {"state": str(row.state), "version": row.published.number if row.published else None}


def _audit(row: Automation, actor: Actor, deed: str, before: Any, after: Any) -> None:
    audit.record(row.tenant, actor, f"automation.{deed}", references.label_of(row), before, after)


def _used(users: list[str]) -> RequestRefused:
    message = "The automation is still used."
    return RequestRefused("automation.used", message, status=409, extra={"usedBy": users})
