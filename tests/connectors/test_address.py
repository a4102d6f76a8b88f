"""Whatever a step puts into path and query, the address stays under the connection's."""

from decimal import Decimal
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors import address

BASE = "https://shop.example:8443/api/v1"


@pytest.mark.parametrize(
    ("base", "checked"),
    [
        ("https://shop.example", "https://shop.example"),
        ("https://shop.example/", "https://shop.example"),
        ("http://shop.example/api/", "http://shop.example/api"),
        ("https://shop.example:8443/api/v1", "https://shop.example:8443/api/v1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://[::1]:8000/x", "http://[::1]:8000/x"),
        ("https://shop.example/objednávky", "https://shop.example/objedn%C3%A1vky"),
        ("https://shop.example/a%20b", "https://shop.example/a%20b"),
    ],
)
def test_a_base_is_kept_without_its_last_slash(base, checked):
    assert address.check_base(base) == checked


@pytest.mark.parametrize(
    "base",
    [
        "",
        "shop.example",
        "//shop.example",
        "ftp://shop.example",
        "https://",
        "https://:8443/",
        "https://jana:heslo@shop.example",
        "https://jana@shop.example",
        "https://shop.example?key=1",
        "https://shop.example/?",
        "https://shop.example/#part",
        "https://shop.example/../admin",
        "https://shop.example/%2e%2e/admin",
        "https://shop.example\\evil",
        "https://shop.example/a\nb",
        " https://shop.example",
        "https://shop.example ",
        "https://shop.example:99999",
        "https://shop.example/100%",
    ],
)
def test_what_is_no_base_is_refused(base):
    with pytest.raises(ValueError):
        address.check_base(base)


@pytest.mark.parametrize(
    ("path", "query", "joined"),
    [
        ("", None, ""),
        ("/", None, "/"),
        ("/orders", {}, "/orders"),
        ("orders", None, "/orders"),
        ("/orders/5001", None, "/orders/5001"),
        ("/orders/a%2Fb", None, "/orders/a%2Fb"),
        ("/orders/a%20b", None, "/orders/a%20b"),
        ("/orders/č", None, "/orders/%C4%8D"),
        ("/orders/a b", None, "/orders/a%20b"),
        ("/orders/...", None, "/orders/..."),
        ("/orders/.hidden", None, "/orders/.hidden"),
        ("/orders/a..b", None, "/orders/a..b"),
        ("/orders:batch", None, "/orders:batch"),
        ("/orders;v=1/x", None, "/orders;v=1/x"),
        ("/orders@home", None, "/orders@home"),
        ("/orders?limit=5", None, "/orders?limit=5"),
        ("/orders?limit=5", {"page": 2}, "/orders?limit=5&page=2"),
        ("/orders?q=č", None, "/orders?q=%C4%8D"),
        ("?limit=5", None, "?limit=5"),
        ("/orders", {"q": "a b&c=d?#"}, "/orders?q=a%20b%26c%3Dd%3F%23"),
        ("/orders", {"id": [1, 2, None], "no": None}, "/orders?id=1&id=2"),
        ("/orders", {"paid": True, "open": False}, "/orders?paid=true&open=false"),
        ("/orders", {"price": Decimal("12.50"), "big": Decimal("1E+3")}, "/orders?price=12.50&big=1000"),
        ("/orders", {"a&b": ""}, "/orders?a%26b="),
    ],
)
def test_path_and_query_are_added(path, query, joined):
    assert address.join(BASE, path, query) == BASE + joined


@pytest.mark.parametrize(
    "path",
    [
        "https://evil.example/",
        "HTTPS://evil.example/",
        "http:evil.example",
        "javascript:alert(1)",
        "//evil.example/",
        "///evil.example/",
        "\\\\evil.example\\",
        "/\\evil.example",
        "/orders\\..\\..",
        "..",
        "/..",
        "/../admin",
        "/orders/..",
        "/orders/../../admin",
        "/./orders",
        "/%2e%2e/admin",
        "/%2E%2e/admin",
        "/.%2e/admin",
        "/%252e%252e/admin",
        "/%25252e%25252e/admin",
        "/..%2fadmin",
        "/..%2F..%2Fadmin",
        "/orders/..%5c..%5cadmin",
        "/..%255cadmin",
        "/..;/admin",
        "/..;x=1/admin",
        "/%2e%2e%3b/admin",
        "/orders//5001",
        "/orders//",
        "/orders#part",
        "/orders\r\nHost: evil.example",
        "/orders%0d%0aHost:%20evil.example",
        "/orders%00",
        "/orders\t",
        " /orders",
        "/orders\u2028",
        "/orders/100%",
        "/orders/%zz",
        "/orders/%u002e",
        "/orders\ud800",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path):
    with pytest.raises(ValueError):
        address.join(BASE, path)


@pytest.mark.parametrize("query", [{"a": {"b": 1}}, {"a": [[1]]}, {"a": 1.5}, {"a": "\ud800"}])
def test_a_query_of_no_scalars_is_refused(query):
    with pytest.raises(ValueError):
        address.join(BASE, "/orders", query)


def expect_under_base(joined: str) -> None:
    """Assert that an address, read strictly or laxly, stays under the base."""
    assert joined.isascii()
    assert not any(char.isspace() or ord(char) < 32 for char in joined)
    parts = urlsplit(joined)
    base = urlsplit(BASE)
    assert (parts.scheme, parts.netloc) == (base.scheme, base.netloc)
    assert parts.path == base.path or parts.path.startswith(base.path + "/")
    decoded = parts.path
    for _ in range(6):
        depth = 0
        for segment in decoded.replace("\\", "/").split("/"):
            name = segment.split(";")[0]
            depth += -1 if name == ".." else 0 if name in ("", ".") else 1
            assert depth >= 0
        decoded = unquote(decoded)


TRICKY = st.text(alphabet="ab./\\%2e5cf;:@?#& \r\n\u0000č。", max_size=24) | st.text(max_size=12)


@settings(deadline=None)
@given(TRICKY, st.dictionaries(st.text(max_size=5), TRICKY | st.integers() | st.none(), max_size=3))
@example("/%2e%2e%2fadmin", {})
def test_no_path_leaves_the_base(path, query):
    try:
        joined = address.join(BASE, path, query)
    except ValueError:
        return
    expect_under_base(joined)


@settings(deadline=None)
@given(TRICKY)
def test_a_value_as_one_segment_stays_one_segment(value):
    """The engine percent-encodes placeholders; whatever the value, it stays below the segment before it."""
    try:
        joined = address.join(BASE, f"/orders/{quote(value, safe='')}/items")
    except ValueError:
        return
    expect_under_base(joined)
    segments = urlsplit(joined).path.split("/")
    assert segments[:4] == ["", "api", "v1", "orders"]
    assert segments[5:] == ["items"]
    assert unquote(segments[4]) == value


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=8), max_size=3))
def test_a_query_arrives_as_it_was_given(query):
    try:
        joined = address.join(BASE, "/orders", query)
    except ValueError:
        assert any("\ud800" <= char <= "\udfff" for text in [*query, *query.values()] for char in text)
        return
    arrived = parse_qs(urlsplit(joined).query, keep_blank_values=True)
    assert arrived == {name: [value] for name, value in query.items()}
