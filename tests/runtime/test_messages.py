"""Every line that the source can write into a run's log has a text, in both languages."""

import ast
from pathlib import Path

import pytest

from runtime import messages

ROOT = Path(__file__).resolve().parent.parent.parent
VALUES = {
    "count": 2,
    "names": ["a.pdf", "b.pdf"],
    "param": "docId",
    "path": "document.id",
    "type": "string",
    "got": "array",
    "message": "half are missing",
    "actor": "Jana",
    "run": "7f0c",
}


def code_of(node):
    """The code that a call writes: a text, the beginning of one that is completed at run time, else None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
        return f"{node.values[0].value}*"
    return None


def codes_of(path):
    """The codes of log lines in a file: `note(tenant, run, code)`, `call.log(code)` and `Note(code, params)`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        owner = getattr(getattr(function, "value", None), "id", "")
        position = {"note": 2, "Note": 0}.get(name, 0 if (owner, name) == ("call", "log") else None)
        if position is not None and len(node.args) > position:
            code = code_of(node.args[position])
            if code:
                yield code


def used():
    files = [
        path
        for package in ("automations", "connectors", "runtime")
        for path in (ROOT / package).rglob("*.py")
    ]
    return {code: path.relative_to(ROOT) for path in files for code in codes_of(path)}


def test_the_search_finds_what_is_known_to_be_there():
    assert {"flow.log", "body.replaced", "run.retried", "run.resolved.*"} <= used().keys()


@pytest.mark.parametrize(("code", "file"), sorted(used().items()))
def test_each_code_of_the_source_has_a_text(code, file):
    if code.endswith("*"):
        assert any(known.startswith(code[:-1]) for known in messages.TEXTS), f"{code} of {file}"
    else:
        assert code in messages.TEXTS, f"{code} of {file} has no text in runtime/messages.py"


@pytest.mark.parametrize("code", messages.TEXTS)
def test_each_text_reads_whole_in_both_languages(code):
    english, czech = (messages.rendered(code, VALUES, language) for language in ("en", "cs"))

    for shown in (english, czech):
        assert shown
        assert "%(" not in shown
        assert "['" not in shown
    assert english != czech or code == "flow.log"


def test_an_unknown_code_reads_as_itself():
    assert messages.rendered("flow.unheardOf", {"message": "x"}, "cs") == "flow.unheardOf"


def test_an_old_line_without_a_parameter_never_breaks_a_log():
    assert messages.rendered("run.started", {}, "en") == "Started by ."


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (1, "V těle byl nahrazen %s znak, který nelze uložit."),
        (2, "V těle byly nahrazeny %s znaky, které nelze uložit."),
        (5, "V těle bylo nahrazeno %s znaků, které nelze uložit."),
    ],
)
def test_czech_counts_in_three_ways(count, shown):
    assert messages.rendered("body.replaced", {"count": count}, "cs") == shown % count
