"""What a Content-Type says and which charsets are read, whatever a sender or a service writes there."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csbot.lib import charsets
from csbot.lib.charsets import ContentType, UnknownCharset

MIB = 1024 * 1024
# A codec that is quadratic takes minutes for so much; a proportional one less than a second.
LARGEST_ANSWER = 5 * MIB
BOUND_SECONDS = 10.0

HEADERS = [
    (None, ContentType("")),
    ("", ContentType("")),
    (" Text/HTML ", ContentType("text/html")),
    ("text/html; charset=utf-8", ContentType("text/html", "utf-8")),
    ("text/html;CHARSET = utf-8 ;a=b", ContentType("text/html", "utf-8")),
    ('text/html; charset="utf-8"', ContentType("text/html", "utf-8")),
    (r'text/html; charset="utf\-8"', ContentType("text/html", "utf-8")),
    ('text/html; charset="', ContentType("text/html", '"')),
    ("text/html; charset=", ContentType("text/html")),
    ("text/html; charset", ContentType("text/html")),
    ("text/html; charset=a; charset=b", ContentType("text/html", "a")),
    ('text/html; a="; charset=b"; charset=c', ContentType("text/html", "c")),
    ("; charset=a", ContentType("", "a")),
    ('multipart/form-data; boundary="a;b"', ContentType("multipart/form-data", None, "a;b")),
    # RFC 2231, which HTTP does not use here: it names codecs and contradicts itself.
    ("text/html; charset*=utf-8''%00x", ContentType("text/html")),
    ("text/html; charset*=punycode''a", ContentType("text/html")),
    ("text/html; charset*=a; charset*0=b", ContentType("text/html")),
    ("text/html; charset*" + "9" * 5000 + "=a; charset=b", ContentType("text/html", "b")),
]


@pytest.mark.parametrize(("header", "said"), HEADERS)
def test_a_header_is_read_without_help(header, said):
    assert charsets.content_type(header) == said


@settings(deadline=None)
@given(st.text(alphabet=";=\" \\*'%0achrset\x00\r\n\udcff", max_size=60).map("text/plain; ".__add__))
def test_no_header_is_too_strange(header):
    said = charsets.content_type(header)
    assert said.name.startswith("text/plain")
    try:
        assert charsets.codec_of(said.charset) in charsets.CODECS
    except UnknownCharset:
        assert said.charset


@pytest.mark.parametrize(
    "part", [";", '"', "\\", ';a="', ';a="\\', "; a = ", ";a", " ", "=", ";charset=a", "a;"]
)
def test_reading_a_header_takes_time_in_proportion(part):
    begun = time.monotonic()
    charsets.content_type("a" + part * (MIB // len(part)))
    assert time.monotonic() - begun < BOUND_SECONDS


@pytest.mark.parametrize(
    ("charset", "codec"),
    [
        (None, "utf_8"),
        ("UTF-8", "utf_8"),
        ("utf8", "utf_8"),
        ("windows-1250", "cp1250"),
        ("ISO-8859-2", "iso8859_2"),
        ("us-ascii", "ascii"),
        ("utf-16le", "utf_16_le"),
    ],
)
def test_names_of_charsets(charset, codec):
    assert charsets.codec_of(charset) == codec


NO_CHARSETS = [
    "punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "hex", "base64", "zlib", "bz2", "rot13",
    "uu", "quopri", "mbcs", "oem", "utf_7", "utf-8-sig", "klingon", "ř", "a\x00", "\udcff", "../utf_8", "utf.8..",
    "os", "__init__", "aliases", "x" * MIB,
]  # fmt: skip


@pytest.mark.parametrize("charset", NO_CHARSETS, ids=lambda charset: ascii(charset)[:20])
def test_what_is_no_charset(charset):
    with pytest.raises(UnknownCharset):
        charsets.codec_of(charset)
    with pytest.raises(UnknownCharset):
        charsets.opened(b"a", charset)


@pytest.mark.parametrize("codec", sorted(charsets.CODECS))
def test_every_charset_takes_time_in_proportion(codec):
    begun = time.monotonic()
    for unit in (b"a", b"\x1b$B", b"\x81\x30", b"\x00\xd8", b"-\xff~{"):
        content = (unit * (LARGEST_ANSWER // len(unit)))[: LARGEST_ANSWER // 4 * 4]
        try:
            assert isinstance(content.decode(codec), str)
        except UnicodeDecodeError as error:
            assert error.start >= 0
    assert time.monotonic() - begun < BOUND_SECONDS


@pytest.mark.parametrize("written", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_bom_goes_before_the_charset(written):
    for charset in (None, "windows-1250", "punycode"):
        content, codec = charsets.opened("č".encode(written), charset)
        assert content.decode(codec) == "č"


def test_the_charset_counts_without_a_bom():
    assert charsets.opened(b"\xe8", "windows-1250") == (b"\xe8", "cp1250")
