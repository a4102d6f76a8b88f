"""docs/webhooks.md: every line that it lets a reader run is run, against the shipped web process."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.runtime.intake.conftest import DOC

pytestmark = [
    pytest.mark.process,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        not (shutil.which("curl") and shutil.which("openssl")),
        reason="the page's examples need curl and openssl",
    ),
]

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "webhooks.md").read_text()
SECRET = "s3cret text"
BODY = '{"document": {"id": "5001"}}'


def examples() -> list[tuple[str, str]]:
    """Return each block of shell with the scheme that the paragraph before it begins with, or an empty text."""
    found = re.findall(r"(?:\*\*`(\w+)`\*\*[^`]*(?:`[^`]+`[^`]*)*?\n)?```sh\n(.*?)```", PAGE, re.DOTALL)
    return [(scheme, script) for scheme, script in found]


def trigger(scheme: str) -> dict:
    if not scheme:
        return {}
    signature = {"scheme": scheme, "secrets": [SECRET]}
    if scheme == "hmac":
        more = {
            "header": "X-Signature",
            "algorithm": "sha512",
            "encoding": "base64",
            "timestampHeader": "X-Timestamp",
        }
        return {"signature": signature | more}
    return {"signature": signature}


@pytest.mark.parametrize(
    ("scheme", "script"), examples(), ids=lambda value: value.splitlines()[0][:20] if value else "plain"
)
def test_an_example_is_accepted(web, webhook, scheme, script):
    documents = webhook(params=[DOC], **trigger(scheme))
    variables = {"URL": f"{web.url}{documents.path}", "SECRET": SECRET, "BODY": BODY, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-ec", script], env=variables, capture_output=True, text=True, timeout=30)
    assert '"status":"accepted"' in done.stdout, done.stdout + done.stderr
    assert len(documents.runs()) == 1


def test_every_scheme_has_an_example():
    schemes = {scheme for scheme, _ in examples()}
    assert schemes == {"", "standard", "github", "stripe", "shopify", "woocommerce", "shoptet", "hmac"}
