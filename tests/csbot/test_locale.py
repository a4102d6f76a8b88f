"""Both languages are whole: every marked text has its Czech one, and Django reads what people edited."""

import re

import polib
import pytest

from csbot.locale import catalog

ENTRIES = list(catalog.read())


def placeholders(text):
    return sorted(re.findall(r"%\([A-Za-z]+\)[sd]|%%|\{[a-z_]*\}", text))


def translations(entry):
    return list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]


def test_the_catalogue_holds_exactly_what_the_source_marks():
    listed = {catalog.text_of(entry) for entry in ENTRIES}
    marked = catalog.marked()

    missing, gone = sorted(marked.keys() - listed), sorted(listed - marked.keys())
    advice = "; run `python -m csbot.locale.catalog` and translate what it prints"
    assert not missing, f"not in the catalogue: {missing}{advice}"
    assert not gone, f"not in the source any more: {gone}{advice}"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.msgid[:50])
def test_each_text_is_translated_with_the_same_placeholders(entry):
    assert not entry.fuzzy
    for translated in translations(entry):
        assert translated.strip(), f"not translated: {entry.msgid}"
        assert placeholders(translated) == placeholders(entry.msgid)


def test_the_compiled_catalogue_is_made_of_the_edited_one():
    compiled = {catalog.text_of(entry): translations(entry) for entry in polib.mofile(str(catalog.MO))}
    edited = {catalog.text_of(entry): translations(entry) for entry in ENTRIES}

    assert compiled == edited, "run `python -m csbot.locale.catalog`"


def test_plurals_have_the_three_forms_of_czech():
    assert "nplurals=3" in catalog.read().metadata["Plural-Forms"]
    for entry in ENTRIES:
        if entry.msgid_plural:
            assert sorted(entry.msgstr_plural) == [0, 1, 2]
