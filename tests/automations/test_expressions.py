"""Templates: what they look up, how it comes out, what they refuse (SPEC section 3.1)."""

from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from automations import expressions
from automations.expressions import FILTERS, MISSING, Placeholder, TemplateError
from automations.filters import MAX_PLACES
from automations.values import MAX_DIGITS, json_of
from tests.automations.properties import PATIENT

PRAGUE = ZoneInfo("Europe/Prague")
NAMES: dict[str, Any] = {
    "text": "Jana",
    "blank": "  ",
    "empty": "",
    "null": None,
    "yes": True,
    "no": False,
    "zero": 0,
    "id": 820982911946154508,
    "price": Decimal("12.50"),
    "float": 0.1,
    "list": ["a", 1, None, {"b": Decimal("1.0")}],
    "nothing": [],
    "object": {"b": Decimal("12.50"), "ř": "ž"},
    "hostile": "{{text}} {{ text | upper }}",
    "when": "2026-11-02T13:05:00Z",
    "day": "2026-11-02",
    "st_1": {"status": 200, "body": {"items": [{"sku": "A"}], "a.b": "dots"}},
    "_headers": {"x-github-event": "push"},
}


def lookup(path: str) -> Any:
    return expressions.resolve(NAMES, path)


def render(template: Any) -> Any:
    return expressions.render(template, lookup, zone=PRAGUE)


RENDERED = [
    # A lone placeholder keeps the type
    ("{{text}}", "Jana"),
    ("{{ text }}", "Jana"),
    ("{{\n text\t}}", "Jana"),
    ("{{price}}", Decimal("12.50")),
    ("{{id}}", 820982911946154508),
    ("{{yes}}", True),
    ("{{zero}}", 0),
    ("{{null}}", None),
    ("{{list}}", NAMES["list"]),
    ("{{object}}", NAMES["object"]),
    ("{{empty}}", ""),
    ("{{nowhere}}", MISSING),
    ("{{text.upper}}", MISSING),
    ("{{st_1.status}}", 200),
    ("{{st_1.body.items.0.sku}}", "A"),
    ("{{st_1.body.a.b}}", "dots"),
    (r"{{st_1.body.a\.b}}", "dots"),
    ("{{st_1.body.items.1.sku}}", MISSING),
    ("{{_headers.x-github-event}}", "push"),
    ("{{object.ř}}", "ž"),
    # Inside a text it becomes text
    ("", ""),
    ("plain", "plain"),
    ("}} { {", "}} { {"),
    (" {{price}}", " 12.50"),
    ("{{price}}{{price}}", "12.5012.50"),
    ("<{{yes}}|{{no}}|{{zero}}|{{null}}|{{nowhere}}>", "<true|false|0||>"),
    ("#{{id}}", "#820982911946154508"),
    ("{{float}} {{list}}", '0.1 ["a",1,null,{"b":1.0}]'),
    ("o: {{object}}", 'o: {"b":12.50,"ř":"ž"}'),
    ('{"a":{"b":{{zero}}}}', '{"a":{"b":0}}'),
    # One pass only
    ("{{hostile}}", "{{text}} {{ text | upper }}"),
    ("x {{hostile}}", "x {{text}} {{ text | upper }}"),
    ("{{hostile | lower}}", "{{text}} {{ text | upper }}"),
    ('{{nowhere | default: "{{text}}"}}', "{{text}}"),
    # Objects and arrays at every depth; what did not arrive is left out
    (
        {"a": "{{price}}", "b": ["{{text}}", {"c": "{{zero}}"}], "d": 5},
        {"a": Decimal("12.50"), "b": ["Jana", {"c": 0}], "d": 5},
    ),
    ({"a": "{{nowhere}}", "b": "{{null}}", "c": "x{{nowhere}}"}, {"b": None, "c": "x"}),
    (["{{nowhere}}", "{{text}}"], ["Jana"]),
    ({"{{text}}": 1}, {"{{text}}": 1}),
    (7, 7),
    (None, None),
    (True, True),
    # Filters
    ('{{nowhere | default: "x"}}', "x"),
    ("{{null|default:'x'}}", "x"),
    ('{{blank | default: "x"}}', "x"),
    ("{{nothing | default: 5}}", 5),
    ("{{nothing | default: 5.50}}", Decimal("5.50")),
    ("{{empty | default: true}}", True),
    ("{{empty | default: false}}", False),
    ("{{zero | default: 5}}", 0),
    ("{{no | default: 5}}", False),
    ("{{text | default: nowhere}}", TemplateError),
    ('{{empty | default: "say \\"hi\\" \\\\"}}', 'say "hi" \\'),
    ("{{empty | default: 'it\\'s'}}", "it's"),
    ('{{empty | default: "a|b}}c"}}', "a|b}}c"),
    ('{{empty | default: "a\\nb"}}', "a\\nb"),
    ('{{day | date: "d. m. Y"}}', "02. 11. 2026"),
    ('{{when | date: "j. n. Y H:i"}}', "2. 11. 2026 14:05"),
    ('{{day | date: "H:i O"}}', "00:00 +0100"),
    ('{{empty | date: "Y"}}', ""),
    ('{{null | date: "Y"}}', None),
    ('{{nowhere | date: "Y"}}', MISSING),
    ('{{text | date: "Y"}}', TemplateError),
    ('{{zero | date: "Y"}}', TemplateError),
    ('{{hostile | date: "Y"}}', TemplateError),
    ('{{day | date: "D \\d\\e Y"}}', "Mon de 2026"),
    ("{{price | number: 2}}", "12.50"),
    ("{{price | number: 0}}", "13"),
    ('{{price | number: 2, ","}}', "12,50"),
    ("{{zero | number: 2}}", "0.00"),
    ("{{float | number: 3}}", "0.100"),
    ('{{empty | default: "2.345" | number: 2}}', "2.35"),
    ('{{empty | default: "-0.001" | number: 2}}', "0.00"),
    ('{{empty | default: "-2.5" | number: 0}}', "-3"),
    ("{{id | number: 1}}", "820982911946154508.0"),
    ("{{text | number: 2}}", TemplateError),
    ("{{yes | number: 2}}", TemplateError),
    ("{{empty | number: 2}}", ""),
    ("{{nowhere | number: 2}}", MISSING),
    ("{{null | number: 2}}", None),
    ("{{text | lower}}", "jana"),
    ("{{text | upper}}", "JANA"),
    ("{{text | upper | lower}}", "jana"),
    ("{{yes | upper}}", "TRUE"),
    ("{{price | upper}}", "12.50"),
    ("{{null | upper}}", None),
    ("{{nowhere | upper}}", MISSING),
    ("{{blank | trim}}", ""),
    ("{{object | json}}", '{"b":12.50,"ř":"ž"}'),
    ("{{text | json}}", '"Jana"'),
    ("{{null | json}}", "null"),
    ("{{nowhere | json}}", MISSING),
    ("{{list | first}}", "a"),
    ("{{nothing | first}}", MISSING),
    ("{{text | first}}", "Jana"),
    ("{{nowhere | first}}", MISSING),
    ("{{list | join}}", 'a, 1, , {"b":1.0}'),
    ('{{list | join: "-"}}', 'a-1--{"b":1.0}'),
    ("{{nothing | join}}", ""),
    ("{{price | join}}", "12.50"),
    ("{{null | join}}", None),
    ("{{nowhere | join}}", MISSING),
]


@pytest.mark.parametrize(("template", "value"), RENDERED, ids=[repr(row[0])[:40] for row in RENDERED])
def test_rendering(template, value):
    if value is TemplateError:
        with pytest.raises(TemplateError):
            render(template)
        return
    rendered = render(template)
    assert (rendered, type(rendered)) == (value, type(value))


REFUSED = {
    "open": "{{a",
    "open at the end": "a {{",
    "half closed": "{{a}",
    "empty": "{{}}",
    "blank": "{{ }}",
    "braces": "{{{a}}}",
    "nested": "{{a{{b}}}}",
    "empty key": "{{a..b}}",
    "dot first": "{{.a}}",
    "blank key": "{{a. .b}}",
    "dot last": "{{a.}}",
    "unknown filter": "{{a | shell}}",
    "no filter": "{{a |}}",
    "empty filter": "{{a | | upper}}",
    "digit filter": "{{a | 1}}",
    "no argument": "{{a | default}}",
    "empty argument": "{{a | default: }}",
    "argument missing after comma": "{{a | number: 2, }}",
    "too many arguments": '{{a | upper: "x"}}',
    "three arguments": '{{a | number: 2, ",", "."}}',
    "open text": '{{a | default: "x}}',
    "bare word": "{{a | default: x}}",
    "places are text": '{{a | number: "2"}}',
    "places are fractions": "{{a | number: 1.5}}",
    "places below zero": "{{a | number: -1}}",
    "too many places": f"{{{{a | number: {MAX_PLACES + 1}}}}}",
    "point is a number": "{{a | number: 2, 3}}",
    "date without letters": "{{a | date}}",
    "date of a number": "{{a | date: 5}}",
    "separator is a number": "{{a | join: 1}}",
    "endless path": "{{" + "a." * 100 + "a}}",
    "code": "{{a | default: __import__('os')}}",
}


@pytest.mark.parametrize("template", REFUSED.values(), ids=REFUSED)
def test_bad_syntax_is_refused_with_its_position(template):
    with pytest.raises(TemplateError) as caught:
        expressions.placeholders(template)
    assert template[caught.value.position :].startswith("{{")
    assert caught.value.message


@pytest.mark.parametrize("template", ["{{text | date: 'Y'}}", "so: {{text | number: 2}}"])
def test_a_value_that_does_not_fit_is_told(template):
    with pytest.raises(TemplateError, match=r'expected .* came text "Jana"') as caught:
        render(template)
    assert caught.value.position == template.index("{{")


def test_a_long_value_is_told_by_its_kind_only():
    with pytest.raises(TemplateError, match=r"came text\.$"):
        expressions.render("{{a | number: 1}}", lambda path: "x" * 41)
    with pytest.raises(TemplateError, match=r'came text "x{40}"\.$'):
        expressions.render("{{a | number: 1}}", lambda path: "x" * 40)


def test_placeholders_tell_path_filters_and_position():
    first, second = expressions.placeholders('a {{ _body.x | default: "y" | upper }}{{ b }}')
    assert (first.path, first.position, [call.name for call in first.filters]) == (
        "_body.x",
        2,
        ["default", "upper"],
    )
    assert first.filters[0].arguments == ("y",)
    assert second == Placeholder("b", (), 38)
    assert expressions.placeholders("none") == []


def test_a_path_may_have_a_hundred_keys():
    (long,) = expressions.placeholders("{{" + "a." * 99 + "a}}")
    assert len(long.path) == 199


def test_a_lone_placeholder():
    assert expressions.is_lone("{{a | upper}}")
    assert not any(map(expressions.is_lone, ["{{a}} ", "", "a", "{{a}}{{b}}"]))


def test_dates_without_a_zone_of_the_reader_keep_their_own():
    template = '{{when | date: "H:i"}} {{day | date: "H:i O"}}'
    assert expressions.render(template, lookup) == "13:05 00:00 +0000"
    assert (
        expressions.render('{{a | date: "Y"}}', lambda path: "0001-01-01T00:00:00+14:00", zone=PRAGUE)
        == "0001"
    )


def test_names_are_of_the_readers_language():
    template = '{{day | date: "l j. E Y"}}'
    assert expressions.render(template, lookup, language="cs") == "pondělí 2. listopadu 2026"
    assert expressions.render(template, lookup, language="xx") == "Monday 2. November 2026"


def test_a_long_template_is_rendered_as_well():
    assert render("x" * 5000 + "{{text}}") == "x" * 5000 + "Jana"


def test_a_number_of_all_its_digits_is_rounded():
    assert (
        expressions.render("{{a | number: 20}}", lambda path: int("9" * MAX_DIGITS))
        == "9" * MAX_DIGITS + "." + "0" * 20
    )


@pytest.mark.parametrize("name", FILTERS)
def test_the_catalogues_example_of_a_filter_can_be_run(name):
    one = FILTERS[name]
    assert one.signature.startswith(name)
    assert one.doc.endswith(".")
    assert [call.name for part in expressions.placeholders(one.example) for call in part.filters] == [name]
    assert expressions.render(one.example, lambda path: MISSING) in (MISSING, "unknown")


class Trap:
    """An object that no template may look into."""

    secret = "x"

    def __getitem__(self, key: str) -> str:
        raise AssertionError("looked into")


@pytest.mark.parametrize(
    "path", ["trap.secret", "trap.0", "text.__class__", "list.append", "object.keys", "", "object.b.real"]
)
def test_only_data_can_be_reached(path):
    assert expressions.resolve({**NAMES, "trap": Trap()}, path) is MISSING


PATHS = [
    ("/orders/{{text}}", "/orders/Jana"),
    ("/orders", "/orders"),
    ("/o/{{id}}/lines", "/o/820982911946154508/lines"),
    ("/{{slash}}", "/a%2Fb%3Fc%23d%25"),
    ("/{{space}}", "/a%20%C5%99"),
    ("/{{nowhere}}", "/"),
    ("/x?a={{slash}}", "/x?a=a%2Fb%3Fc%23d%25"),
    ("/x?a=..", "/x?a=.."),
    ("/x#/..", "/x#/.."),
    ("/{{text | upper}}", "/JANA"),
    ("/a.b/...", "/a.b/..."),
    ("/{{surrogate}}", "/%3F"),
    ("/{{encoded}}", "/%252e%252e"),
]
SEGMENTS = {
    **NAMES,
    "slash": "a/b?c#d%",
    "space": "a ř",
    "dot": ".",
    "dots": "..",
    "surrogate": "\ud800",
    "encoded": "%2e%2e",
}


@pytest.mark.parametrize(("template", "path"), PATHS)
def test_paths_are_encoded_by_segment(template, path):
    assert expressions.render_path(template, lambda name: expressions.resolve(SEGMENTS, name)) == path


@pytest.mark.parametrize(
    "template",
    [
        "/{{dot}}",
        "/{{dots}}/x",
        "/..",
        "/./x",
        "/%2e%2E",
        "/.{{dot}}",
        "/a\\..\\b",
        "/{{dot}}{{dot}}",
        "/%2e/?x",
    ],
)
def test_a_path_never_climbs(template):
    with pytest.raises(TemplateError) as caught:
        expressions.render_path(template, lambda name: expressions.resolve(SEGMENTS, name))
    assert caught.value.position == 0


TEXTS = st.text() | st.sampled_from(["{{text}}", "{{", "}}", "{{text | upper}}", '{{a | default: "b"}}'])


@PATIENT
@given(TEXTS)
def test_rendering_never_evaluates_data(value):
    names = {"a": value, "text": "SECRET"}
    at = names.get
    assert expressions.render("{{a}}", at) == value
    assert expressions.render("<{{a}}>", at) == f"<{value}>"
    assert expressions.render({"k": ["{{a}}"]}, at) == {"k": [value]}
    assert expressions.render("{{a | json}}", at) == json_of(value)
    assert expressions.render("{{a | trim}}", at) == value.strip()


@PATIENT
@given(TEXTS, TEXTS, st.sampled_from([*FILTERS, "x", ""]))
def test_nothing_but_the_declared_error_is_raised(before, after, name):
    try:
        expressions.render(f"{before}{{{{ text | {name}{after} }}}}", lambda path: before)
    except TemplateError as error:
        assert error.position >= 0


@PATIENT
@given(st.text())
def test_a_text_without_braces_is_itself(text):
    text = text.replace("{{", "")
    if "{{" not in text:
        assert expressions.render(text, lambda path: "never") == text
