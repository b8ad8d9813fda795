"""Shell lines that the demo shows for copying work when typed into a plain shell."""

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

from notifier.cli.command_groups_and_errors import program_command
from tests.browser.demo_process_and_visit import demo
from tests.cli.running_service import until

pytestmark = pytest.mark.prove

SHOWN_WITHIN = 40.0
"""Seconds until the overview shows what has changed; an idle machine needs one."""
FOLLOWERS = 1_000_000
"""The smallest world with a celebrity shows the same lines."""


def post(address: str, path: str, token: str, body: object, method: str = "POST") -> dict[str, str]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}{path}", json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request) as response:
        return dict(json.load(response))


def run_line(line: str) -> str:
    """Return the output of the line, run by a shell without any of our environment."""
    with running_line(line) as output:
        pass
    return output[0]


@contextmanager
def running_line(line: str) -> Iterator[list[str]]:
    """Run a line that takes time; its output is in the list at the end of the block."""
    output: list[str] = []
    with subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield output
            output += process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, f"{line}: {output}"


@pytest.mark.timeout(240)
def test_every_shown_line_works_in_a_shell(tmp_path: Path) -> None:
    outputs: list[str] = []
    with demo(tmp_path, outputs, followers=FOLLOWERS) as address:
        with urllib.request.urlopen(address) as page:
            token = re.findall(r'name="demo-token" content="(\w+)"', page.read().decode())[0]
        stormed = post(address, "/demo/storm", token, {})
        with running_line(stormed["cli"]) as storm_output:
            check_other_lines(address, token, stormed)
        assert "accepted  800" in storm_output[0]  # a hundred a second, for 8 s
    next_line = re.findall(r"Next .*or: (.*)", outputs[0])[0]
    assert next_line == f"{program_command('/x/notifier/__main__.py')} storm --data {tmp_path}"


def check_other_lines(address: str, token: str, stormed: Mapping[str, str]) -> None:
    generation = system(address, token)["redis"]["generation"]
    flush = post(address, "/demo/empty", token, {})
    assert "Redis was emptied" in run_line(flush["cli"])
    until(lambda: system(address, token)["redis"]["generation"] not in (None, generation), SHOWN_WITHIN)
    pause = post(address, "/demo/pause", token, {"reason": "it's a test", "seconds": 60})
    lift = post(address, "/demo/pause", token, {}, "DELETE")
    run_line(pause["cli"])
    [throttle_id] = active_throttles(address, token)
    run_line(re.sub(r"lift \S+", f"lift {throttle_id}", lift["cli"]))
    assert active_throttles(address, token) == []
    run_line(post(address, "/demo/pause", token, {}, "DELETE")["cli"])
    for action in (stormed, flush, pause):
        if shutil.which("curl"):
            assert json.loads(run_line(action["curl"]))["action"]
    kill = post(address, "/demo/kill", token, {"role": "p2"})
    assert re.fullmatch(r"kill -9 \d+", kill["cli"])


def system(address: str, token: str) -> Any:
    request = urllib.request.Request(f"{address}/v1/system", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def active_throttles(address: str, token: str) -> list[str]:
    """Return the active throttles from an overview that was started after this call.

    The API gives all callers the same overview for a second, and an overview in progress may have started long before.
    """
    called_at, overviews = datetime.now(UTC), list[Any]()

    def is_new() -> bool:
        overviews.append(system(address, token))
        return datetime.fromisoformat(overviews[-1]["at"]) >= called_at

    until(is_new, SHOWN_WITHIN)
    return [throttle["id"] for throttle in overviews[-1]["throttles"] if throttle["state"] == "active"]
