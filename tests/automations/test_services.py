"""Drafts, versions, states and addresses: what is written, what is refused, what two writers do."""

import hashlib
import re
import threading
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from automations import services, tokens
from automations.models import Automation, AutomationVersion, Trigger, WebhookToken
from csbot.lib import crypto
from csbot.lib.errors import RequestRefused
from tests.automations import trees
from tests.factories import AutomationFactory, RunFactory, TenantFactory
from tickets import people
from tickets.events import Actor
from tickets.models import AuditEntry, TicketType

JANA = Actor("person", "Jana")


@pytest.fixture
def orders(shop):
    return services.create(shop, JANA, trees.orders()).automation


@pytest.fixture
def live(orders):
    return services.publish(orders, JANA)


def refusal(*args, **named):
    """Return what a call refuses."""
    deed, *rest = args
    with pytest.raises(RequestRefused) as caught:
        deed(*rest, **named)
    return caught.value


class TestDrafts:
    def test_a_new_automation_is_a_draft_without_version(self, orders):
        orders.refresh_from_db()
        assert (orders.name, orders.state, orders.published, orders.revision) == ("Orders", "draft", None, 1)
        assert orders.draft == {"trigger": trees.webhook(), "steps": [trees.upsert()]}
        assert not Trigger.objects.of(orders.tenant).exists()

    def test_every_fault_is_refused_with_its_pointer(self, shop):
        raw = trees.orders(
            steps=[trees.upsert(type="unheard-of"), {"id": "st_x", "type": "action", "op": "no/such"}]
        )
        refused = refusal(services.create, shop, JANA, raw)
        assert (refused.status, refused.code) == (400, "automation.invalid")
        assert {"/steps/0/inputs/type", "/steps/1/op"} <= {fault["pointer"] for fault in refused.errors}
        assert all(fault["message"] and fault["code"] for fault in refused.errors)
        assert not Automation.objects.of(shop).exists()

    @pytest.mark.parametrize("name", [None, "", "   ", 7, "x" * 201])
    def test_a_name_is_needed(self, shop, name):
        assert refusal(services.create, shop, JANA, trees.orders(name=name)).errors[0]["pointer"] == "/name"

    def test_a_change_of_one_part_keeps_the_others(self, orders):
        saved = services.save(orders, JANA, {"steps": [trees.upsert(title="Other")]})
        assert saved.automation.draft["trigger"] == trees.webhook()
        assert saved.automation.draft["steps"][0]["inputs"]["title"] == "Other"
        assert services.save(orders, JANA, {"name": " New "}).automation.name == "New"
        orders.refresh_from_db()
        assert (orders.name, orders.revision) == ("New", 3)
        assert orders.draft["steps"][0]["inputs"]["title"] == "Other"

    def test_a_change_into_the_same_is_none(self, orders):
        for raw in ({}, {"name": "Orders"}, {"trigger": trees.webhook(), "steps": [trees.upsert()]}):
            assert services.save(orders, JANA, raw).automation.revision == 1
        assert not AuditEntry.objects.of(orders.tenant).filter(action="automation.changed").exists()

    def test_a_refused_change_changes_nothing(self, orders):
        refusal(services.save, orders, JANA, {"name": "New", "steps": [{"id": "st_x"}]})
        orders.refresh_from_db()
        assert (orders.name, orders.revision) == ("Orders", 1)

    def test_an_unfinished_tree_is_kept_with_its_faults(self, orders):
        saved = services.save_draft(orders, JANA, {"trigger": {"kind": "no"}, "steps": [7, {"then": "x"}]})
        assert {"/trigger/kind", "/steps/0"} <= {fault.pointer for fault in saved.faults}
        orders.refresh_from_db()
        assert orders.draft == {"trigger": {"kind": "no"}, "steps": [7, {"then": "x"}]}
        assert services.look(orders).faults == saved.faults

    def test_a_faulty_draft_may_be_renamed(self, orders):
        services.save_draft(orders, JANA, {"steps": [7]})
        assert services.save(orders, JANA, {"name": "New"}).faults

    def test_what_cannot_be_a_draft_at_all_is_refused(self, orders):
        for raw, pointer in (
            ({"trigger": 7}, "/trigger"),
            ({"steps": {}}, "/steps"),
            ({"steps": ["x" * 300_000]}, ""),
        ):
            assert refusal(services.save_draft, orders, JANA, raw).errors[0]["pointer"] == pointer

    def test_numbers_keep_their_digits(self, orders):
        step = {
            "id": "st_x",
            "type": "action",
            "op": "data/set",
            "inputs": {"name": "n", "value": 12345678901234567890},
        }
        services.save(orders, JANA, {"steps": [step]})
        orders.refresh_from_db()
        assert orders.draft["steps"][0]["inputs"]["value"] == 12345678901234567890

    def test_warnings_are_told_and_saved_all_the_same(self, shop):
        rule = {"fieldId": "f_order", "operator": "gt", "value": "7"}
        condition = {
            "id": "st_if",
            "type": "condition",
            "match": "all",
            "rules": [rule],
            "then": [],
            "else": [],
        }
        saved = services.create(shop, JANA, trees.orders(steps=[condition]))
        assert saved.warnings
        assert saved.faults == []

    def test_a_stale_revision_is_refused(self, orders):
        services.save(orders, JANA, {"name": "New"}, if_match=frozenset({1}))
        for deed in (services.save, services.save_draft):
            refused = refusal(deed, orders, JANA, {"trigger": trees.webhook()}, if_match=frozenset({1}))
            assert (refused.status, refused.code, refused.headers["ETag"]) == (412, "automation.stale", '"2"')
        assert refusal(services.publish, orders, JANA, if_match=frozenset()).status == 412


class TestSecrets:
    def test_secrets_are_in_no_column_in_plain_text(self, shop):
        verify = {"kind": "hub", "token": "canary-token"}
        automation = services.create(
            shop, JANA, trees.orders(trigger=trees.signed("canary-a", "canary-b", verify=verify))
        )
        services.publish(automation.automation, JANA)
        for table in ("automation", "automationversion", "webhooktoken", "trigger"):
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT string_agg(t::text, ' ') FROM automations_{table} t")
                assert "canary" not in (cursor.fetchone()[0] or "")
        assert "canary" not in repr(list(AuditEntry.objects.of(shop).values()))

    def test_a_mark_keeps_the_secret_and_a_trigger_without_it_drops_it(self, shop):
        automation = services.create(shop, JANA, trees.orders(trigger=trees.signed("old"))).automation
        services.save(automation, JANA, {"trigger": trees.signed("•••", "new")})
        token = tokens.current(services.publish(automation, JANA))
        assert services.webhook_of(token).secrets().signature == ("old", "new")
        services.save(automation, JANA, {"trigger": trees.signed("•••2")})
        services.publish(automation, JANA)
        assert services.webhook_of(token).secrets().signature == ("new",)
        services.save(automation, JANA, {"trigger": trees.webhook()})
        services.publish(automation, JANA)
        assert services.webhook_of(token).secrets().signature == ()

    def test_a_mark_of_nothing_is_refused_and_kept_out_of_publishing(self, shop, orders):
        refused = refusal(services.create, shop, JANA, trees.orders(trigger=trees.signed("•••")))
        assert [fault["code"] for fault in refused.errors] == ["secret.missing"]
        services.save_draft(orders, JANA, {"trigger": trees.signed("•••")})
        assert refusal(services.publish, orders, JANA).errors[0]["pointer"] == "/trigger/signature/secrets/0"

    def test_steps_can_be_changed_without_sending_secrets(self, shop):
        automation = services.create(shop, JANA, trees.orders(trigger=trees.signed("old"))).automation
        services.save(automation, JANA, {"steps": [trees.upsert(title="x")]})
        token = tokens.current(services.publish(automation, JANA))
        assert services.webhook_of(token).secrets().signature == ("old",)


class TestPublishing:
    def test_versions_are_numbered_and_never_change(self, live):
        assert (live.state, live.published.number) == ("active", 1)
        first = live.published
        services.save(live, JANA, {"steps": [trees.upsert(title="Other")]})
        assert services.publish(live, JANA).published.number == 2
        first.refresh_from_db()
        assert first.tree["steps"] == [trees.upsert()]
        assert first.created_by == "Jana"

    def test_publishing_an_unchanged_draft_makes_no_version(self, live):
        services.save(live, JANA, {"name": "Other name"})
        again = services.publish(live, JANA)
        assert (again.published.number, again.revision) == (1, 3)
        assert AutomationVersion.objects.of(live.tenant).count() == 1

    def test_a_change_of_secrets_alone_is_a_change(self, shop):
        automation = services.create(shop, JANA, trees.orders(trigger=trees.signed("old"))).automation
        services.publish(automation, JANA)
        services.save(automation, JANA, {"trigger": trees.signed("new")})
        assert services.publish(automation, JANA).published.number == 2

    def test_a_draft_with_faults_is_not_published(self, live):
        services.save_draft(live, JANA, {"steps": [trees.upsert(group="x"), {"id": "st_x"}]})
        refused = refusal(services.publish, live, JANA)
        assert refused.status == 400
        assert any(fault["pointer"].startswith("/steps/1") for fault in refused.errors)
        live.refresh_from_db()
        assert live.published.number == 1

    def test_what_was_deleted_since_saving_is_a_fault_of_publishing(self, orders):
        TicketType.objects.of(orders.tenant).filter(key="order").delete()
        assert refusal(services.publish, orders, JANA).errors[0]["pointer"] == "/steps/0/inputs/type"

    def test_the_trigger_follows_the_published_version(self, live):
        trigger = Trigger.objects.of(live.tenant).get()
        assert (trigger.kind, trigger.next_due_at) == ("webhook", None)
        services.save(live, JANA, {"trigger": {"kind": "poll", "intervalSec": 60}, "steps": []})
        assert Trigger.objects.of(live.tenant).get().kind == "webhook"
        services.publish(live, JANA)
        trigger = Trigger.objects.of(live.tenant).get()
        assert trigger.kind == "poll"
        assert trigger.next_due_at <= timezone.now()
        services.save(live, JANA, {"trigger": {"kind": "schedule", "cron": "0 7 * * *"}})
        services.publish(live, JANA)
        trigger = Trigger.objects.of(live.tenant).get()
        local = trigger.next_due_at.astimezone(ZoneInfo(live.tenant.timezone))
        assert (trigger.kind, local.hour, local.minute) == ("schedule", 7, 0)
        assert timedelta(0) < local - timezone.now() <= timedelta(hours=25)

    def test_pausing_and_resuming(self, live):
        assert services.pause(live, JANA).state == "paused"
        assert services.pause(live, JANA).revision == 3
        assert services.resume(live, JANA).state == "active"
        services.pause(live, JANA)
        assert services.publish(live, JANA).state == "active"

    def test_a_draft_is_neither_paused_nor_resumed(self, orders):
        for deed in (services.pause, services.resume):
            assert refusal(deed, orders, JANA).status == 409

    def test_a_version_becomes_the_draft_again_with_its_secrets(self, shop):
        automation = services.create(shop, JANA, trees.orders(trigger=trees.signed("old"))).automation
        first = services.publish(automation, JANA).published
        services.save(automation, JANA, {"trigger": trees.signed("new"), "steps": []})
        second = services.publish(automation, JANA).published
        saved = services.restore(first, JANA, if_match=frozenset({4}))
        assert saved.faults == []
        assert saved.automation.published == second
        assert saved.automation.draft == first.tree
        token = tokens.current(services.publish(automation, JANA))
        assert services.webhook_of(token).secrets().signature == ("old",)
        assert services.webhook_of(token).version_number == 3

    def test_restoring_tells_what_is_missing_by_now(self, live):
        TicketType.objects.of(live.tenant).filter(key="order").delete()
        assert services.restore(live.published, JANA).faults[0].pointer == "/steps/0/inputs/type"

    def test_a_tree_is_read_once(self, live, django_assert_num_queries):
        with django_assert_num_queries(1):
            first = services.tree_of(live.published)
        with django_assert_num_queries(0):
            assert services.tree_of(live.published) is first
        assert first.steps[0].id == "st_ticket"

    def test_writes_are_audited_with_marks_for_secrets(self, shop):
        automation = services.create(shop, JANA, trees.orders(trigger=trees.signed("canary"))).automation
        services.save(automation, JANA, {"name": "New"})
        services.publish(automation, JANA)
        services.pause(automation, JANA)
        entries = list(AuditEntry.objects.of(shop).order_by("pk"))
        assert [entry.action.partition(".")[2] for entry in entries] == [
            "created",
            "changed",
            "published",
            "paused",
        ]
        assert {entry.object for entry in entries} == {f"automations/{automation.public_id}"}
        assert entries[0].after["trigger"]["signature"]["secrets"] == ["•••"]
        assert (entries[1].before, entries[1].after) == ({"name": "Orders"}, {"name": "New"})
        assert (entries[2].before, entries[2].after) == (
            {"state": "draft", "version": None},
            {"state": "active", "version": 1},
        )


class TestDeleting:
    def test_one_that_never_ran_goes_with_all_that_is_its_own(self, live):
        services.delete(live, JANA)
        for model in (Automation, AutomationVersion, Trigger, WebhookToken):
            assert not model.objects.of(live.tenant).exists()

    def test_one_that_ran_stays(self, live):
        RunFactory(tenant=live.tenant, automation=live, version=live.published)
        refused = refusal(services.delete, live, JANA)
        assert (refused.status, refused.extra) == (409, {"usedBy": ["runs"]})
        assert Automation.objects.of(live.tenant).filter(pk=live.pk).exists()
        assert not AuditEntry.objects.of(live.tenant).filter(action="automation.deleted").exists()

    @pytest.mark.parametrize("by", ["name", "public_id"])
    def test_one_that_another_calls_stays(self, live, by):
        caller = AutomationFactory(tenant=live.tenant)
        caller.draft["steps"] = [{"type": "loop", "steps": [trees.call(str(getattr(live, by)))]}]
        caller.save()
        assert refusal(services.delete, live, JANA).extra == {"usedBy": [f"automations/{caller.public_id}"]}

    def test_one_that_is_gone_is_404(self, live):
        services.delete(live, JANA)
        assert refusal(services.save, live, JANA, {"name": "x"}).status == 404


class TestAddresses:
    def test_a_token_is_long_random_and_stored_as_digest_and_sealed(self, orders):
        token, row = tokens.current(orders), WebhookToken.objects.of(orders.tenant).get()
        assert re.fullmatch(r"[\w-]{43}", token)
        assert bytes(row.digest) == hashlib.sha256(token.encode()).digest()
        assert token not in row.sealed

    def test_a_token_sealed_for_another_automation_does_not_open(self, orders):
        other = services.create(orders.tenant, JANA, trees.orders()).automation
        sealed = WebhookToken.objects.of(orders.tenant).get(automation=orders).sealed
        WebhookToken.objects.of(orders.tenant).filter(automation=other).update(sealed=sealed)
        with pytest.raises(crypto.DecryptionError):
            tokens.current(other)

    def test_only_webhooks_have_one(self, shop):
        manual = services.create(shop, JANA, trees.orders(trigger={"kind": "manual"}, steps=[])).automation
        assert tokens.current(manual) is None
        assert refusal(services.rotate_token, manual, JANA).status == 404
        services.save(manual, JANA, {"trigger": trees.webhook()})
        assert tokens.current(manual)

    def test_a_token_leads_nowhere_before_publishing(self, orders):
        token = tokens.current(orders)
        assert services.webhook_of(token) is None
        services.publish(orders, JANA)
        assert services.webhook_of(token) is not None

    def test_a_token_leads_to_all_that_taking_an_event_in_needs(self, live):
        target = services.webhook_of(tokens.current(live))
        tenant = live.tenant
        assert (target.tenant_id, target.tenant_slug) == (tenant.pk, "shop")
        assert (target.tenant_language, target.tenant_timezone) == (tenant.language, tenant.timezone)
        assert (target.automation_id, target.automation_public_id) == (live.pk, live.public_id)
        assert (target.automation_name, target.is_paused) == ("Orders", False)
        assert (target.version_id, target.version_number) == (live.published.pk, 1)
        assert target.trigger == trees.webhook()
        assert [one.name for one in target.parameters] == ["orderId"]

    @pytest.mark.parametrize("token", ["", "x", "ž" * 43, "\udc80", "\x00", "a" * 100_000])
    def test_unknown_tokens_lead_nowhere(self, live, token):
        assert services.webhook_of(token) is None

    def test_a_paused_webhook_still_takes_events(self, live):
        services.pause(live, JANA)
        assert services.webhook_of(tokens.current(live)).is_paused

    def test_a_suspended_tenants_webhook_leads_nowhere(self, live):
        token = tokens.current(live)
        people.suspend_tenant(live.tenant, JANA)
        assert services.webhook_of(token) is None

    def test_an_automation_published_with_another_trigger_has_no_webhook_any_more(self, live):
        token = tokens.current(live)
        services.save(live, JANA, {"trigger": {"kind": "manual"}, "steps": []})
        assert services.webhook_of(token).version_number == 1
        services.publish(live, JANA)
        assert services.webhook_of(token) is None

    def test_after_a_rotation_the_older_address_works_until_the_overlap_ends(self, live):
        older = tokens.current(live)
        newer = services.rotate_token(live, JANA, overlap_seconds=3600)
        assert newer != older
        assert tokens.current(live) == newer
        assert services.webhook_of(older) and services.webhook_of(newer)
        row = WebhookToken.objects.of(live.tenant).get(expires_at__isnull=False)
        assert timedelta(minutes=59) < row.expires_at - timezone.now() <= timedelta(hours=1)
        WebhookToken.objects.of(live.tenant).filter(pk=row.pk).update(expires_at=Now())
        assert services.webhook_of(older) is None
        assert services.webhook_of(newer)

    def test_without_overlap_every_older_address_ends_at_once(self, live):
        oldest = tokens.current(live)
        older = services.rotate_token(live, JANA)
        newest = services.rotate_token(live, JANA, overlap_seconds=0)
        assert [services.webhook_of(token) is None for token in (oldest, older, newest)] == [
            True,
            True,
            False,
        ]

    def test_a_second_rotation_does_not_lengthen_the_first_overlap(self, live):
        services.rotate_token(live, JANA, overlap_seconds=60)
        services.rotate_token(live, JANA, overlap_seconds=86_400)
        first = WebhookToken.objects.of(live.tenant).order_by("pk").first()
        assert first.expires_at - timezone.now() <= timedelta(seconds=60)

    @pytest.mark.parametrize("seconds", [-1, 30 * 86_400 + 1])
    def test_an_overlap_has_limits(self, live, seconds):
        assert refusal(services.rotate_token, live, JANA, overlap_seconds=seconds).status == 400

    def test_rotating_is_audited_without_the_token(self, live):
        token = services.rotate_token(live, JANA, overlap_seconds=5)
        entry = AuditEntry.objects.of(live.tenant).get(action="automation.webhook-rotated")
        assert entry.after == {"overlapSec": 5}
        assert token not in repr(list(AuditEntry.objects.of(live.tenant).values()))


def test_names_are_found_published_ones_first(shop, stranger):
    draft = services.create(shop, JANA, trees.orders()).automation
    live = services.publish(services.create(shop, JANA, trees.orders()).automation, JANA)
    services.publish(services.create(shop, JANA, trees.orders()).automation, JANA)
    named = Automation.objects.of(shop).named
    assert named("Orders") == live
    assert named(str(draft.public_id)) == draft
    assert named("No such") is None
    assert Automation.objects.of(stranger).named(str(draft.public_id)) is None


@pytest.mark.django_db(transaction=True)
def test_of_two_writers_with_one_revision_one_is_refused():
    automation = services.create(
        TenantFactory(), JANA, trees.orders(trigger={"kind": "manual"}, steps=[])
    ).automation
    start, outcomes = threading.Barrier(6), []

    def write(number):
        start.wait(10)
        try:
            services.save(automation, JANA, {"name": f"Name {number}"}, if_match=frozenset({1}))
            outcomes.append("written")
        except RequestRefused as refused:
            outcomes.append(refused.status)
        finally:
            connection.close()

    writers = [threading.Thread(target=write, args=[number]) for number in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert sorted(outcomes, key=str) == [412] * 5 + ["written"]
    automation.refresh_from_db()
    assert automation.revision == 2


@pytest.mark.django_db(transaction=True)
def test_publishing_at_once_makes_one_version():
    tenant = TenantFactory()
    automation = services.create(tenant, JANA, trees.orders(trigger={"kind": "manual"}, steps=[])).automation
    start, numbers = threading.Barrier(6), []

    def publish():
        start.wait(10)
        try:
            numbers.append(services.publish(automation, JANA).published.number)
        finally:
            connection.close()

    writers = [threading.Thread(target=publish) for _ in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert numbers == [1] * 6
    assert AutomationVersion.objects.of(tenant).count() == 1
