"""WSGI entry of the web process: webhooks straight to their door, everything else through Django.

What is under /webhook needs no session, language, CSRF token or message of a portal, so it leaves Django's middleware
and URL resolver behind: they are about half of what a small request costs.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "csbot.settings")

django_application = get_wsgi_application()

# Only now are the settings read and the apps loaded.
from runtime.intake import webhooks  # noqa: E402


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request (PEP 3333)."""
    path: str = environ["PATH_INFO"]
    if path == "/webhook" or path.startswith(webhooks.PREFIX):
        return webhooks.serve(environ, start_response)
    answer: Iterable[bytes] = django_application(environ, start_response)
    return answer
