"""The lines that the demo shows to be copied: each is typed into a shell that knows nothing of us, and does it."""

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from notifier.cli.group import command
from tests.browser.demo import demo
from tests.cli.running import until

SHOWN_WITHIN = 40.0
"""Seconds until the overview shows what has changed; an idle machine needs one."""
FOLLOWERS = 1_000_000
"""The lines are the same for the least world with a celebrity."""


def post(address: str, path: str, token: str, body: object, method: str = "POST") -> dict[str, str]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    asked = urllib.request.Request(f"{address}{path}", json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(asked) as answer:
        return dict(json.load(answer))


def typed(line: str) -> str:
    """What a line says that somebody copies into a shell that knows nothing of us."""
    with typing(line) as said:
        pass
    return said[0]


@contextmanager
def typing(line: str) -> Iterator[list[str]]:
    """The same, for a line that takes its time: what it said is there in the end."""
    said: list[str] = []
    with subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield said
            said += process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, f"{line}: {said}"


@pytest.mark.timeout(240)
def test_every_line_that_is_shown_does_what_is_said_where_the_demo_was_started(tmp_path: Path) -> None:
    said: list[str] = []
    with demo(tmp_path, said, followers=FOLLOWERS) as address:
        with urllib.request.urlopen(address) as page:
            token = re.findall(r'name="demo-token" content="(\w+)"', page.read().decode())[0]
        stormed = post(address, "/demo/storm", token, {})
        with typing(stormed["cli"]) as storm:
            what_else_is_shown(address, token, stormed)
        assert "accepted  800" in storm[0]
    next_line = re.findall(r"Next .*or: (.*)", said[0])[0]
    assert next_line == f"{command('/x/notifier/__main__.py')} storm --data {tmp_path}"


def what_else_is_shown(address: str, token: str, stormed: Mapping[str, str]) -> None:
    generation = system(address, token)["redis"]["generation"]
    emptied = post(address, "/demo/empty", token, {})
    assert "Redis was emptied" in typed(emptied["cli"])
    until(lambda: system(address, token)["redis"]["generation"] not in (None, generation), SHOWN_WITHIN)
    paused = post(address, "/demo/pause", token, {"reason": "it's a test", "seconds": 60})
    lifted = post(address, "/demo/pause", token, {}, "DELETE")
    typed(paused["cli"])
    [held] = active(address, token)
    typed(re.sub(r"lift \S+", f"lift {held}", lifted["cli"]))
    assert active(address, token) == []
    typed(post(address, "/demo/pause", token, {}, "DELETE")["cli"])
    for done in (stormed, emptied, paused):
        if shutil.which("curl"):
            assert json.loads(typed(done["curl"]))["action"]
    killed = post(address, "/demo/kill", token, {"role": "p2"})
    assert re.fullmatch(r"kill -9 \d+", killed["cli"])


def system(address: str, token: str) -> Any:
    asked = urllib.request.Request(f"{address}/v1/system", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)


def active(address: str, token: str) -> list[str]:
    """Return the active throttles of an overview that was begun after this call.

    The API gives everybody the same overview for a second, and one that is being read may have been begun long before.
    """
    called_at, overviews = datetime.now(UTC), list[Any]()

    def is_new() -> bool:
        overviews.append(system(address, token))
        return datetime.fromisoformat(overviews[-1]["at"]) >= called_at

    until(is_new, SHOWN_WITHIN)
    return [each["id"] for each in overviews[-1]["throttles"] if each["state"] == "active"]
