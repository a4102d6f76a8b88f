"""WSGI entry of the web process: webhooks straight to their door, everything else through Django.

What is under /webhook needs no session, language, CSRF token or message of a portal, so it leaves Django's middleware
and URL resolver behind: they are about half of what a small request costs.
"""

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "csbot.settings")

django_application = get_wsgi_application()

# What RFC 2046 lets a boundary be made of.
BOUNDARY = re.compile(r"[A-Za-z0-9'()+_,./:=? -]{1,70}")

# Only now are the settings read and the apps loaded.
from csbot.lib import charsets  # noqa: E402
from runtime.intake import webhooks  # noqa: E402


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request (PEP 3333)."""
    path: str = environ["PATH_INFO"]
    if path == "/webhook" or path.startswith(webhooks.PREFIX):
        return webhooks.serve(environ, start_response)
    environ["CONTENT_TYPE"] = _content_type(environ.get("CONTENT_TYPE"))
    answer: Iterable[bytes] = django_application(environ, start_response)
    return answer


def _content_type(header: str | None) -> str:
    """Return a Content-Type without its charset: every face reads UTF-8, and Django looks up any codec it names."""
    said = charsets.content_type(header)
    is_kept = said.boundary is not None and BOUNDARY.fullmatch(said.boundary)
    return f'{said.name}; boundary="{said.boundary}"' if is_kept else said.name
