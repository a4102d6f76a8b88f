"""Tenants, their people, groups and tokens. Everything else in csbot belongs to exactly one tenant."""

from __future__ import annotations

import uuid
from typing import Self

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Now

from csbot.lib.json import JSONField
from csbot.lib.rows import loaded
from tickets import limits


class Role(models.TextChoices):
    """What a person or a token may do in a tenant (SPEC section 13)."""

    VIEWER = "viewer"
    AGENT = "agent"
    ADMIN = "admin"


class Login(AbstractUser):
    """An account that signs in by e-mail: one person in each of its tenants, or platform staff."""

    class Meta:
        verbose_name = "login"


class Tenant(models.Model):
    """One client company."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    language = models.CharField(max_length=2, default="cs", choices=[("cs", "Čeština"), ("en", "English")])
    timezone = models.CharField(max_length=64, default="Europe/Prague", validators=[limits.validate_timezone])
    max_parallel_runs = models.PositiveIntegerField(
        null=True, blank=True, validators=limits.from_one_to(limits.MOST_PARALLEL_RUNS)
    )
    retention_days = models.PositiveIntegerField(
        default=90, validators=limits.from_one_to(limits.MOST_RETENTION_DAYS)
    )
    suspended_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.slug


class TenantQuerySet(models.QuerySet):
    """The one way to query what belongs to a tenant: `Model.objects.of(tenant)`."""

    def of(self, tenant: Tenant | int) -> Self:
        """Return the rows of `tenant` (a Tenant or its internal id) and no other's."""
        return self.filter(tenant=tenant)


class TenantOwned(models.Model):
    """A row that belongs to exactly one tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")

    objects = TenantQuerySet.as_manager()

    class Meta:
        abstract = True


class Person(TenantOwned):
    """A member of a tenant; `login` is linked only by an invitation that the owner of the mailbox accepts."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    login = models.ForeignKey(Login, null=True, blank=True, on_delete=models.SET_NULL, related_name="people")
    name = models.CharField(max_length=200)
    email = models.EmailField()
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.AGENT)
    away_until = models.DateTimeField(null=True, blank=True)
    # When the person was last handed a ticket; decides a tie of assign-least-busy.
    last_assigned_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint("tenant", models.functions.Lower("email"), name="person_email"),
            models.UniqueConstraint(
                fields=["tenant", "login"], condition=models.Q(login__isnull=False), name="person_login"
            ),
        ]
        verbose_name_plural = "people"

    def __str__(self) -> str:
        return self.name


class Group(TenantOwned):
    """A named team of people."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    key = models.CharField(max_length=100, validators=[limits.validate_key])
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "key"], name="group_key")]

    def __str__(self) -> str:
        return self.name


class Membership(TenantOwned):
    """A person in a group; `capacity` is how many open tickets are a full load there."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="memberships")
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="memberships")
    capacity = models.PositiveIntegerField(default=10, validators=limits.from_one_to(limits.MOST_CAPACITY))

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "person"], name="membership_once")]

    def __str__(self) -> str:
        person, group = loaded(self, "person"), loaded(self, "group")
        return f"{person or f'person {self.person_id}'} in {group or f'group {self.group_id}'}"


class ApiToken(models.Model):
    """A program's key. A token of a tenant has one role there; a staff token has no tenant and no role.

    Only the SHA-256 of the token is stored; `prefix` is its public part, for people to tell tokens apart.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=200)
    role = models.CharField(max_length=10, choices=Role.choices, null=True, blank=True)
    prefix = models.CharField(max_length=16)
    digest = models.BinaryField(max_length=32, unique=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TenantQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(tenant__isnull=True, role__isnull=True)
                | models.Q(tenant__isnull=False, role__isnull=False),
                name="token_of_tenant_has_role",
            )
        ]
        verbose_name = "API token"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class AuditEntry(TenantOwned):
    """Who changed which part of the configuration, before and after, with secrets masked. Append-only."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    at = models.DateTimeField(auto_now_add=True)
    actor = JSONField()
    action = models.CharField(max_length=100)
    object = models.CharField(max_length=200)
    before = JSONField(null=True)
    after = JSONField(null=True)

    class Meta:
        indexes = [models.Index(fields=["tenant", "-id"], name="audit_of_tenant")]
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.action} {self.object}"


class IdempotentAnswer(models.Model):
    """The first answer to a POST with an `Idempotency-Key`; written by `tickets.idempotency` alone.

    `identity` is the digest of tenant, caller, method, path and key. `answer` is JSON as it was sent, with null
    for secrets; as text, since jsonb would forget the order of its keys. Staff may act without a tenant.
    """

    tenant = models.ForeignKey(Tenant, null=True, on_delete=models.CASCADE, related_name="+")
    identity = models.BinaryField(max_length=32, unique=True)
    body_digest = models.BinaryField(max_length=32)
    status = models.PositiveSmallIntegerField()
    headers = JSONField(default=dict)
    answer = models.TextField(null=True)
    created_at = models.DateTimeField(db_default=Now(), db_index=True)

    def __str__(self) -> str:
        return f"answer {self.status}"
