"""The Czech texts: what the source marks for translation, the .po that people edit, the .mo Django reads.

`python -m csbot.locale.catalog` brings new msgids into the .po, drops those that are gone, compiles the .mo.
It needs polib of the dev group and none of the gettext tools, which an empty machine does not have.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polib

ROOT = Path(__file__).resolve().parent.parent.parent
PO = Path(__file__).resolve().parent / "cs" / "LC_MESSAGES" / "django.po"
MO = PO.with_suffix(".mo")
PACKAGES = ("csbot", "tickets", "connectors", "automations", "incidents", "runtime")

# Function -> its arguments that are texts. Each has a `_lazy` and some a `_noop` form.
MARKERS = {
    "_": ["msgid"],
    "gettext": ["msgid"],
    "ngettext": ["msgid", "plural"],
    "pgettext": ["context", "msgid"],
    "npgettext": ["context", "msgid", "plural"],
}


@dataclass(frozen=True, order=True)
class Text:
    """One text to translate, as the source names it."""

    msgid: str
    plural: str = ""
    context: str = ""


def marked() -> dict[Text, list[str]]:
    """Return every text that the source marks, with the files that use it."""
    found: dict[Text, list[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for text in _texts_of(ast.parse(path.read_text())):
                files = found.setdefault(text, [])
                name = str(path.relative_to(ROOT))
                if name not in files:
                    files.append(name)
    return found


def _texts_of(tree: ast.AST) -> Iterator[Text]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        parts = MARKERS.get(name.removesuffix("_lazy").removesuffix("_noop"))
        if parts is None:
            continue
        texts = [
            argument.value
            for argument in node.args[: len(parts)]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
        if len(texts) == len(parts):
            yield Text(**dict(zip(parts, texts, strict=True)))


def text_of(entry: polib.POEntry) -> Text:
    """Return the text that an entry of the .po translates."""
    return Text(entry.msgid, entry.msgid_plural or "", entry.msgctxt or "")


def read() -> polib.POFile:
    """Return the .po as people edited it."""
    return polib.pofile(str(PO), wrapwidth=100)


def update() -> list[Text]:
    """Bring the .po up to the source and compile the .mo; return the texts that wait for a translation."""
    texts, po = marked(), read()
    known = {text_of(entry): entry for entry in po}
    for text in known.keys() - texts.keys():
        po.remove(known[text])
    for text in texts.keys() - known.keys():
        plural = {0: "", 1: "", 2: ""} if text.plural else {}
        po.append(
            polib.POEntry(
                msgid=text.msgid, msgid_plural=text.plural, msgstr_plural=plural, msgctxt=text.context or None
            )
        )
    for entry in po:
        entry.occurrences = [(name, "") for name in texts[text_of(entry)]]
    po.sort(key=lambda entry: (entry.occurrences[0][0], entry.msgid))
    po.save(str(PO))
    po.save_as_mofile(str(MO))
    return sorted(text_of(entry) for entry in po.untranslated_entries())


if __name__ == "__main__":
    for waiting in update():
        print(f"not translated: {waiting.msgid}")
