"""Settings from the environment: what each converter takes, and the one line that stops the start."""

import subprocess
import sys

import pytest

from csbot.lib import environment
from tests.installation import outside_environment

ARABIC_THREE = "\N{ARABIC-INDIC DIGIT THREE}"


@pytest.mark.parametrize(
    ("convert", "raw", "value"),
    [
        (environment.whole(1, 256), "3", 3),
        (environment.seconds_list, "0, 30", [0, 30]),
        (environment.rate, "50/200", (50, 200)),
        (environment.rate, "0/0", (0, 0)),
        (environment.rate, "0/200", (0, 200)),
        (environment.http_url, "http://localhost:8000", "http://localhost:8000"),
        (environment.http_url, "HTTPS://desk.acme.test/", "https://desk.acme.test"),
        (environment.http_url, "http://[::1]:8000/csbot/", "http://[::1]:8000/csbot"),
        (environment.redis_url, "redis://:secret@127.0.0.1:6379/0", "redis://:secret@127.0.0.1:6379/0"),
    ],
)
def test_what_is_accepted(convert, raw, value):
    assert convert(raw) == value


@pytest.mark.parametrize(
    ("convert", "raw"),
    [
        (environment.whole(1, 256), ARABIC_THREE),
        (environment.whole(1, 256), "+3"),
        (environment.whole(1, 256), "257"),
        (environment.seconds_list, f"0,{ARABIC_THREE}"),
        (environment.rate, "5/0"),
        (environment.rate, "5"),
        (environment.rate, f"5/{ARABIC_THREE}"),
        (environment.http_url, "http://a b/"),
        (environment.http_url, " http://a/"),
        (environment.http_url, "http://a\n"),
        (environment.http_url, "http://a/\t"),
        (environment.http_url, "http://x/y?z"),
        (environment.http_url, "http://x/?"),
        (environment.http_url, "http://x/y#q"),
        (environment.http_url, "http://x/#"),
        (environment.http_url, "http://jana:secret@x/"),
        (environment.http_url, "http://jana@x/"),
        (environment.http_url, "http://x:99999"),
        (environment.http_url, f"http://x:{ARABIC_THREE}"),
        (environment.http_url, "http://x:0"),
        (environment.http_url, "http://"),
        (environment.http_url, "ftp://x"),
        (environment.redis_url, "redis://x:99999"),
        (environment.redis_url, "http://x"),
        (environment.database_url, "postgresql://x:99999/csbot"),
    ],
)
def test_what_is_refused(convert, raw):
    with pytest.raises(ValueError):
        convert(raw)


@pytest.mark.parametrize("content", [None, "", "{", "[7]", "\0"])
def test_a_file_of_the_home_that_is_missing_or_torn_holds_nothing(tmp_path, content):
    if content is not None:
        (tmp_path / "keys.json").write_text(content)
    assert environment.home_file(tmp_path, "keys.json") == {}


UNREADABLE = ("file", "below a file", "loop", "folder for a file")


def homes_that_are_none(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    full = tmp_path / "full"
    (full / "servers.json").mkdir(parents=True)
    busy = tmp_path / "busy"
    busy.mkdir()
    (busy / "run").write_text("")
    return {"file": file, "below a file": file / "home", "loop": loop, "folder for a file": full, "run": busy}


@pytest.mark.process
@pytest.mark.parametrize(
    ("which", "program"),
    [
        *((which, ("-m", "csbot.quickstart")) for which in (*UNREADABLE, "run")),
        # A process that joins a running start makes nothing in the home, so only reading can fail.
        *((which, ("manage.py", "web")) for which in UNREADABLE),
    ],
)
def test_a_home_that_is_no_folder_costs_one_line(tmp_path, which, program):
    home = homes_that_are_none(tmp_path)[which]
    ended = subprocess.run(
        [sys.executable, *program],
        env=outside_environment(CSBOT_HOME=str(home)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode == 1
    assert said.count("\n") == 1
    assert "CSBOT_HOME: " in said
    assert repr(str(home)) in said
    assert "expected a folder to write in" in said
