"""The source as the house rules see it: files, their syntax trees, and chains such as `Run.objects.of(x).update`."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("csbot", "tickets", "connectors", "automations", "incidents", "runtime")


def files(*packages: str) -> list[Path]:
    """Every module of the packages but migrations, which are written by a program."""
    found = [path for package in packages or PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [path for path in found if "migrations" not in path.parts]


def name_of(path: Path) -> str:
    """The path as people write it: `runtime/queue/states.py`."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(), filename=str(path))


def nodes(path: Path, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of these kinds in a file."""
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, kinds))


def called(node: ast.Call) -> str:
    """The last name of what is called: `update` of `Run.objects.update()`."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def chain(node: ast.AST) -> list[str]:
    """The names from the root of an expression to its end: `["Run", "objects", "of", "update"]`."""
    names: list[str] = []
    while True:
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        else:
            names.append(node.id if isinstance(node, ast.Name) else "")
            return names[::-1]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every text in a file that is no docstring, with its line; the fixed parts of f-strings as one text."""
    docstrings = {
        id(node.body[0].value)
        for node in nodes(path, ast.Module, ast.ClassDef, ast.FunctionDef)
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes(path, ast.Constant, ast.JoinedStr):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            yield node.lineno, " ".join(map(str, parts))
        elif isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
