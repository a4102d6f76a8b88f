"""What senders post and what is read of it: SPEC section 2.1 and the shapes of real senders."""

import subprocess
import sys
import tracemalloc
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from automations import body, forms, strict_json
from automations.body import BodyError, Note
from automations.values import json_of
from tests.automations.properties import PATIENT

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=b"
BAD = "\N{REPLACEMENT CHARACTER}"
WINDOWS = "Žluťoučký kůň".encode("cp1250")


def parts(*pieces: bytes) -> bytes:
    return b"".join(b"--b\r\n" + piece + b"\r\n" for piece in pieces) + b"--b--\r\n"


def field(name: bytes, value: bytes) -> bytes:
    return b'Content-Disposition: form-data; name="' + name + b'"\r\n\r\n' + value


READ = {
    # JSON: scalars, empties, types
    "object": (b'{"a":1}', JSON, {"a": 1}),
    "array at the top": (
        b'[{"event":"open"},{"event":"click"}]',
        JSON,
        [{"event": "open"}, {"event": "click"}],
    ),
    "number at the top": (b"42", JSON, 42),
    "text at the top": (b'"hello"', JSON, "hello"),
    "true at the top": (b"true", JSON, True),
    "null at the top": (b"null", JSON, None),
    "empty": (b"", JSON, {}),
    "empty without type": (b"", None, {}),
    "empty form": (b"", FORM, {}),
    "empty multipart": (b"", PARTS, {}),
    "empty xml": (b"", "application/xml", {}),
    "blank": (b" \r\n\t", JSON, {}),
    "BOM alone": (b"\xef\xbb\xbf", JSON, {}),
    "BOM of UTF-16 alone": (b"\xff\xfe", JSON, {}),
    "blanks around": (b' \n{"a":1}\r\n', JSON, {"a": 1}),
    "+json": (b'{"a":1}', "application/cloudevents+json; charset=utf-8", {"a": 1}),
    "vendor +json": (b'{"a":1}', "application/vnd.api+json", {"a": 1}),
    "text/json": (b'{"a":1}', "text/json", {"a": 1}),
    "capital type": (b'{"a":1}', "Application/JSON; Charset=UTF-8", {"a": 1}),
    "no type": (b'{"a":1}', None, {"a": 1}),
    "blank type": (b'{"a":1}', "  ", {"a": 1}),
    "JSON as text": (b'{"Type":"Notification"}', "text/plain; charset=UTF-8", {"Type": "Notification"}),
    "JSON as form": (b'{"a":1}', FORM, {"a": 1}),
    "JSON array as form": (b"[1]", FORM, [1]),
    "JSON as multipart": (b'{"a":1}', PARTS, {"a": 1}),
    "JSON as bytes": (b'{"a":1}', "application/octet-stream", {"a": 1}),
    "JSON as xml": (b'{"a":1}', "application/xml", {"a": 1}),
    "JSON as image": (b"[1]", "image/png", [1]),
    "JSON under nonsense": (b'{"a":1}', "json", {"a": 1}),
    "scalar as text": (b"12", "text/plain", 12),
    # Numbers
    "64-bit id": (b'{"id":820982911946154508}', JSON, {"id": 820982911946154508}),
    "beyond 64 bits": (b"123456789012345678901234567890", JSON, 123456789012345678901234567890),
    "decimal keeps digits": (b"12.50", JSON, Decimal("12.50")),
    "decimal is exact": (b"0.1", JSON, Decimal("0.1")),
    "long decimal": (
        b"0.1000000000000000055511151231257827",
        JSON,
        Decimal("0.1000000000000000055511151231257827"),
    ),
    "minus zero": (b"-0.0", JSON, Decimal("-0.0")),
    "exponent": (b"1.5e3", JSON, Decimal("1.5e3")),
    "1e400": (b"1e400", JSON, Decimal("1e400")),
    "4,000 digits": (b"9" * 4000, JSON, int("9" * 4000)),
    "4,000 digits below zero": (b"-" + b"9" * 4000, JSON, -int("9" * 4000)),
    "4,000 digits by exponent": (b"1e3999", JSON, Decimal("1e3999")),
    "4,000 digits behind the point": (b"1e-3999", JSON, Decimal("1e-3999")),
    "exponent with zeros": (b"1e0000000000003", JSON, Decimal("1e3")),
    # Texts
    "duplicate keys": (b'{"a":1,"b":2,"a":3}', JSON, {"a": 3, "b": 2}),
    "pair of surrogates": (b'"\\ud83d\\ude00"', JSON, "\N{GRINNING FACE}"),
    "literal backslash u0000": (b'"\\\\u0000 \\\\ud800"', JSON, "\\u0000 \\ud800"),
    "brackets in text": (b'{"a":"' + b"[" * 100 + b'"}', JSON, {"a": "[" * 100}),
    "64 levels": (b"[" * 64 + b"]" * 64, JSON, None),
    "windows-1250": (b'"' + WINDOWS + b'"', "application/json; charset=windows-1250", "Žluťoučký kůň"),
    "quoted charset": (b'"' + WINDOWS + b'"', 'application/json; charset="Windows-1250"', "Žluťoučký kůň"),
    "empty charset": (b'"a"', "application/json; charset=", "a"),
    "latin-2": ('"ř"'.encode("iso8859_2"), "application/json; charset=ISO-8859-2", "ř"),
    "utf-16 by header": ('"ř"'.encode("utf-16-le"), "application/json; charset=utf-16le", "ř"),
    "UTF-8 BOM": (b'\xef\xbb\xbf{"a":1}', JSON, {"a": 1}),
    "UTF-16 BOM": ('{"a":"ř"}'.encode("utf-16"), JSON, {"a": "ř"}),
    "UTF-32 BOM": ('{"a":"ř"}'.encode("utf-32"), JSON, {"a": "ř"}),
    "BOM before header": (b'\xef\xbb\xbf"\xc5\x99"', "application/json; charset=windows-1250", "ř"),
    # Plain text
    "text": ("Došla objednávka".encode(), "text/plain", "Došla objednávka"),
    "text without type": (b"a=1&b=2", None, "a=1&b=2"),
    "text in windows-1250": (WINDOWS, "text/plain; charset=cp1250", "Žluťoučký kůň"),
    "html": (b"<p>Hello</p>", "text/html", "<p>Hello</p>"),
    "two documents are text": (b'{"a":1}{"a":2}', "text/plain", '{"a":1}{"a":2}'),
    "NaN is text": (b"NaN", "text/plain", "NaN"),
    "a long number is text": (b"1e99999", None, "1e99999"),
    # Forms
    "flat form": (b"a=1&b=x+y%20z", FORM, {"a": "1", "b": "x y z"}),
    "form with charset": (b"a=%F8", FORM + "; charset=windows-1250", {"a": "ř"}),
    "form in utf-16": ("a=%C5%99".encode("utf-16-le"), FORM + "; charset=utf-16le", {"a": "ř"}),
    "form of raw bytes": ("a=ř".encode(), FORM, {"a": "ř"}),
    "form without values": (b"a&b=&&=c&=", FORM, {"a": "", "b": "", "": "c"}),
    "form with = in value": (b"a=b=c\r\n", FORM, {"a": "b=c"}),
    "lone percent": (b"a=100%&b=%zz", FORM, {"a": "100%", "b": "%zz"}),
    "last of equal fields": (b"a=1&a=2", FORM, {"a": "2"}),
    "scalar under form": (b"12", FORM, {"12": ""}),
    "broken JSON under form": (b'{"a":1', FORM, {'{"a":1': ""}),
    "nested": (
        b"items[0][id]=7&items[0][q]=1&items[1][id]=8",
        FORM,
        {"items": [{"id": "7", "q": "1"}, {"id": "8"}]},
    ),
    "nested, any order": (b"a[1]=y&a[0]=x", FORM, {"a": ["x", "y"]}),
    "appended": (b"a[]=x&a[]=y", FORM, {"a": ["x", "y"]}),
    "appended objects": (b"a[][id]=1&a[][id]=2", FORM, {"a": [{"id": "1"}, {"id": "2"}]}),
    "sparse": (b"a[2]=x&a[]=y", FORM, {"a": {"2": "x", "3": "y"}}),
    "digits at the top": (b"0=a&1=b", FORM, {"0": "a", "1": "b"}),
    "leading zero is a key": (b"a[00]=x", FORM, {"a": {"00": "x"}}),
    "huge index": (b"a[99999999999999999999]=x&a[4000000000]=y", FORM, None),
    "value, then nested": (b"a=1&a[b]=2", FORM, {"a": {"b": "2"}}),
    "nested, then value": (b"a[b]=2&a=1", FORM, {"a": "1"}),
    "unpaired brackets": (
        b"a[b=1&a]=2&[c]=3&a[b]c=4",
        FORM,
        {"a[b": "1", "a]": "2", "[c]": "3", "a[b]c": "4"},
    ),
    # Multipart
    "multipart": (parts(field(b"a", b"1"), field(b"b[c]", "ř".encode())), PARTS, {"a": "1", "b": {"c": "ř"}}),
    "multipart with LF": (parts(field(b"a", b"1")).replace(b"\r\n", b"\n"), PARTS, {"a": "1"}),
    "multipart, empty value": (parts(field(b"a", b""), field(b"b", b"2")), PARTS, {"a": "", "b": "2"}),
    "multipart, lines": (parts(field(b"a", b"1\r\n--c\r\n2\r\n")), PARTS, {"a": "1\r\n--c\r\n2\r\n"}),
    "multipart, plain name": (parts(b"content-disposition:form-data;name=a\r\n\r\n1"), PARTS, {"a": "1"}),
    "multipart, quotes": (parts(field(b"a%22b\\\\", b"1")), PARTS, {'a"b\\': "1"}),
    "multipart, preamble": (b"hello\r\n" + parts(field(b"a", b"1")) + b"bye", PARTS, {"a": "1"}),
    "multipart, quoted boundary": (
        b"--a b\r\n" + field(b"x", b"1") + b"\r\n--a b--",
        'multipart/form-data; boundary="a b"',
        {"x": "1"},
    ),
    "multipart, charset": (
        parts(
            field(b"a", b"").replace(b"\r\n\r\n", b"\r\nContent-Type: text/plain; charset=cp1250\r\n\r\n\xf8")
        ),
        PARTS,
        {"a": "ř"},
    ),
    # Real senders (CONNECTORS section 7)
    "Shoptet": (
        b'{"eshopId":1,"event":"order:create","eventCreated":"2026-11-02T08:15:00+0100","eventInstance":"2018000001"}',
        JSON,
        {
            "eshopId": 1,
            "event": "order:create",
            "eventCreated": "2026-11-02T08:15:00+0100",
            "eventInstance": "2018000001",
        },
    ),
    "Shoptet, mass event": (
        b'{"event":"order:update","eventInstance":"[\\"2018000001\\",\\"2018000002\\"]"}',
        JSON,
        {"event": "order:update", "eventInstance": '["2018000001","2018000002"]'},
    ),
    "Shopify": (
        b'{"id":820982911946154508,"total_price":"403.00","note":null}',
        JSON,
        {"id": 820982911946154508, "total_price": "403.00", "note": None},
    ),
    "WooCommerce": (
        b'{"id":727,"total":"29.35","line_items":[{"price":2.65}],"meta":[],"date":"2026-11-02T16:28:02"}',
        JSON,
        {
            "id": 727,
            "total": "29.35",
            "line_items": [{"price": Decimal("2.65")}],
            "meta": [],
            "date": "2026-11-02T16:28:02",
        },
    ),
    "WooCommerce ping": (b"webhook_id=5", FORM, {"webhook_id": "5"}),
    "WooCommerce delete": (b'{"id":727}', JSON, {"id": 727}),
    "PrestaShop": (
        b'{"id":"5","date":"0000-00-00 00:00:00","note":[]}',
        JSON,
        {"id": "5", "date": "0000-00-00 00:00:00", "note": []},
    ),
    "Stripe": (
        b'{"data":{"object":{"metadata":{"order.id":"7"}}}}',
        JSON,
        {"data": {"object": {"metadata": {"order.id": "7"}}}},
    ),
    "GitHub form": (b"payload=%7B%22action%22%3A%22opened%22%7D", FORM, {"payload": '{"action":"opened"}'}),
    "GitLab": (
        b'{"created_at":"2026-11-02 12:45:08 UTC","before":"%s"}' % (b"0" * 40),
        JSON,
        {"created_at": "2026-11-02 12:45:08 UTC", "before": "0" * 40},
    ),
    "Bitrix24": (
        b"event=ONCRMDEALADD&data[FIELDS][ID]=42&auth[application_token]=t",
        FORM,
        {"event": "ONCRMDEALADD", "data": {"FIELDS": {"ID": "42"}}, "auth": {"application_token": "t"}},
    ),
    "Bitrix24, percent-encoded": (b"data%5BFIELDS%5D%5BID%5D=42", FORM, {"data": {"FIELDS": {"ID": "42"}}}),
    "Comgate": (
        b"transId=AB-CD&price=12050&test=false",
        FORM,
        {"transId": "AB-CD", "price": "12050", "test": "false"},
    ),
    "Telegram": (
        b'{"update_id":10,"message":{"text":"ahoj"}}',
        JSON,
        {"update_id": 10, "message": {"text": "ahoj"}},
    ),
    "Amazon SNS": (
        b'{"Type":"SubscriptionConfirmation"}',
        "text/plain",
        {"Type": "SubscriptionConfirmation"},
    ),
    "CloudEvents batch": (b'[{"id":"1"}]', "application/cloudevents-batch+json", [{"id": "1"}]),
}


@pytest.mark.parametrize(("raw", "content_type", "value"), READ.values(), ids=READ)
def test_bodies_that_are_read(raw, content_type, value):
    read = body.read(raw, content_type)
    assert read.notes == []
    if value is not None or raw == b"null":
        assert (read.value, json_of(read.value)) == (value, json_of(value))


def test_a_decimal_is_a_decimal_and_an_integer_an_int():
    assert [type(part) for part in body.read(b"[1,1.0,1e2,true]", JSON).value] == [
        int,
        Decimal,
        Decimal,
        bool,
    ]


REPLACED = {
    "NUL": (b'{"a\\u0000":"\\u0000b\\u0000"}', JSON, {f"a{BAD}": f"{BAD}b{BAD}"}, 3),
    "lone surrogates": (
        b'["\\ud800","\\udc00a","\\ud800\\ud83d\\ude00",1]',
        JSON,
        [BAD, f"{BAD}a", f"{BAD}\N{GRINNING FACE}", 1],
        3,
    ),
    "keys become one": (b'{"\\u0000":1,"\\ud800":2}', JSON, {BAD: 2}, 2),
    "capital escape": (b'"\\uD800"', JSON, BAD, 1),
    "behind a backslash": (b'"\\\\\\u0000"', JSON, f"\\{BAD}", 1),
    "NUL in text": (b"a\x00b", "text/plain", f"a{BAD}b", 1),
    "NUL in a form": (b"a%00=b%00", FORM, {f"a{BAD}": f"b{BAD}"}, 2),
    "NUL in a part": (parts(field(b"a", b"\x00")), PARTS, {"a": BAD}, 1),
}


@pytest.mark.parametrize(("raw", "content_type", "value", "count"), REPLACED.values(), ids=REPLACED)
def test_what_cannot_be_stored_is_replaced_and_noted(raw, content_type, value, count):
    assert body.read(raw, content_type) == body.Body(value, [Note("body.replaced", {"count": count})])


REFUSED = {
    "broken": (b'{"a":1,\n "b":}', JSON, 400, (2, 6)),
    "a word": (b"hello", JSON, 400, (1, 1)),
    "two documents": (b'{"a":1}\n{"a":2}', JSON, 400, (2, 1)),
    "NaN": (b'{"a":"NaN",\n"b":NaN}', JSON, 400, (2, 5)),
    "Infinity": (b"[1,-Infinity]", JSON, 400, (1, 4)),
    "4,001 digits": (b"[1,\n" + b"9" * 4001 + b"]", JSON, 400, (2, 1)),
    "1e99999": (b'{"a":"1e99999","b":1e99999}', JSON, 400, (1, 20)),
    "1e-4000": (b"1e-4000", JSON, 400, (1, 1)),
    "exponent of a million digits": (b"1e" + b"9" * 1_000_000, JSON, 400, (1, 1)),
    "4,001 digits with a point": (b"1." + b"9" * 4000, JSON, 400, (1, 1)),
    "control character": (b'"a\nb"', JSON, 400, (1, 3)),
    "raw NUL in JSON": (b'"\x00"', JSON, 400, (1, 2)),
    "single quotes": (b"{'a':1}", JSON, 400, (1, 2)),
    "comma at the end": (b"[1,]", JSON, 400, None),
    "open text": (b'{"a":"b', JSON, 400, (1, 6)),
    "undecodable": (b'{"a":"\xff"}', JSON, 400, None),
    "CESU": (b'"\xed\xa0\x80"', JSON, 400, None),
    "undecodable text": (b"\xff\xfeabc"[2:] + b"\xff", "text/plain", 400, None),
    "undecodable form": (b"a=%FF", FORM, 400, None),
    "undecodable part": (parts(field(b"a", b"\xff")), PARTS, 400, None),
    "undecodable name": (parts(field(b"\xff", b"1")), PARTS, 400, None),
    "odd UTF-16": (b"\xff\xfea", JSON, 400, None),
    "broken before it is too deep": (b'{"a":tru,' + b"[" * 100, JSON, 400, (1, 6)),
    "no key before it is too deep": (b"[" * 63 + b"{[", JSON, 400, (1, 65)),
    "closed too often": (b"]" + b"[]" * 70, JSON, 400, (1, 1)),
    "no boundary": (b"--b--", "multipart/form-data", 400, None),
    "long boundary": (b"--b--", "multipart/form-data; boundary=" + "b" * 71, 400, None),
    "strange boundary": (b"--b--", "multipart/form-data; boundary=ř", 400, None),
    "truncated multipart": (parts(field(b"a", b"1"))[:-6], PARTS, 400, None),
    "multipart of no parts": (b"hello", PARTS, 400, None),
    "part without blank line": (parts(b'Content-Disposition: form-data; name="a"'), PARTS, 400, None),
    "part without name": (parts(b"Content-Type: text/plain\r\n\r\n1"), PARTS, 400, None),
    "part with empty disposition": (parts(b"Content-Disposition: form-data\r\n\r\n1"), PARTS, 400, None),
    "broken JSON as multipart": (b'{"a":1', PARTS, 400, None),
    "65 levels": (b"[" * 65 + b"]" * 65, JSON, 413, None),
    "65 levels of objects": (b'{"a":' * 65 + b"1" + b"}" * 65, JSON, 413, None),
    "closed and opened": (b"[" + b"[]," * 70 + b"[" * 64 + b"]" * 65, JSON, 413, None),
    "20,000 brackets": (b"[" * 20_000, JSON, 413, None),
    "65 levels as text": (b"[" * 65 + b"]" * 65, "text/plain", 413, None),
    "65 levels of a form": (b"a" + b"[b]" * 64 + b"=1", FORM, 413, None),
    "65 levels of a part": (parts(field(b"a" + b"[b]" * 64, b"1")), PARTS, 413, None),
    "too many fields": (b"&".join(b"a%d=" % index for index in range(forms.MAX_NODES)), FORM, 413, None),
    "too many objects": (b"[" + b"{}," * strict_json.MAX_CONTAINERS + b"1]", JSON, 413, None),
    "xml": (b"<a/>", "application/xml", 415, None),
    "text/xml": (b"<a/>", "text/xml", 415, None),
    "+xml": (b"<a/>", "application/soap+xml; charset=utf-8", 415, None),
    "text +xml": (b"<a/>", "text/vnd.x+xml", 415, None),
    "image": (b"\x89PNG\r\n", "image/png", 415, None),
    "bytes": (b"hello", "application/octet-stream", 415, None),
    "mixed": (b"--b--", "multipart/mixed; boundary=b", 415, None),
    "nonsense type": (b"hello", "hello", 415, None),
    "endless type": (b"hello", "text/plain;" + "a=b;" * 1000, 415, None),
    "unknown charset": (b'{"a":1}', "application/json; charset=klingon", 415, None),
    "strange charset": (b'{"a":1}', "application/json; charset=ř", 415, None),
    "punycode is no charset": (b'"a"', "application/json; charset=punycode", 415, None),
    "escapes are no charset": (b'"a"', "text/plain; charset=unicode_escape", 415, None),
    "unknown charset of a form": (b"a=1", FORM + "; charset=klingon", 415, None),
    "unknown charset of an image": (b"a", "image/png; charset=klingon", 415, None),
}


@pytest.mark.parametrize(("raw", "content_type", "status", "place"), REFUSED.values(), ids=REFUSED)
def test_bodies_that_are_refused(raw, content_type, status, place):
    with pytest.raises(BodyError) as caught:
        body.read(raw, content_type)
    assert caught.value.status == status
    assert caught.value.message == str(caught.value)
    if place is not None:
        assert (caught.value.line, caught.value.column) == place


def test_a_form_has_64_levels():
    value = body.read(b"a" + b"[b]" * 63 + b"=1", FORM).value
    for _ in range(64):
        (value,) = value.values()
    assert value == "1"


def test_uploads_are_left_out_and_noted():
    upload = b'Content-Disposition: form-data; name="a"; filename="x.bin"\r\nContent-Type: image/png\r\n\r\n\xff\x00'
    star = b"Content-Disposition: form-data; name=b; filename*=utf-8''x\r\n\r\n"
    read = body.read(parts(field(b"note", b"hi"), upload, *[star] * 11), PARTS)
    assert read.value == {"note": "hi"}
    assert read.notes == [Note("body.files", {"count": 12, "names": ["a", *["b"] * 9]})]


def test_a_message_never_repeats_the_body():
    with pytest.raises(BodyError) as caught:
        body.read(b'{"password": hunter2}', JSON)
    assert "hunter2" not in caught.value.message
    with pytest.raises(BodyError) as caught:
        body.read(b"hello", 'image/<script>alert(1)</script>; x="')
    assert "script" not in caught.value.message


def test_a_json_text_inside_a_body_is_read_by_the_same_rules():
    assert body.read_json('[1.50,"\\u0000"]') == body.Body(
        [Decimal("1.50"), BAD], [Note("body.replaced", {"count": 1})]
    )
    for text, status in (("[" * 70, 413), ("[NaN]", 400)):
        with pytest.raises(BodyError) as caught:
            body.read_json(text)
        assert caught.value.status == status


HOSTILE = {
    "open brackets": (b"[" * 2**20, JSON),
    "open objects": (b'{"a":' * 200_000, JSON),
    "quotes after depth": (b"[" * 65 + b'\\"' * 500_000, JSON),
    "escaped quotes": (b'"' + b'\\"' * 500_000, JSON),
    "empty arrays": (b"[" + b"[]," * 340_000 + b"1]", JSON),
    "decimals": (b"[" + b"0.1," * 260_000 + b"1]", JSON),
    "long integers": (b"[" + (b"9" * 4000 + b",") * 260 + b"1]", JSON),
    "line breaks": (b"\n" * 2**20 + b"x", JSON),
    "ampersands": (b"&" * 2**20, FORM),
    "percents": (b"%41" * 340_000, FORM),
    "deep names": ((b"x" + b"[]" * 60 + b"&") * 8_000, FORM),
    "one endless name": (b"a" + b"[b]" * 340_000, FORM),
    "brackets of names": (b"a" + b"[" * 2**20, FORM),
    "boundaries": (b"--b\r\n" * 200_000, PARTS),
    "blanks after boundaries": (b"\r\n--b" + b" " * 2**20 + b"x", PARTS),
    "headers": (b"--b\r\n" + b"content-disposition: ; name=" * 36_000 + b"\r\n\r\n\r\n--b--", PARTS),
    "backslashes in a name": (
        b'--b\r\ncontent-disposition: ; name="' + b'\\"' * 500_000 + b"\r\n\r\n\r\n--b--",
        PARTS,
    ),
}


@pytest.mark.parametrize(("raw", "content_type"), HOSTILE.values(), ids=HOSTILE)
@pytest.mark.timeout(20)
def test_a_hostile_mebibyte_takes_neither_time_nor_memory(raw, content_type):
    tracemalloc.start()
    try:
        body.read(raw, content_type)
    except BodyError as error:
        assert error.status in (400, 413)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 20 * 2**20


def test_an_unknown_charset_makes_python_look_for_no_file():
    code = (
        "import sys; from automations import body\n"
        "opened = []\n"
        "def watch(event, args): opened.extend([args] if event in ('open', 'import') else [])\n"
        "sys.addaudithook(watch)\n"
        "try: body.read(b'1', 'text/plain; charset=zzz')\n"
        "except body.BodyError as error: print(error.status, opened)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "415 []"


TYPES = st.sampled_from(
    [
        JSON,
        FORM,
        PARTS,
        "text/plain",
        "text/xml",
        "image/png",
        None,
        "",
        "application/x+json; charset=utf-16",
        "text/plain; charset=\udcff",
        FORM + "; charset=cp1250",
        "multipart/form-data; boundary=\x00",
    ]
)
PIECES = [
    b"[",
    b"]",
    b"{",
    b"}",
    b'"',
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"1",
    b"1e99999",
    b"NaN",
    b",",
    b":",
    b"\n",
    b"\xff",
    b"a=",
    b"&",
    b"%00",
    b"%FF",
    b"--b\r\n",
    b"--b--",
    b"Content-Disposition: form-data; name=a",
    b"\r\n\r\n",
]


@PATIENT
@given(st.binary() | st.lists(st.sampled_from(PIECES)).map(b"".join), TYPES | st.text())
@example(b"[1]", "application/json; charset*=utf-8''utf-8")
def test_nothing_but_the_declared_error_is_raised(raw, content_type):
    try:
        read = body.read(raw, content_type)
    except BodyError as error:
        assert error.status in (400, 413, 415)
    else:
        json_of(read.value).encode()
        assert "\x00" not in str(read.value)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text('aŘ"\\ \n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab."), inner),
    max_leaves=10,
)


@PATIENT
@given(JSON_VALUES)
def test_what_is_written_as_json_is_read_back(value):
    assert json_of(body.read(json_of(value).encode(), JSON).value) == json_of(value)
