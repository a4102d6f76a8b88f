"""What a Content-Type says, and the text of a body under it. Pure; nothing a header says picks code to run.

Only the charsets listed here are read: Python itself also knows "charsets" that run in quadratic time
(punycode) or are none (unicode_escape), and for a name that it does not know it looks for a file and remembers
the name for ever. The e-mail package is no reader of such headers either: it decodes parameters of RFC 2231 by
any codec that they name, and fails on others.
"""

from __future__ import annotations

import codecs
import encodings
import encodings.aliases
import re
from typing import NamedTuple


class UnknownCharset(ValueError):
    """The charset is none of those that are read."""


class ContentType(NamedTuple):
    """A Content-Type: the media type in lower case ("" without one), and two parameters, None when not there."""

    name: str
    charset: str | None = None
    boundary: str | None = None


# RFC 9110 section 5.6.6, and blanks around "=" as people write them. Each loop keeps what it took, so that the
# whole takes time in proportion to the header.
_PARAMETER = re.compile(r';\s*+([^\s;="]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^;]*+))', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def content_type(header: str | None) -> ContentType:
    """Return what `header` says. Never raises.

    What is no parameter is passed over, also those of RFC 2231 (`charset*=…`); of equal ones the first counts.
    """
    name, semicolon, rest = (header or "").partition(";")
    found: dict[str, str] = {}
    for key, quoted, plain in _PARAMETER.findall(semicolon + rest):
        found.setdefault(key.lower(), _ESCAPED.sub(r"\1", quoted) or plain.strip())
    charset = (found.get("charset") or "").strip()
    return ContentType(name.strip().lower(), charset or None, found.get("boundary"))


# BOMs in the order in which they can be told apart: that of UTF-32 little endian begins with that of UTF-16.
_BOMS = (
    (codecs.BOM_UTF8, "utf_8"),
    (codecs.BOM_UTF32_LE, "utf_32_le"),
    (codecs.BOM_UTF32_BE, "utf_32_be"),
    (codecs.BOM_UTF16_LE, "utf_16_le"),
    (codecs.BOM_UTF16_BE, "utf_16_be"),
)
# The Encoding Standard's, UTF-32 and the DOS code pages of old Czech systems. Each takes time in proportion.
# fmt: off
CODECS = frozenset({
    "ascii", "utf_8", "utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be", "latin_1",
    "iso8859_2", "iso8859_3", "iso8859_4", "iso8859_5", "iso8859_6", "iso8859_7", "iso8859_8",
    "iso8859_9", "iso8859_10", "iso8859_11", "iso8859_13", "iso8859_14", "iso8859_15", "iso8859_16",
    "cp437", "cp850", "cp852", "cp855", "cp866", "cp874", "cp1250", "cp1251", "cp1252", "cp1253",
    "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "koi8_r", "koi8_u", "mac_roman", "mac_cyrillic",
    "mac_latin2", "shift_jis", "cp932", "euc_jp", "iso2022_jp", "euc_kr", "cp949", "gb2312", "gbk",
    "gb18030", "big5", "cp950",
})
# fmt: on
_CHARSETS = {label: codec for label, codec in encodings.aliases.aliases.items() if codec in CODECS}
_CHARSETS |= {codec: codec for codec in CODECS}


def codec_of(charset: str | None) -> str:
    """Return Python's name of `charset`; UTF-8 without one. Raises UnknownCharset."""
    if charset is None:
        return "utf_8"
    codec = _CHARSETS.get(encodings.normalize_encoding(charset).lower()) if charset.isascii() else None
    if codec is None:
        raise UnknownCharset
    return codec


def opened(raw: bytes, charset: str | None) -> tuple[bytes, str]:
    """Return `raw` without its BOM, and the codec that it is to be read by; a BOM goes before the charset.

    Raises UnknownCharset.
    """
    for bom, codec in _BOMS:
        if raw.startswith(bom):
            return raw[len(bom) :], codec
    return raw, codec_of(charset)
