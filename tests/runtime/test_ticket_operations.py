"""`ticket/*`: what a step gives, what it gets, and which error it ends with."""

import time
from decimal import Decimal

import pytest
from pydantic import ValidationError

from connectors import catalog
from csbot.lib.errors import TerminalError
from runtime.execution.context import RunCall
from runtime.models import Run
from tests.factories import TicketTypeFactory
from tickets import services
from tickets.events import Actor
from tickets.models import Membership, Ticket

pytestmark = pytest.mark.django_db

JANA = Actor("person", "Jana")
OPERATIONS = {
    "ticket/upsert",
    "ticket/assign",
    "ticket/assign-least-busy",
    "ticket/set-type",
    "ticket/set-status",
    "ticket/set-fields",
    "ticket/close",
    "ticket/reopen",
    "ticket/add-tags",
    "ticket/remove-tags",
    "ticket/comment",
    "ticket/find",
}


class Step:
    """Executes operations as one run of `tenant` does; `ticket` is the run's present ticket."""

    def __init__(self, tenant, ticket=None):
        self.tenant = tenant
        self.ticket = ticket

    def adopt(self, ticket):
        self.ticket = ticket

    def __call__(self, op, **inputs):
        operation = catalog.find(op)
        call = RunCall(
            tenant=self.tenant,
            connection=None,
            actor=Actor("automation", "Orders v3"),
            idempotency_key="run/st_1",
            has_given_key=False,
            deadline=time.monotonic() + 30,
            log=lambda code, **params: None,
            run=Run(),
            ticket=self.ticket,
            adopt=self.adopt,
        )
        return operation.function(call, operation.inputs.model_validate(inputs)).model_dump(by_alias=True)


@pytest.fixture
def step(shop):
    """A run of the shop that has no ticket yet."""
    return Step(shop)


@pytest.fixture
def on_ticket(shop):
    """A run of the shop with TK-1 as its ticket; there is TK-2 as well."""
    ticket = services.create(shop, JANA, {"title": "Order", "type": "order", "status": "new", "tags": ["a"]})
    services.create(shop, JANA, {"title": "Other", "externalId": "5002"})
    return Step(shop, ticket)


def test_all_are_in_the_catalogue_as_repeatable_built_ins_with_schemas():
    found = {one.op: one for one in catalog.every() if one.op.startswith("ticket/")}

    assert set(found) == OPERATIONS
    for one in found.values():
        assert (one.builtin, one.idempotent, one.provider) == (True, True, None)
        assert one.inputs.model_json_schema()["type"] == "object"
        assert one.outputs.model_json_schema()["type"] == "object"
    assert found["ticket/upsert"].inputs.model_json_schema()["required"] == ["externalId"]


class TestUpsert:
    def test_creates_and_makes_it_the_runs_ticket(self, shop, step):
        outputs = step("ticket/upsert", externalId="5001", title="Order 5001", type="order", tags=["late"])

        ticket = Ticket.objects.of(shop).get()
        assert (outputs["number"], outputs["created"]) == ("TK-1", True)
        assert outputs["ticket"] == services.representation(ticket)
        assert step.ticket == ticket
        entry = ticket.events.first()
        assert (entry.actor_kind, entry.actor_name) == ("automation", "Orders v3")

    def test_finds_and_makes_it_the_runs_ticket(self, on_ticket):
        outputs = on_ticket("ticket/upsert", externalId="5002", title="New", update=True)

        assert (outputs["number"], outputs["created"], outputs["ticket"]["title"]) == ("TK-2", False, "New")
        assert on_ticket.ticket.key == "TK-2"

    @pytest.mark.parametrize(
        ("given", "text"), [(5001, "5001"), (Decimal("12.50"), "12.50"), (2**70, str(2**70)), (True, "true")]
    )
    def test_a_number_as_the_external_id_is_its_text(self, step, given, text):
        assert step("ticket/upsert", externalId=given, title=given)["ticket"]["externalId"] == text

    def test_nulls_are_what_was_not_given(self, on_ticket):
        on_ticket("ticket/upsert", externalId="5001", title="A", status="x", requester={"name": "Eva"})
        outputs = on_ticket(
            "ticket/upsert",
            externalId="5001",
            title=None,
            status=None,
            tags=None,
            fields=None,
            requester={"name": None, "email": None},
            update=True,
        )

        shown = outputs["ticket"]
        assert (shown["title"], shown["status"], shown["version"]) == ("A", "x", 1)
        assert shown["requester"] == {"name": "Eva", "email": None}

    def test_one_tag_from_a_placeholder_is_a_list_of_one(self, step):
        assert step("ticket/upsert", externalId="5001", tags="late")["ticket"]["tags"] == ["late"]

    def test_decimals_of_fields_keep_their_digits(self, shop, step):
        amount = {"id": "f_amount", "key": "amount", "label": "Amount", "type": "number", "required": False}
        TicketTypeFactory(tenant=shop, key="invoice", fields=[amount])

        fields = {"amount": Decimal("12.50")}
        outputs = step("ticket/upsert", externalId="5001", type="invoice", fields=fields)

        assert str(outputs["ticket"]["fields"]["amount"]) == "12.50"
        assert str(services.read(shop, "5001").fields["amount"]) == "12.50"

    @pytest.mark.parametrize("inputs", [{}, {"externalId": None}, {"externalId": "1", "colour": "red"}])
    def test_inputs_that_are_no_inputs(self, step, inputs):
        with pytest.raises(ValidationError):
            step("ticket/upsert", **inputs)

    @pytest.mark.parametrize(
        ("inputs", "code"),
        [
            ({"externalId": ""}, "input.invalid"),
            ({"externalId": "  "}, "input.invalid"),
            ({"externalId": "1", "type": "nothing"}, "missing.type"),
            ({"externalId": "1", "type": "order", "status": "lost"}, "input.invalid"),
            ({"externalId": "1", "type": "order", "fields": {"size": 1}}, "input.invalid"),
        ],
    )
    def test_refusals_are_terminal(self, shop, step, inputs, code):
        with pytest.raises(TerminalError) as error:
            step("ticket/upsert", **inputs)

        assert error.value.code == code
        assert not Ticket.objects.of(shop).exists()
        assert step.ticket is None


class TestActingOnATicket:
    @pytest.mark.parametrize(
        ("op", "inputs", "shown"),
        [
            ("ticket/set-status", {"status": "handed over"}, {"status": "handed over"}),
            ("ticket/set-status", {"status": None}, {"status": None}),
            ("ticket/set-status", {"status": ""}, {"status": None}),
            ("ticket/set-type", {"type": "error"}, {"type": "error", "status": "new"}),
            ("ticket/set-type", {"type": None}, {"type": None, "status": "new"}),
            ("ticket/set-fields", {"fields": {"f_color": "red"}}, {"fields": {"color": "red"}}),
            ("ticket/add-tags", {"tags": ["b", "a"]}, {"tags": ["a", "b"]}),
            ("ticket/remove-tags", {"tags": ["a", "z"]}, {"tags": []}),
            ("ticket/close", {}, {"closed": True, "status": "new", "tags": ["a"]}),
            ("ticket/reopen", {}, {"closed": False}),
        ],
    )
    def test_changes_the_runs_ticket_and_has_no_outputs(self, shop, on_ticket, op, inputs, shown):
        assert on_ticket(op, **inputs) == {}

        present = services.representation(services.read(shop, 1))
        assert {key: present[key] for key in shown} == shown

    @pytest.mark.parametrize("number", ["TK-2", "tk-2", "2", 2, " TK-2 "])
    def test_acts_on_the_ticket_that_is_named(self, shop, on_ticket, number):
        on_ticket("ticket/add-tags", ticket=number, tags=["b"])

        assert services.read(shop, 2).tags == ["b"]
        assert services.read(shop, 1).tags == ["a"]
        assert on_ticket.ticket.key == "TK-1"

    def test_assigns(self, shop, on_ticket):
        assert on_ticket("ticket/assign", person="jana@shop.test") == {}
        assert services.read(shop, 1).assignee.name == "Jana"
        on_ticket("ticket/assign", group="dispatch")
        assert services.read(shop, 1).assignee is None

    def test_hands_to_the_least_busy(self, shop, on_ticket):
        outputs = on_ticket("ticket/assign-least-busy", group="warehouse")

        jana = services.read(shop, 1).assignee
        assert outputs == {"assignee": {"id": str(jana.public_id), "name": "Jana"}}

    def test_a_full_group_keeps_it_in_line(self, shop, on_ticket):
        Membership.objects.of(shop).update(capacity=0)

        outputs = on_ticket("ticket/assign-least-busy", group="warehouse", respectCapacity=True)

        assert outputs == {"assignee": None}
        assert services.read(shop, 1).group.key == "warehouse"

    def test_comments(self, shop, on_ticket):
        assert on_ticket("ticket/comment", text="Packed.", public=True) == {}

        entry = services.read(shop, 1).events.last()
        assert (entry.kind, entry.data) == ("comment", {"text": "Packed.", "public": True})

    @pytest.mark.parametrize(
        ("op", "inputs", "code"),
        [
            ("ticket/set-status", {"status": "lost"}, "input.invalid"),
            ("ticket/set-type", {"type": "nothing"}, "missing.type"),
            ("ticket/assign", {"person": "nobody@shop.test"}, "missing.person"),
            ("ticket/assign", {"group": "nothing"}, "missing.group"),
            ("ticket/assign-least-busy", {"group": "nothing"}, "missing.group"),
            ("ticket/set-fields", {"fields": {"size": 1}}, "input.invalid"),
            ("ticket/comment", {"text": " "}, "input.invalid"),
            ("ticket/close", {"ticket": "TK-99"}, "input.invalid"),
            ("ticket/close", {"ticket": "5002"}, "input.invalid"),
            ("ticket/close", {"ticket": "first"}, "input.invalid"),
            ("ticket/close", {"ticket": "9" * 30}, "input.invalid"),
        ],
    )
    def test_refusals_are_terminal_and_say_why(self, shop, on_ticket, op, inputs, code):
        with pytest.raises(TerminalError, match=r".+") as error:
            on_ticket(op, **inputs)

        assert error.value.code == code
        assert services.read(shop, 1).version == 1

    def test_another_tenants_ticket_is_none(self, stranger, on_ticket):
        with pytest.raises(TerminalError, match="There is no ticket TK-1"):
            Step(stranger)("ticket/close", ticket="TK-1")
        assert Step(stranger)("ticket/find", externalId="5002") == {"found": False, "ticket": None}

    @pytest.mark.parametrize("op", ["ticket/close", "ticket/reopen"])
    def test_without_any_ticket_the_step_says_what_to_do(self, step, op):
        with pytest.raises(TerminalError, match="Put ticket/upsert before this step") as error:
            step(op)
        assert error.value.code == "input.invalid"

    @pytest.mark.parametrize("inputs", [{}, {"person": "", "group": " "}, {"person": None}])
    def test_assigning_to_nobody_is_refused(self, on_ticket, inputs):
        with pytest.raises(ValidationError, match="person"):
            on_ticket("ticket/assign", **inputs)


class TestFind:
    @pytest.mark.parametrize(
        "inputs",
        [
            {"number": "TK-2"},
            {"number": 2},
            {"externalId": "5002"},
            {"externalId": 5002},
            {"filter": {"q": "oth"}},
            {"filter": {"closed": False}},
            {"filter": {"externalId": 5002, "assignee": "none"}},
        ],
    )
    def test_finds(self, shop, on_ticket, inputs):
        outputs = on_ticket("ticket/find", **inputs)

        assert outputs == {"found": True, "ticket": services.representation(services.read(shop, 2))}
        assert on_ticket.ticket.key == "TK-1"

    @pytest.mark.parametrize(
        "inputs", [{"number": "TK-9"}, {"externalId": "TK-1"}, {"filter": {"status": "new", "tag": "b"}}]
    )
    def test_finds_nothing(self, on_ticket, inputs):
        assert on_ticket("ticket/find", **inputs) == {"found": False, "ticket": None}

    @pytest.mark.parametrize("inputs", [{}, {"externalId": " "}, {"number": "TK-1", "externalId": "1"}])
    def test_wants_exactly_one_way(self, on_ticket, inputs):
        with pytest.raises(ValidationError):
            on_ticket("ticket/find", **inputs)

    @pytest.mark.parametrize(
        "narrowing", [{"colour": "red"}, {"closed": "perhaps"}, {"tag": ["a"]}, {"createdAfter": "yesterday"}]
    )
    def test_a_bad_filter_is_terminal(self, on_ticket, narrowing):
        with pytest.raises(TerminalError) as error:
            on_ticket("ticket/find", filter=narrowing)
        assert error.value.code == "input.invalid"


def test_a_run_finds_hands_over_sets_and_comments_on_one_ticket(shop, publish, enqueue, execute):
    steps = [
        ("ticket/upsert", {"externalId": "{{_body.id}}", "title": "Order {{_body.id}}", "type": "order"}),
        ("ticket/assign-least-busy", {"group": "warehouse"}),
        ("ticket/set-status", {"status": "new"}),
        ("ticket/comment", {"text": "{{st_2.assignee.name}} has it: {{ticket.status}}"}),
    ]
    tree = [
        {"id": f"st_{number}", "type": "action", "op": op, "inputs": inputs}
        for number, (op, inputs) in enumerate(steps, 1)
    ]

    run = execute(enqueue(publish(shop, tree), {"id": 5001}))

    assert (run.get_status_display(), run.error) == ("Done", None)
    entries = list(Ticket.objects.of(shop).get().events.order_by("id"))
    assert [entry.kind for entry in entries] == ["created", "event", "assigned", "changed", "comment"]
    assert {entry.run_id for entry in entries} == {run.public_id}
    assert entries[-1].data == {"text": "Jana has it: new", "public": False}
    assert run.ticket.external_id == "5001"
