"""Conventions of the REST surface, seen through the resources of the desk."""

import json
from decimal import Decimal

import pytest
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from rest_framework import exceptions, serializers

from csbot.lib import api as conventions
from csbot.lib import problems
from csbot.lib.errors import RequestRefused
from tests.factories import GroupFactory
from tickets.models import Group

PROBLEM = "application/problem+json"


def problem(response, status: int, code: str) -> dict:
    """Assert that `response` is a problem document with this status and code, and return it."""
    assert (response.status_code, response.headers["Content-Type"]) == (status, PROBLEM), response.content
    document = json.loads(response.content)
    assert document["status"] == status
    assert document["code"] == code, document
    assert {"type", "title", "detail", "instance", "errors"} <= document.keys()
    return document


def pointers(document: dict) -> list[str]:
    return [fault["pointer"] for fault in document["errors"]]


# Bodies


def test_numbers_keep_their_digits():
    body = conventions.read_object(b'{"price": 12.50, "id": 9007199254740993, "small": 0.1}')
    assert body == {"price": Decimal("12.50"), "id": 9007199254740993, "small": Decimal("0.1")}
    assert conventions.JSONRenderer().render(body) == b'{"price":12.50,"id":9007199254740993,"small":0.1}'


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.decimals(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from("aB_-~/ ")), inner),
        max_leaves=20,
    )
)
def test_what_goes_out_comes_in_alike(value):
    written = conventions.JSONRenderer().render({"value": value})
    assert conventions.read_object(written) == {"value": value}


@pytest.mark.parametrize(
    ("raw", "line", "column"),
    [(b'{"a": 1,}', 1, 9), (b'{\n "a": tru\n}', 2, 7), (b"", 1, 1), (b"{} {}", 1, 4), (b'{"a": NaN}', 1, 7)],
)
def test_malformed_json_names_line_and_column(raw, line, column):
    with pytest.raises(RequestRefused) as refused:
        conventions.read_object(raw)
    assert refused.value.status == 400
    assert refused.value.code == "body.notJson"
    assert refused.value.extra == {"line": line, "column": column}


@pytest.mark.parametrize(
    ("raw", "code", "pointer"),
    [
        (b"[1]", "body.notObject", ""),
        (b'"text"', "body.notObject", ""),
        (b'{"a": {"b/c": ["x", "\\u0000"]}}', "body.invalid", "/a/b~1c/1"),
        (b'{"a": "\\ud800"}', "body.invalid", "/a"),
        (b'{"a\\u0000": 1}', "body.invalid", ""),
        (b'{"n": 1e99999}', "body.invalid", "/n"),
        (b'{"n": ' + b"1" * 4001 + b"}", "body.invalid", "/n"),
        (b'{"a": ' * 201 + b"1" + b"}" * 201, "body.invalid", "/a" * 200),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_pointer(raw, code, pointer):
    with pytest.raises(RequestRefused) as refused:
        conventions.read_object(raw)
    assert (refused.value.status, refused.value.code) == (400, code)
    assert [fault["pointer"] for fault in refused.value.errors] == [pointer]


@pytest.mark.parametrize(
    "raw",
    [b"\xff{}", b"[" * 900_000, b'{"n": ' + b"1" * 5000 + b"}", b'{"n": 1e9999999999999999999999}'],
)
def test_nonsense_is_refused_and_never_a_crash(raw):
    with pytest.raises(RequestRefused) as refused:
        conventions.read_object(raw)
    assert refused.value.status == 400


def test_a_byte_order_mark_and_the_last_of_equal_keys_are_taken():
    assert conventions.read_object(b'\xef\xbb\xbf{"a": 1, "a": 2}') == {"a": 2}


def test_a_body_beyond_the_cap_is_413(api, shop, settings):
    settings.CSBOT_MAX_BODY = settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    program = api(shop)
    problem(program.post("/api/groups", {"key": "k" * 1000}), 413, "body.size")
    again = program.post("/api/groups", {"key": "k" * 1000}, headers={"Idempotency-Key": "large"})
    problem(again, 413, "body.size")


# Refusals under /api


def test_unknown_path_is_a_problem_for_everyone(api, shop):
    problem(api(shop).get("/api/nothing"), 404, "not_found")
    problem(Client().get("/api/groups/x/y/z"), 404, "not_found")
    problem(Client().get("/api/"), 404, "not_found")


def test_elsewhere_django_answers_in_its_own_words(db):
    response = Client().get("/nowhere")
    assert response.status_code == 404
    assert response.headers["Content-Type"].startswith("text/html")


def test_unknown_method_is_405_with_allow(api, shop):
    response = api(shop).put("/api/groups", {})
    problem(response, 405, "method_not_allowed")
    assert response.headers["Allow"] == "GET, POST, HEAD"


def test_another_content_type_is_415(api, shop):
    response = api(shop).post("/api/groups", "key=a", content_type="application/x-www-form-urlencoded")
    problem(response, 415, "unsupported_media_type")


def test_malformed_json_over_http_names_line_and_column(api, shop):
    response = api(shop).post("/api/groups", '{"key": "a",\n}', content_type="application/json")
    document = problem(response, 400, "body.notJson")
    assert (document["line"], document["column"]) == (2, 1)


def test_accept_changes_nothing(api, shop):
    assert api(shop).get("/api/groups", headers={"Accept": "text/html"}).status_code == 200


@pytest.mark.parametrize("path", ["/api/groups", "/elsewhere"])
@pytest.mark.parametrize(
    ("handler", "arguments", "status", "code"),
    [
        (problems.bad_request, [SuspiciousOperation("odd")], 400, "bad_request"),
        (problems.permission_denied, [PermissionDenied()], 403, "forbidden"),
        (problems.server_error, [], 500, "bug"),
        (problems.csrf_failure, [], 403, "csrf"),
    ],
)
def test_handlers_of_django(path, handler, arguments, status, code):
    request: HttpRequest = RequestFactory().get(path)
    response = handler(request, *arguments)
    assert response.status_code == status
    if path == "/api/groups":
        assert problem(response, status, code)["instance"] == "/api/groups"
    else:
        assert response.headers["Content-Type"].startswith("text/html")


def test_a_fault_of_ours_is_500_without_its_text(api, shop, monkeypatch):
    def broken(*_args, **_values):
        raise RuntimeError("password=hunter2")

    program = api(shop)
    monkeypatch.setattr("tickets.people.group_shape", broken)
    monkeypatch.setattr("tickets.api.GroupViewSet.shape", broken)
    program.raise_request_exception = False
    response = program.get("/api/groups")
    problem(response, 500, "bug")
    assert b"hunter2" not in response.content


def test_every_fault_of_a_body_is_listed():
    detail = {
        "members": [{}, {"person": ["Unknown."]}],
        "a/b": {"c": ["1", "2"]},
        "non_field_errors": ["Whole."],
    }
    response = conventions.problem_of(exceptions.ValidationError(detail), {})
    assert response.data["errors"] == [
        {"pointer": "/members/1/person", "message": "Unknown."},
        {"pointer": "/a~1b/c", "message": "1"},
        {"pointer": "/a~1b/c", "message": "2"},
        {"pointer": "", "message": "Whole."},
    ]
    assert response.data["detail"].endswith("and 1 more")


def test_extras_and_headers_of_a_refusal_come_through():
    refused = RequestRefused(
        "used", "It is used.", status=409, extra={"usedBy": ["TK-1"]}, headers={"Retry-After": "1"}
    )
    response = conventions.problem_of(refused, {})
    assert (response.status_code, response.data["usedBy"], response.headers["Retry-After"]) == (
        409,
        ["TK-1"],
        "1",
    )


def test_throttling_names_the_seconds():
    response = conventions.problem_of(exceptions.Throttled(wait=0.2), {})
    assert (response.status_code, response.headers["Retry-After"]) == (429, "1")


# Strict shapes


class Sample(conventions.StrictSerializer):
    name = serializers.CharField(max_length=5)
    seen = serializers.CharField(read_only=True)
    madeAt = conventions.Instant(source="made_at", required=False)
    data = conventions.DataField(required=False)


def test_unknown_and_read_only_keys_are_refused_together_with_other_faults():
    sample = Sample(data={"name": "too long", "surplus": 1, "seen": "x", "data": []})
    assert not sample.is_valid()
    assert set(sample.errors) == {"name", "surplus", "seen", "data"}


def test_names_are_translated_and_users_data_is_not():
    sample = Sample(
        data={"name": "a", "madeAt": "2026-11-30T10:00:00+01:00", "data": {"snake_key": {"Camel": 2}}}
    )
    assert sample.is_valid(), sample.errors
    assert sample.validated_data["data"] == {"snake_key": {"Camel": 2}}
    assert conventions.instant_text(sample.validated_data["made_at"]) == "2026-11-30T09:00:00Z"


# Cursors


def walk(program, address: str) -> tuple[list[str], list[str]]:
    """Follow `next` to the end; return the keys in order, and the address of the last page."""
    keys, last = [], address
    while address:
        last = address
        page = program.get(address).json()
        keys += [group["key"] for group in page["results"]]
        address = page["next"]
    return keys, last


def test_pages_of_one_give_each_row_once_also_on_equal_times(api, shop):
    Group.objects.of(shop).update(created_at=timezone.now())
    program = api(shop)
    keys, last = walk(program, "/api/groups?pageSize=1")
    assert keys == ["it", "dispatch", "warehouse"]
    backwards, address = [], last
    while address:
        page = program.get(address).json()
        backwards += [group["key"] for group in page["results"]]
        address = page["previous"]
    assert backwards == ["warehouse", "dispatch", "it"]


def test_a_page_that_ends_exactly_has_no_next(api, shop):
    page = api(shop).get("/api/groups?pageSize=3").json()
    assert (len(page["results"]), page["next"], page["previous"]) == (3, None, None)
    empty = api(shop).get("/api/groups?key=none").json()
    assert empty == {"results": [], "next": None, "previous": None}


def test_rows_that_come_and_go_between_pages_lose_nothing(api, shop):
    program = api(shop)
    first = program.get("/api/groups?pageSize=1").json()
    GroupFactory(tenant=shop, key="newer")
    Group.objects.of(shop).filter(key="it").delete()
    assert [group["key"] for group in program.get(first["next"]).json()["results"]] == ["dispatch"]


def test_a_cursor_keeps_the_filters(api, shop):
    for number in range(3):
        GroupFactory(tenant=shop, key=f"x{number}", name="same")
    page = api(shop).get("/api/people?role=agent&pageSize=2").json()
    assert "role=agent" in page["next"]
    assert "pageSize=2" in page["next"]


def test_a_cursor_of_another_list_or_tenant_is_refused(api, shop, stranger):
    GroupFactory(tenant=stranger)
    foreign = api(stranger).get("/api/groups?pageSize=1").json()["next"].split("cursor=")[1]
    assert pointers(problem(api(shop).get(f"/api/groups?cursor={foreign}"), 400, "cursor.invalid")) == [
        "/cursor"
    ]
    other = api(shop).get("/api/people?pageSize=1").json()["next"].split("cursor=")[1]
    problem(api(shop).get(f"/api/groups?cursor={other}"), 400, "cursor.invalid")


@pytest.mark.parametrize("cursor", ["", "x", "v1.x.y", "v1.%00.AAAA", "djE=", "a.b.c.d", "ř"])
def test_a_bad_cursor_is_400(api, shop, cursor):
    problem(api(shop).get(f"/api/groups?cursor={cursor}"), 400, "cursor.invalid")


@pytest.mark.parametrize("size", ["0", "201", "-1", "x", "", "1.5", "9" * 5000, "²"])
def test_a_bad_page_size_is_400(api, shop, size):
    assert pointers(problem(api(shop).get(f"/api/groups?pageSize={size}"), 400, "filter.invalid")) == [
        "/pageSize"
    ]


def test_a_cursor_tells_no_internal_id(api, shop):
    group = Group.objects.of(shop).latest("pk")
    cursor = api(shop).get("/api/groups?pageSize=1").json()["next"].split("cursor=")[1]
    assert f"n{group.pk}" not in cursor
    assert cursor != api(shop).get("/api/groups?pageSize=1").json()["next"].split("cursor=")[1]


# Filters


@pytest.mark.parametrize(
    ("query", "code", "pointer"),
    [
        ("nmae=x", "filter.unknown", "/nmae"),
        ("format=json", "filter.unknown", "/format"),
        ("role=king", "filter.invalid", "/role"),
        ("pageSize=2&pageSize=3", "filter.invalid", "/pageSize"),
        ("cursor=a&cursor=b", "filter.invalid", "/cursor"),
        ("email=%00", "filter.invalid", "/email"),
        ("role=agent&role=admin", "filter.invalid", "/role"),
    ],
)
def test_a_filter_that_cannot_be_read_is_400(api, shop, query, code, pointer):
    assert pointers(problem(api(shop).get(f"/api/people?{query}"), 400, code)) == [pointer]


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        ("2026-11-30T10:00:00Z", "2026-11-30T10:00:00Z"),
        ("2026-11-30T10:00:00", "2026-11-30T10:00:00Z"),
        ("2026-11-30T10:00:00+01:00", "2026-11-30T09:00:00Z"),
        ("2026-11-30T10:00:00 01:00", "2026-11-30T09:00:00Z"),
        ("2026-11-30", "2026-11-30T00:00:00Z"),
    ],
)
def test_instants_of_filters(written, instant):
    assert conventions.instant_text(conventions.read_instant(written)) == instant


@pytest.mark.parametrize("written", ["", "yesterday", "2026-13-01", "0001-01-01T00:00:00+14:00", "1"])
def test_what_is_no_instant(written):
    with pytest.raises(conventions.BadFilter):
        conventions.read_instant(written)
