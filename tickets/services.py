"""Every write of a ticket and of its log; nothing else changes them (SPEC section 8).

One edit is one locked transaction: net changes only, one log entry, `version` + 1, one `ticket_changed` in
the same transaction. Locks are always taken in one order: the tenant's load lock (only where an edit changes
what people hold), then tickets, then the counter of numbers. Nobody waits for a ticket while holding that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from csbot.lib import database_clock
from csbot.lib.errors import RequestRefused
from tickets import assignment, edit, numbers, references, workload
from tickets.events import SYSTEM, Actor, ticket_changed
from tickets.models import Group, Membership, Person, Tenant, Ticket, TicketEvent
from tickets.representation import BEFORE_CREATION, changes, state
from tickets.representation import representation as representation  # what others ask the services for
from tickets.values import UPSERT_KEYS, Fault, checked, comment_text, refuse

LOAD_KEYS = {"assignee", "group", "closed"}
"""What changes how much a person holds or who waits in a line."""


class _ExternalIdTakenError(Exception):
    """Another ticket has the external id, perhaps since a moment ago."""


def read(tenant: Tenant, reference: str | int) -> Ticket:
    """Return the ticket by number (`"TK-1"` or 1), else by external id. Raises RequestRefused 404."""
    tickets = Ticket.objects.of(tenant).select_related("type", "assignee", "group")
    number = numbers.read_key(reference) if isinstance(reference, str) else reference
    if number is not None:
        ticket = tickets.filter(number=number).first()
    else:
        ticket = tickets.filter(external_id=reference).first()
    if ticket is None:
        raise _unknown(reference)
    return ticket


def create(tenant: Tenant, actor: Actor, values: Mapping[str, Any]) -> Ticket:
    """Return a new ticket with `values` (keys of `tickets.values.KEYS`; `title` is required).

    Raises RequestRefused: 400 with every fault, 409 `ticket.externalId` when another one has the external id.
    """
    clean = checked(values)
    try:
        with transaction.atomic():
            if LOAD_KEYS & clean.keys():
                workload.lock(tenant)
            return _insert(tenant, actor, clean)
    except _ExternalIdTakenError as error:
        raise _external_id_taken(clean["externalId"]) from error


def change(
    tenant: Tenant, number: int, actor: Actor, values: Mapping[str, Any], *, version: int | None = None
) -> Ticket:
    """Change what `values` has and return the ticket; keys that are not there stay, `fields` merges.

    A value that is there already is no change: without any, nothing is logged and the version stays. Raises
    RequestRefused: 400 with every fault, 404, 409 `ticket.stale` when `version` is not the present one, 409
    `ticket.externalId` when another ticket has the external id.
    """
    clean = checked(values)
    try:
        with transaction.atomic():
            if LOAD_KEYS & clean.keys():
                workload.lock(tenant)
            ticket = _locked(tenant, number)
            if version is not None and version != ticket.version:
                message = f"The ticket was changed meanwhile: its version is {ticket.version}, not {version}."
                raise RequestRefused("ticket.stale", message, status=409, extra={"version": ticket.version})
            _edit(ticket, actor, clean)
            return ticket
    except IntegrityError as error:
        if not _is_external_id_taken(error):
            raise
        raise _external_id_taken(clean["externalId"]) from error


def upsert(
    tenant: Tenant, actor: Actor, external_id: str, values: Mapping[str, Any], *, update: bool
) -> tuple[Ticket, bool]:
    """Find the ticket by `external_id` or create it; return it and whether it was created.

    Every call hangs one `event` entry on the ticket, the creating one too, so that fifty events make fifty
    entries in every order of arrival. An existing ticket is changed only with `update`; a closed one stays
    closed. A new one without `title` is named by its external id. Raises RequestRefused 400.

    1. Lock the ticket by its external id. Found: event, change, done.
    2. Else create it in a savepoint. Whoever creates holds the counter of numbers and looks once more.
    3. Somebody was faster: the savepoint gives the counter back, and it begins again; each round means that
       another transaction has come through, so it ends.
    """
    clean = checked({**values, "externalId": external_id}, known=UPSERT_KEYS)
    if clean["externalId"] is None:
        refuse([Fault("ticket.invalid", "/externalId", "Expected text that is not blank.")])
    with transaction.atomic():
        while True:
            ticket = _locked_or_none(tenant, external_id=external_id)
            if ticket is not None:
                _hang_event(ticket, actor, clean)
                if update:
                    _edit(ticket, actor, clean)
                return ticket, False
            try:
                with transaction.atomic():
                    ticket = _insert(tenant, actor, {"title": external_id, **clean})
                    _hang_event(ticket, actor, clean)
                return ticket, True
            except _ExternalIdTakenError:
                continue


def comment(tenant: Tenant, number: int, actor: Actor, text: str, *, public: bool) -> TicketEvent:
    """Add an internal note or a public reply and return its log entry; `version` stays.

    Raises RequestRefused 400, 404.
    """
    text = comment_text(text)
    code = "ticket.comment.public" if public else "ticket.comment.internal"
    with transaction.atomic():
        ticket = _locked(tenant, number)
        _touch(ticket)
        return log(ticket, "comment", actor, code, {"text": text}, {"text": text, "public": public})


def close(tenant: Tenant, number: int, actor: Actor) -> Ticket:
    """Close the ticket; status and tags stay. A closed one does not change. Raises RequestRefused 404."""
    return change(tenant, number, actor, {"closed": True})


def reopen(tenant: Tenant, number: int, actor: Actor) -> Ticket:
    """Open the ticket again; status and tags stay. Raises RequestRefused 404."""
    return change(tenant, number, actor, {"closed": False})


def assign(
    tenant: Tenant, number: int, actor: Actor, *, person: str | None = None, group: str | None = None
) -> Ticket:
    """Give the ticket to a person, to a group, or to a person in a group; return it.

    Given to a group alone, it keeps its assignee only when that person is a member. Raises RequestRefused 400
    (`missing.person`, `missing.group`, or neither given), 404.
    """
    if not person and not group:
        refuse([Fault("ticket.invalid", "", "Expected a person or a group.")])
    with transaction.atomic():
        workload.lock(tenant)
        holder = references.required(tenant, "person", person, "/person") if person else None
        team = references.required(tenant, "group", group, "/group") if group else None
        ticket = _locked(tenant, number)
        before = edit.Before.of(ticket)
        ticket.group = team or ticket.group
        if holder is not None:
            ticket.assignee = holder
        elif not workload.is_member(ticket.group, ticket.assignee_id):
            ticket.assignee = None
        edit.settle_line(ticket, before.columns["group_id"])
        _save(ticket, actor, before)
        return ticket


def assign_least_busy(
    tenant: Tenant,
    number: int,
    actor: Actor,
    group: str,
    *,
    reassign: bool = False,
    respect_capacity: bool = False,
    pointer: str = "/group",
) -> Person | None:
    """Hand the ticket to the least busy person of `group`; return who has it now, None when it waits in line.

    A ticket that the group already holds stays unless `reassign`; it is not counted among what its holder
    has. When nobody can take it (all absent, with `respect_capacity` all full) it stands in the group's line.
    Right also for many at once: all that hand out work in a tenant go one after another. Raises
    RequestRefused 400 `missing.group` with `pointer`, 404.
    """
    with transaction.atomic():
        workload.lock(tenant)
        team = references.required(tenant, "group", group, pointer)
        if respect_capacity:
            _hand_out(tenant, [team.pk])
        ticket = _locked(tenant, number)
        if not reassign and workload.is_held_by(team, ticket):
            return ticket.assignee
        choice = workload.choose(team, ticket, respect_capacity=respect_capacity)
        code = "ticket.assigned.leastBusy" if choice.chosen else "ticket.inLine"
        _place(ticket, actor, team, choice, code)
        return ticket.assignee


def hand_out(tenant: Tenant) -> int:
    """Hand the lines of the tenant's groups to who is free, oldest first; return how many tickets went.

    Closing and reassigning do it by themselves. To be called in a transaction of its own after a capacity, a
    membership or an absence has changed, and regularly, since the end of an absence is no event.
    """
    with transaction.atomic():
        workload.lock(tenant)
        return _hand_out(tenant, None)


def log(
    ticket: Ticket,
    kind: str,
    actor: Actor,
    code: str,
    params: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
) -> TicketEvent:
    """Append one entry to the ticket's log and return it.

    `kind` is a word of SPEC section 13, `code` one of `tickets.messages.TEXTS` with `params` for its
    sentence; `data` is what programs read.
    """
    return TicketEvent.objects.create(
        tenant_id=ticket.tenant_id,
        ticket=ticket,
        kind=kind,
        actor_kind=actor.kind,
        actor_name=actor.name[:200],
        run_id=actor.run_id,
        code=code,
        params=dict(params or {}),
        data=dict(data or {}),
    )


# One edit


def _edit(ticket: Ticket, actor: Actor, clean: Mapping[str, Any]) -> None:
    before = edit.Before.of(ticket)
    edit.apply(ticket, clean, now=timezone.now())
    _save(ticket, actor, before)


def _save(
    ticket: Ticket,
    actor: Actor,
    before: edit.Before,
    *,
    code: str = "",
    data: Mapping[str, Any] | None = None,
) -> None:
    """Write what differs from `before`: row, log entry and signal; hand out the line of who got free by it.

    `code` is the entry's own sentence with its `data`; an edit of assignee and group alone is an `assigned`
    entry.
    """
    written = before.differences(ticket)
    if not written:
        return
    changed = changes(before.shown, state(ticket))
    if changed:
        ticket.version += 1
        ticket.updated_at = timezone.now()
        written |= {"version": ticket.version, "updated_at": ticket.updated_at}
    Ticket.objects.of(ticket.tenant_id).filter(pk=ticket.pk).update(**written)
    if "assignee" in changed:
        _note_new_work(ticket)
    if changed or code:
        is_assigned = bool(code) or changed.keys() <= {"assignee", "group"}
        kind = "assigned" if is_assigned else "changed"
        log(ticket, kind, actor, code or f"ticket.{kind}", data={"changes": changed, **(data or {})})
    if changed:
        ticket_changed.send(sender=Ticket, ticket=ticket, event="changed", changes=changed, actor=actor)
    _hand_out_after(ticket, before)


def _insert(tenant: Tenant, actor: Actor, clean: Mapping[str, Any]) -> Ticket:
    """Create the ticket, its entry and its signal. Raises _ExternalIdTakenError, RequestRefused 400."""
    if "title" not in clean:
        refuse([Fault("ticket.invalid", "/title", "This key is required.")])
    now = timezone.now()
    ticket = Ticket(tenant=tenant, created_at=now, updated_at=now)
    edit.apply(ticket, clean, now=now, is_new=True)
    ticket.number = numbers.take(tenant)
    others = Ticket.objects.of(tenant).filter(external_id=ticket.external_id)
    if ticket.external_id is not None and others.exists():
        raise _ExternalIdTakenError
    try:
        with transaction.atomic():
            ticket.save(force_insert=True)
    except IntegrityError as error:
        if _is_external_id_taken(error):
            raise _ExternalIdTakenError from error
        raise
    _note_new_work(ticket)
    changed = changes(BEFORE_CREATION, state(ticket))
    log(ticket, "created", actor, "ticket.created", data={"changes": changed})
    ticket_changed.send(sender=Ticket, ticket=ticket, event="created", changes=changed, actor=actor)
    return ticket


def _hang_event(ticket: Ticket, actor: Actor, clean: Mapping[str, Any]) -> None:
    _touch(ticket)
    log(ticket, "event", actor, "ticket.event", {"externalId": clean["externalId"]}, {"values": dict(clean)})


def _touch(ticket: Ticket) -> None:
    """Something happened on the ticket that is no change of it."""
    ticket.updated_at = timezone.now()
    Ticket.objects.of(ticket.tenant_id).filter(pk=ticket.pk).update(updated_at=ticket.updated_at)


def _note_new_work(ticket: Ticket) -> None:
    """Remember when the assignee was given work; on the database's clock, since it decides who comes next."""
    if ticket.assignee_id:
        Person.objects.of(ticket.tenant_id).filter(pk=ticket.assignee_id).update(last_assigned_at=Now())


# Who gets the work; all of it under the load lock


def _place(ticket: Ticket, actor: Actor, group: Group, choice: assignment.Choice, code: str) -> None:
    """Give the ticket to the chosen person, or put it into the line of `group`, where it keeps its place."""
    before = edit.Before.of(ticket)
    ticket.group = group
    chosen = choice.chosen
    ticket.assignee = Person.objects.of(ticket.tenant_id).get(pk=chosen.person_id) if chosen else None
    edit.settle_line(ticket, before.columns["group_id"])
    if chosen is None and not ticket.closed and ticket.in_line_since is None:
        ticket.in_line_since = database_clock.now()
    _save(ticket, actor, before, code=code, data={"choice": workload.explanation(group, choice)})


def _hand_out_after(ticket: Ticket, before: edit.Before) -> None:
    """Hand out the lines of the groups of who lost an open ticket by this edit."""
    holder = before.columns["assignee_id"]
    has_lost = holder is not None and not before.columns["closed"]
    if has_lost and (ticket.closed or ticket.assignee_id != holder):
        groups = Membership.objects.of(ticket.tenant_id).filter(person=holder).values("group")
        _hand_out(ticket.tenant, groups)


def _hand_out(tenant: Tenant, groups: Iterable[int] | QuerySet | None) -> int:
    """Hand out the lines of `groups` (None: all), oldest first, while people are free; return how many."""
    nobody_free: set[int] = set()
    handed = 0
    while True:
        waiting = Ticket.objects.of(tenant).filter(in_line_since__isnull=False).exclude(group__in=nobody_free)
        if groups is not None:
            waiting = waiting.filter(group__in=groups)
        ticket = waiting.select_for_update(no_key=True).order_by("in_line_since", "pk").first()
        if ticket is None:
            return handed
        choice = workload.choose(ticket.group, ticket, respect_capacity=True)
        if choice.chosen is None:
            nobody_free.add(ticket.group_id)
            continue
        _place(ticket, SYSTEM, ticket.group, choice, "ticket.assigned.fromLine")
        handed += 1


# Finding and locking


def _locked(tenant: Tenant, number: int) -> Ticket:
    ticket = _locked_or_none(tenant, number=number)
    if ticket is None:
        raise _unknown(f"TK-{number}")
    return ticket


def _locked_or_none(tenant: Tenant, **key: Any) -> Ticket | None:
    """Return the ticket, locked. No join: PostgreSQL would show joined rows as they were before the wait."""
    return Ticket.objects.of(tenant).filter(**key).select_for_update(no_key=True).first()


def _is_external_id_taken(error: IntegrityError) -> bool:
    diagnosis = getattr(error.__cause__, "diag", None)
    return getattr(diagnosis, "constraint_name", None) == "ticket_external_id"


def _external_id_taken(external_id: str) -> RequestRefused:
    fault = {"pointer": "/externalId", "message": f"Another ticket has the external id {external_id}."}
    return RequestRefused("ticket.externalId", fault["message"], status=409, errors=[fault])


def _unknown(reference: str | int) -> RequestRefused:
    return RequestRefused("ticket.unknown", f"There is no ticket {reference}.", status=404)
