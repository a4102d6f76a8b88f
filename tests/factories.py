"""Rows for tests, in the words of the story: the e-shop with warehouse, dispatch and IT, and a stranger."""

from datetime import timedelta
from functools import cache

import factory
from django.contrib.auth.hashers import make_password
from django.utils import timezone

from automations.models import Automation, AutomationVersion
from connectors.models import Connection
from runtime.models import Run
from tickets import tokens
from tickets.models import (
    ApiToken,
    Group,
    Login,
    Membership,
    Person,
    Role,
    Tenant,
    Ticket,
    TicketCounter,
    TicketType,
)

PASSWORD = "correct horse battery"

# scrypt is slow on purpose; every login of a test process has the same password.
password_hash = cache(make_password)


class TenantFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Tenant

    class Params:
        suspended = factory.Trait(suspended_at=factory.LazyFunction(timezone.now))

    slug = factory.Sequence(lambda n: f"tenant-{n}")
    name = factory.LazyAttribute(lambda tenant: tenant.slug.capitalize())
    language = "en"
    timezone = "Europe/Prague"


class LoginFactory(factory.django.DjangoModelFactory):
    """A login with the password `PASSWORD`; trait `staff` for platform staff."""

    class Meta:
        model = Login

    class Params:
        staff = factory.Trait(is_staff=True, is_superuser=True)

    username = factory.Sequence(lambda n: f"login-{n}@example.test")
    email = factory.SelfAttribute("username")
    password = factory.LazyFunction(lambda: password_hash(PASSWORD))


class PersonFactory(factory.django.DjangoModelFactory):
    """A person without a login; trait `with_login` gives one."""

    class Meta:
        model = Person

    class Params:
        with_login = factory.Trait(
            login=factory.SubFactory(LoginFactory, username=factory.SelfAttribute("..email"))
        )
        away = factory.Trait(away_until=factory.LazyFunction(lambda: timezone.now() + timedelta(days=3)))

    tenant = factory.SubFactory(TenantFactory)
    name = factory.Sequence(lambda n: f"Person {n}")
    email = factory.Sequence(lambda n: f"person-{n}@example.test")
    role = Role.AGENT


class GroupFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Group

    tenant = factory.SubFactory(TenantFactory)
    key = factory.Sequence(lambda n: f"group-{n}")
    name = factory.LazyAttribute(lambda group: group.key.capitalize())


class MembershipFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Membership

    tenant = factory.SelfAttribute("group.tenant")
    group = factory.SubFactory(GroupFactory)
    person = factory.SubFactory(PersonFactory, tenant=factory.SelfAttribute("..group.tenant"))
    capacity = 10


class TicketTypeFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = TicketType

    tenant = factory.SubFactory(TenantFactory)
    key = factory.Sequence(lambda n: f"type-{n}")
    name = factory.LazyAttribute(lambda kind: kind.key.capitalize())
    statuses = factory.LazyFunction(lambda: ["new", "done"])
    fields = factory.LazyFunction(list)


class TicketFactory(factory.django.DjangoModelFactory):
    """A ticket as a row, without log and signal; `tickets.services.create` makes one as people do."""

    class Meta:
        model = Ticket

    class Params:
        shut = factory.Trait(closed=True, closed_at=factory.LazyFunction(timezone.now))

    tenant = factory.SubFactory(TenantFactory)
    title = factory.Sequence(lambda n: f"Order {n}")

    @factory.lazy_attribute
    def number(self) -> int:
        counter, _ = TicketCounter.objects.get_or_create(tenant=self.tenant)
        TicketCounter.objects.filter(pk=counter.pk).update(next_number=counter.next_number + 1)
        return counter.next_number


class TokenFactory(factory.django.DjangoModelFactory):
    """A token of a tenant; its text is the attribute `written`. Trait `staff` for one of the platform's."""

    class Meta:
        model = ApiToken

    class Params:
        staff = factory.Trait(tenant=None, role=None)

    tenant = factory.SubFactory(TenantFactory)
    name = factory.Sequence(lambda n: f"program {n}")
    role = Role.ADMIN

    @classmethod
    def _create(cls, model_class, *args, **values):
        token, token_text = tokens.issue(
            values["tenant"], values["name"], values["role"], expires_at=values.get("expires_at")
        )
        token.written = token_text
        return token


class ConnectionFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Connection

    tenant = factory.SubFactory(TenantFactory)
    provider = "http"
    name = factory.Sequence(lambda n: f"connection {n}")
    config = factory.LazyFunction(lambda: {"baseUrl": "https://shop.example.test"})


class AutomationFactory(factory.django.DjangoModelFactory):
    """A draft as a row; `automations.services` makes and publishes one as people do."""

    class Meta:
        model = Automation

    tenant = factory.SubFactory(TenantFactory)
    name = factory.Sequence(lambda n: f"Automation {n}")
    draft = factory.LazyFunction(lambda: {"trigger": {"kind": "manual", "params": []}, "steps": []})


class VersionFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = AutomationVersion

    automation = factory.SubFactory(AutomationFactory)
    tenant = factory.SelfAttribute("automation.tenant")
    number = factory.LazyAttribute(lambda version: version.automation.versions.count() + 1)
    tree = factory.SelfAttribute("automation.draft")
    created_by = "Jana"


class RunFactory(factory.django.DjangoModelFactory):
    """A run as a row in any state; `runtime.queue.states.enqueue` makes one as events do."""

    class Meta:
        model = Run

    tenant = factory.SubFactory(TenantFactory)
    automation = factory.LazyAttribute(lambda run: AutomationFactory(tenant=run.tenant))
    version = factory.LazyAttribute(lambda run: VersionFactory(automation=run.automation))
    trigger = Run.Trigger.WEBHOOK
    status = Run.Status.READY
    due_at = factory.LazyAttribute(lambda run: _now_if(run, Run.Status.READY, Run.Status.SCHEDULED))
    lease_until = factory.LazyAttribute(lambda run: _now_if(run, Run.Status.RUNNING))
    finished_at = factory.LazyAttribute(
        lambda run: _now_if(run, Run.Status.DONE, Run.Status.FAILED, Run.Status.CANCELLED)
    )


def _now_if(run, *statuses):
    return timezone.now() if run.status in statuses else None
