"""Whatever a caller's Content-Type names, Django meets UTF-8 only."""

import io

import pytest

from csbot.wsgi import application

HOSTILE = [
    "application/json; charset*=klingon''x",
    "application/json; charset=hex",
    "application/x-www-form-urlencoded; charset=punycode",
    "multipart/form-data; boundary*=a; boundary*0=b",
    "text/plain; charset=\x00",
    ";;;=",
]


@pytest.mark.django_db
@pytest.mark.parametrize("content_type", HOSTILE)
@pytest.mark.parametrize("path", ["/api/tickets", "/admin/login/", "/nowhere"])
def test_no_content_type_is_a_fault_of_ours(content_type, path):
    said = []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "QUERY_STRING": "a=%ff",
        "CONTENT_TYPE": content_type,
        "CONTENT_LENGTH": "2",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.input": io.BytesIO(b"{}"),
        "wsgi.errors": io.StringIO(),
        "wsgi.url_scheme": "http",
    }
    body = b"".join(application(environ, lambda status, headers, exc_info=None: said.append(status)))
    assert int(said[0][:3]) in {400, 401, 403, 404}, (said, body)
