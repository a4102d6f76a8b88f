"""Automations, their immutable numbered versions, and what starts them."""

from __future__ import annotations

import uuid

from django.db import models

from csbot.lib.json import JSONField
from csbot.lib.rows import loaded
from tickets.models import TenantOwned, TenantQuerySet


class AutomationQuerySet(TenantQuerySet):
    """Automations in the words of the language."""

    def named(self, reference: str) -> Automation | None:
        """Return the automation that an input `reference` means, its id or its name, or None.

        Names may be given twice: a published one goes before a draft, then the older one, so that a newcomer
        takes over nobody's calls.
        """
        try:
            by_id = self.filter(public_id=uuid.UUID(reference)).first()
        except ValueError:
            by_id = None
        is_draft = models.ExpressionWrapper(models.Q(published=None), output_field=models.BooleanField())
        return by_id or self.filter(name=reference).order_by(is_draft, "id").first()


class Automation(TenantOwned):
    """A trigger and a tree of steps. `draft` is edited; `published` is what runs."""

    class State(models.TextChoices):
        DRAFT = "draft"
        ACTIVE = "active"
        PAUSED = "paused"

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=State.choices, default=State.DRAFT)
    # {"trigger": {…}, "steps": […]} as posted; secrets of the trigger are taken out and sealed in `secrets`.
    draft = JSONField(default=dict)
    secrets = models.TextField(blank=True)
    # Grows with every write of the draft or the state; the ETag is made of it.
    revision = models.PositiveIntegerField(default=1)
    # RESTRICT and not PROTECT: deleting the automation takes its versions with it.
    published = models.ForeignKey(
        "AutomationVersion", null=True, blank=True, on_delete=models.RESTRICT, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now_add=True)

    objects = AutomationQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "-id"], name="automation_newest"),
            models.Index(fields=["tenant", "name"], name="automation_name"),
        ]

    def __str__(self) -> str:
        return self.name


class AutomationVersion(TenantOwned):
    """A numbered, immutable copy of a draft at the moment it was published."""

    automation = models.ForeignKey(Automation, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    tree = JSONField()
    secrets = models.TextField(blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["automation", "number"], name="version_number")]

    def __str__(self) -> str:
        return f"{loaded(self, 'automation') or f'automation {self.automation_id}'} v{self.number}"


class Trigger(TenantOwned):
    """What starts an automation, as its published version says: made by publishing, one for each automation.

    It stays while the automation is paused: whoever fires triggers asks for `automation__state="active"` too.
    """

    automation = models.OneToOneField(Automation, on_delete=models.CASCADE, related_name="trigger")
    kind = models.CharField(max_length=10)
    # When the clock fires it next; only for kinds poll (due at once after publishing) and schedule.
    next_due_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "kind"], name="trigger_of_tenant"),
            models.Index(
                fields=["next_due_at"], condition=models.Q(next_due_at__isnull=False), name="trigger_due"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {loaded(self, 'automation') or f'automation {self.automation_id}'}"


class WebhookToken(TenantOwned):
    """A secret address of a webhook: SHA-256 for looking up, sealed for showing (SPEC section 2)."""

    automation = models.ForeignKey(Automation, on_delete=models.CASCADE, related_name="tokens")
    digest = models.BinaryField(max_length=32, unique=True)
    sealed = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)
    # After a rotation the older token works until this instant; None for the current one.
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["automation"],
                condition=models.Q(expires_at__isnull=True),
                name="webhook_token_current",
            )
        ]

    def __str__(self) -> str:
        return f"address of {loaded(self, 'automation') or f'automation {self.automation_id}'}"
