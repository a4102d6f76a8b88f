"""The house rules, executed: where things may be imported, who writes what, what everything has to declare.

Each rule gathers every fault of the whole source and names it with its file and line.
"""

import ast
import io
import re
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from importlinter.cli import lint_imports

from connectors import catalog
from connectors.catalog import Repeat, Shape
from csbot.lib import metrics
from incidents import messages
from tests import source
from tests.source import ROOT
from tickets import messages as ticket_messages
from tickets.models import TenantOwned

OWN_MODELS = {
    model.__name__: model for model in apps.get_models() if model.__module__.split(".")[0] in source.PACKAGES
}

LONGEST_FILE = 500
LONGEST_FUNCTION = 60

# Tables of the installation itself, and two that name their tenant in another way than TenantOwned does.
WITHOUT_TENANT = {
    "Tenant": "is the tenant",
    "Login": "one login may be a person of several tenants",
    "ApiToken": "a staff token belongs to none",
    "IdempotentAnswer": "an answer to staff may belong to none",
    "TicketCounter": "its tenant is its primary key",
    "WorkerProcess": "workers serve every tenant",
}

# Who may write the rows of a table; every other module asks one of these.
# They take away what is old: bodies of ended runs, and whole polls that found nothing (SPEC sections 5 and 7).
TIDIERS = {"runtime/queue/findings.py", "runtime/queue/retention.py"}
WRITERS = {
    "Ticket": {"tickets/services.py"},
    "TicketEvent": {"tickets/services.py"},
    "TicketCounter": {"tickets/numbers.py"},
    "Tenant": {"tickets/people.py"},
    "Person": {"tickets/people.py", "tickets/services.py"},
    "Group": {"tickets/people.py"},
    "Membership": {"tickets/people.py"},
    "TicketType": {"tickets/people.py"},
    "ApiToken": {"tickets/tokens.py"},
    "AuditEntry": {"tickets/audit.py"},
    "Connection": {"connectors/services.py", "connectors/refusals.py"},
    "Automation": {"automations/services.py"},
    "AutomationVersion": {"automations/services.py"},
    "Trigger": {"automations/services.py", "runtime/triggers/clock.py"},
    "WebhookToken": {"automations/tokens.py"},
    "Incident": {"incidents/services.py", "incidents/notify.py"},
    "RunStep": {"runtime/execution/journal.py", "runtime/services.py", *TIDIERS},
    "RunLog": {"runtime/services.py", "runtime/outcomes.py", *TIDIERS},
    "Reaction": {"runtime/triggers/reactions.py"},
    "Reconciliation": {"runtime/daily.py"},
    "Delivery": {"runtime/queue/states.py", "runtime/intake/delivery.py", "runtime/intake/rejected.py"},
    "WorkerProcess": {"runtime/queue/process.py"},
}
# A run's row is made, and its state changed, by its states alone; other columns have other writers.
STATE_WRITER = "runtime/queue/states.py"
WRITING = {"create", "bulk_create", "get_or_create", "update_or_create", "update", "bulk_update", "delete"}

# Queries across tenants outside the admin and the engine's own tables, each with its reason.
ACROSS_TENANTS = {
    ("csbot/demo.py", "ApiToken"): "makes the installation's staff token",
    ("incidents/notify.py", "Incident"): "staff are told of every tenant's incidents",
    ("incidents/services.py", "Incident"): "the engine names an incident by its inner id",
    ("runtime/triggers/clock.py", "Trigger"): "the clock fires every tenant's triggers",
    ("tickets/tenancy.py", "Person"): "finds out of which tenants a login is a person",
    ("tickets/api.py", "Person"): "lists the tenants of a login",
    ("tickets/tokens.py", "ApiToken"): "a token says which tenant it belongs to",
}
ENGINE_MODELS = {name for name, model in OWN_MODELS.items() if model._meta.app_label == "runtime"}

# Imports that have to wait, each with its reason.
LATE_IMPORTS = {"csbot/web.py": "Django is loaded by the server's worker process, not by its parent"}
# The worker settles whatever happens in a run; a thread that must not die has a net of its own.
BROAD_NETS = {"runtime/execution/worker.py", "runtime/queue/pump.py", "runtime/queue/wake.py"}
NO_NAMES = {"utils", "helpers", "common", "base", "core", "misc"}


def faults_of(found):
    """Fail with one line for each fault."""
    lines = sorted(found)
    assert not lines, f"{len(lines)} fault(s):\n" + "\n".join(lines)


def at(path, node):
    return f"{source.name_of(path)}:{getattr(node, 'lineno', node)}"


# Imports


def test_imports_point_down(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    status = lint_imports(config_filename="pyproject.toml", no_cache=True, no_logo=True)

    assert status == 0, capsys.readouterr().out


def test_no_function_imports():
    """Only `AppConfig.ready` may: it runs when every app is loaded."""
    found, used = set(), set()
    for path in source.files():
        for function in source.nodes(path, ast.FunctionDef, ast.AsyncFunctionDef):
            if path.name == "apps.py" and function.name == "ready":
                continue
            imports = [node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
            if imports and source.name_of(path) in LATE_IMPORTS:
                used.add(source.name_of(path))
            else:
                found |= {f"{at(path, node)}: an import inside a function" for node in imports}
    found |= {f"LATE_IMPORTS names {gone}, which has none" for gone in LATE_IMPORTS.keys() - used}
    faults_of(found)


# Who writes


def writes_of(path):
    """Each write of a table of ours in a file: (line, model, method, keywords)."""
    for node in source.nodes(path, ast.Call):
        names = source.chain(node)
        if len(names) > 2 and names[1] == "objects" and names[-1] in WRITING and names[0] in OWN_MODELS:
            yield node.lineno, names[0], names[-1], {keyword.arg for keyword in node.keywords}
    tables = {model._meta.db_table: name for name, model in OWN_MODELS.items()}
    for line, text in source.texts(path):
        for match in re.finditer(r"\b(INSERT INTO|UPDATE|DELETE FROM)\s+(\w+)", text):
            if match[2] in tables:
                assignments = re.split(r"\sWHERE\s", text[match.end() :])[0]
                columns = set(re.findall(r"(\w+) = ", assignments))
                yield line, tables[match[2]], match[1].lower(), columns


def test_each_table_has_its_writers():
    faults_of(
        f"{at(path, line)}: {method} of {model}, which is written by {', '.join(sorted(WRITERS[model]))} alone"
        for path in source.files()
        for line, model, method, _columns in writes_of(path)
        if model in WRITERS and source.name_of(path) not in WRITERS[model]
    )


def test_only_states_makes_runs_and_changes_their_state():
    found = []
    for path in source.files():
        if source.name_of(path) == STATE_WRITER:
            continue
        found += [
            f"{at(path, line)}: {method} of Run; a run's state is written by {STATE_WRITER} alone"
            for line, model, method, columns in writes_of(path)
            if model == "Run" and (method not in {"update"} or "status" in columns)
            if not (method == "delete from" and source.name_of(path) in TIDIERS)
        ]
    faults_of(found)


def test_nothing_is_saved_whole():
    """Never read, change, `save()`: what came in between would be lost. New rows and named columns are fine."""
    found = []
    for path in source.files():
        for node in source.nodes(path, ast.Call):
            names = source.chain(node)
            keywords = {keyword.arg for keyword in node.keywords}
            # A login is Django's; its `set_password` and `save` belong together.
            is_row = names[-1] == "save" and names[0] not in {"services", "po", "login"}
            if is_row and not keywords & {"update_fields", "force_insert"}:
                found.append(f"{at(path, node)}: {'.'.join(names)}() names no columns")
    faults_of(found)


# Tenants


def test_every_model_belongs_to_a_tenant():
    faults_of(
        f"{model.__module__}.{name} is not TenantOwned and not in WITHOUT_TENANT"
        for name, model in OWN_MODELS.items()
        if not issubclass(model, TenantOwned) and name not in WITHOUT_TENANT
    )
    assert WITHOUT_TENANT.keys() <= OWN_MODELS.keys(), "WITHOUT_TENANT names a model that is gone"


def test_queries_go_through_of_tenant():
    """`Model.objects.of(tenant)` everywhere but in the admin and over the engine's own tables inside the engine."""
    allowed_first = {"of", "create", "bulk_create", "get_or_create", "update_or_create", "raw"}
    found, used = [], set()
    for path in source.files():
        name = source.name_of(path)
        if path.name == "admin.py":
            continue
        for node in source.nodes(path, ast.Attribute):
            names = source.chain(node)
            if len(names) != 3 or names[1] != "objects" or names[2] in allowed_first:
                continue
            model = OWN_MODELS.get(names[0])
            is_owned = model is not None and (issubclass(model, TenantOwned) or names[0] == "ApiToken")
            is_engines = name.startswith("runtime/") and names[0] in ENGINE_MODELS
            if not is_owned or is_engines:
                continue
            used.add((name, names[0]))
            if (name, names[0]) not in ACROSS_TENANTS:
                found.append(f"{at(path, node)}: {'.'.join(names)} without .of(tenant)")
    found += [f"ACROSS_TENANTS names {gone}, which does so no more" for gone in ACROSS_TENANTS.keys() - used]
    faults_of(found)


# What everything declares


def test_every_operation_declares_what_it_takes_gives_and_how_often():
    assert list(catalog.every())
    found = []
    for operation in catalog.every():
        for side in (operation.inputs, operation.outputs):
            if not (isinstance(side, type) and issubclass(side, Shape)):
                found.append(f"{operation.op}: {side!r} is no Shape")
        if not (isinstance(operation.repeat, Repeat) or callable(operation.repeat)):
            found.append(f"{operation.op}: repeat is {operation.repeat!r}")
        if not str(operation.title):
            found.append(f"{operation.op}: no title")
        if not operation.builtin and operation.provider is None:
            found.append(f"{operation.op}: neither built in nor of a provider")
    faults_of(found)


ERROR_CLASSES = {"RetryableError", "TerminalError", "UncertainError"}


def codes_of_errors(path):
    """The codes that a file raises or opens incidents with; `http.*` where the end is made at run time."""
    for node in source.nodes(path, ast.Call):
        if source.called(node) in ERROR_CLASSES and node.args:
            given = node.args[0]
        elif source.called(node) == "open_incident":
            given = next((keyword.value for keyword in node.keywords if keyword.arg == "code"), None)
        else:
            continue
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            yield node, given.value
        elif isinstance(given, ast.JoinedStr) and isinstance(given.values[0], ast.Constant):
            yield node, f"{given.values[0].value}*"


def test_every_error_code_has_its_text_for_the_client():
    found = []
    for path in source.files():
        for node, code in codes_of_errors(path):
            known = (
                any(one.startswith(code[:-1]) for one in messages.IMPACTS)
                if code.endswith("*")
                else messages.has_text(code)
            )
            if not known:
                found.append(f"{at(path, node)}: {code} has no text in incidents/messages.py")
    found += [f"{code} of SPEC section 13 has no text" for code in messages.ERROR_CODES if not has_text(code)]
    faults_of(found)


def has_text(code):
    return messages.has_text(code.replace("<status>", "418"))


def test_every_line_of_a_tickets_log_has_a_text():
    """`tickets.log(ticket, kind, actor, code)` of any app."""
    faults_of(
        f"{at(path, node)}: {node.args[3].value} has no text in tickets/messages.py"
        for path in source.files()
        for node in source.nodes(path, ast.Call)
        if source.chain(node) in (["tickets", "log"], ["services", "log"], ["log"])
        and len(node.args) > 3
        and isinstance(node.args[3], ast.Constant)
        and node.args[3].value not in ticket_messages.TEXTS
    )


def test_every_metric_is_counted_somewhere():
    declared = [
        name for name, value in vars(metrics).items() if hasattr(value, "_metrics") or hasattr(value, "inc")
    ]
    declared += [name for name, value in vars(metrics).items() if hasattr(value, "observe")]
    declared = sorted(name for name in set(declared) if not isinstance(getattr(metrics, name), type))
    assert declared
    text = "\n".join(path.read_text() for path in source.files() if path.name != "metrics.py")
    faults_of(
        f"csbot/lib/metrics.py: nobody counts {name}"
        for name in declared
        if f"metrics.{name}" not in text and f"counted.{name}" not in text
    )


# How code reads


def modules_and_tests():
    return [*source.files(), *source.files("tests")]


def test_files_and_functions_stay_short():
    found = []
    for path in modules_and_tests():
        lines = len(path.read_text().splitlines())
        if lines > LONGEST_FILE:
            found.append(f"{source.name_of(path)}: {lines} lines, at most {LONGEST_FILE}")
        for node in source.nodes(path, ast.FunctionDef, ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            if length > LONGEST_FUNCTION:
                found.append(
                    f"{at(path, node)}: {node.name}() has {length} lines, at most {LONGEST_FUNCTION}"
                )
    faults_of(found)


def test_every_function_is_annotated():
    found = []
    for path in source.files():
        for node in source.nodes(path, ast.FunctionDef, ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            bare = [one.arg for one in arguments if one.annotation is None and one.arg not in {"self", "cls"}]
            if node.returns is None and node.name != "deconstruct":
                bare.append("return")
            if bare:
                found.append(f"{at(path, node)}: {node.name}() does not annotate {', '.join(bare)}")
    faults_of(found)


def test_every_public_name_has_a_docstring():
    found = []
    for path in source.files():
        if not ast.get_docstring(source.tree_of(path)) and path.read_text().strip():
            found.append(f"{source.name_of(path)}: the module says not what it is for")
        for node in source.tree_of(path).body:
            is_public = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
            # A management command says what it does in `help`.
            if is_public and node.name != "Command" and not ast.get_docstring(node):
                is_registration = path.name == "apps.py"
                if not is_registration:
                    found.append(f"{at(path, node)}: {node.name} has no docstring")
    faults_of(found)


def test_only_listed_places_catch_everything():
    found, used = [], set()
    for path in source.files():
        for node in source.nodes(path, ast.ExceptHandler):
            names = (
                {source.chain(part)[-1] for part in ast.walk(node.type)} if node.type else {"BaseException"}
            )
            is_let_go_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
            if names & {"Exception", "BaseException"} and not is_let_go_on:
                used.add(source.name_of(path))
                if source.name_of(path) not in BROAD_NETS:
                    found.append(f"{at(path, node)}: catches everything")
    found += [f"BROAD_NETS names {gone}, which catches nothing broad" for gone in BROAD_NETS - used]
    faults_of(found)


def test_nothing_is_put_off_and_no_name_says_nothing():
    found = [
        f"{at(path, number)}: {line.strip()}"
        for path in modules_and_tests()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"#.*\b(TODO|FIXME|XXX|HACK)\b", line) and path != Path(__file__)
    ]
    found += [
        f"{source.name_of(path)}: call it by its noun"
        for path in source.files()
        if path.stem in NO_NAMES or path.parent.name in NO_NAMES
    ]
    faults_of(found)


# The rest of the house


@pytest.mark.django_db
def test_no_migration_is_missing():
    out = io.StringIO()
    try:
        call_command("makemigrations", check=True, dry_run=True, stdout=out)
    except SystemExit:
        pytest.fail(out.getvalue())


def test_the_readme_maps_every_package():
    readme = (ROOT / "README.md").read_text()
    packages = [path.parent.name for path in ROOT.glob("*/__init__.py")]
    assert set(source.PACKAGES) <= set(packages), "a package is gone; source.PACKAGES names it still"
    faults_of(f"README.md does not name {name}/" for name in packages if f"`{name}/`" not in readme)
