"""Tables of the desk: tenants and their people, tickets and their log."""

from tickets.models.tenants import (
    ApiToken,
    AuditEntry,
    Group,
    IdempotentAnswer,
    Login,
    Membership,
    Person,
    Role,
    Tenant,
    TenantOwned,
    TenantQuerySet,
)
from tickets.models.tickets import Ticket, TicketCounter, TicketEvent, TicketType

__all__ = [
    "ApiToken",
    "AuditEntry",
    "Group",
    "IdempotentAnswer",
    "Login",
    "Membership",
    "Person",
    "Role",
    "Tenant",
    "TenantOwned",
    "TenantQuerySet",
    "Ticket",
    "TicketCounter",
    "TicketEvent",
    "TicketType",
]
