"""The commands of docs/tweet-service.md and the example service work as described."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.cli.running_service import STARTS_WITHIN, start_service, until
from tests.repo.repository_files import ROOT

PAGE = (ROOT / "docs" / "tweet-service.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(PAGE)

EXAMPLE = ROOT / "examples" / "tweet_service.py"
COMMAND_TIMEOUT = 60.0
"""Seconds for one command on a busy machine."""

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(400)]
"""The first test to run also starts the service, whichever test that is."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the reader's folder after the first two commands of the page, with a running service."""
    folder_ = tmp_path_factory.mktemp("reader")
    [fixture, up] = BLOCKS[0][1].splitlines()
    assert up == "notifier up"
    shell(fixture, folder_)
    running = start_service(folder_ / "notifier-data", folder_ / "ready.json")
    yield folder_
    running.end()


def test_commands_of_the_page_run_unchanged(folder: Path) -> None:
    python = [code for kind, code in BLOCKS if kind == "python"]
    assert [run([sys.executable, "-c", code], folder) for code in python] == [
        "t1 accepted \n",
        "{'accepted'}\n",
        "queued\nnot sent: ()\n",
    ]
    assert run([sys.executable, "-c", python[0]], folder).startswith("t1 refused event_conflict: ")
    if shutil.which("curl"):  # optional: curl is not a dependency of the project
        output = shell("".join(code for kind, code in BLOCKS[1:] if kind == "sh"), folder)
        receipt, status, inbox = output.split("\n", 2)
        assert json.loads(receipt) == {"id": "t4", "source": "//tweets.example", "status": "accepted"}
        assert json.loads(status)["id"] == "t4"
        assert inbox.startswith("nova: ")
        emitted = run([str(ROOT / "examples" / "send_mention.sh"), "u7", "nova"], folder)
        assert json.loads(emitted)["status"] == "accepted"


def test_tweet_posted_to_the_example_reaches_the_mentioned_inboxes(folder: Path) -> None:
    with running_example(folder) as url:
        posted = httpx.post(url, json={"author": "u9", "text": "@io, have you met @luna? me@work.example"})
        assert (posted.status_code, posted.json()["mentions"]) == (201, ["io", "luna"])
        for account in ("io", "luna"):
            until(partial(mentioned_by, folder, account, "u9"), STARTS_WITHIN)


def test_example_accepts_tweets_while_the_notifier_is_down(folder: Path) -> None:
    ready = folder / "away.json"
    ready.write_text(json.dumps({"url": "http://127.0.0.1:1", "service_key": "a key"}))
    with running_example(folder, "--ready", str(ready)) as url:
        assert httpx.post(url, json={"author": "u9", "text": "hello @nova"}).status_code == 201


def test_example_refuses_malformed_tweets(folder: Path) -> None:
    with running_example(folder) as url:
        assert httpx.post(url, content=b"hello").status_code == 400
        assert httpx.post(url.replace("tweets", "else"), json={"author": "u9", "text": "x"}).status_code == 404


def test_help_of_the_example_shows_how_to_try_it(folder: Path) -> None:
    assert "curl -d" in run([sys.executable, str(EXAMPLE), "--help"], folder)


def test_page_explains_every_error_code_a_service_can_get() -> None:
    refusals = (ROOT / "docs" / "http.md").read_text(encoding="utf-8").rpartition("## Problems")[2]
    user_codes = {
        "bad_cursor",
        "bad_seen",
        "bad_mark",
        "bad_preference",
        "bad_device",
        "foreign_device",
        "bad_subject",
        "too_many_streams",
        "streams_full",
        "issuer_unavailable",
    }
    operator_codes = {"bad_throttle"}
    assert codes(refusals) - user_codes - operator_codes == codes(PAGE)


def codes(page: str) -> set[str]:
    rows = re.findall(r"^\| [45]\d\d \| ([^|]*) \|", page, flags=re.MULTILINE)
    return {code for row in rows for code in re.findall(r"`([a-z_]+)`", row)}


@contextmanager
def running_example(folder: Path, *options: str) -> Iterator[str]:
    """Run the example on a free port, and yield the URL for posting tweets."""
    command = [sys.executable, str(EXAMPLE), "--port", "0", *options]
    with subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            assert process.wait(COMMAND_TIMEOUT) == 0


def mentioned_by(folder: Path, user: str, author: str) -> bool:
    """Return whether the user's inbox holds exactly one item, by this author."""
    output = run([sys.executable, "-m", "notifier", "inbox", user, "--json"], folder)
    return [item["names"] for item in json.loads(output)["items"]] == [[author]]


def shell(script: str, folder: Path) -> str:
    return run(["sh", "-euc", script], folder)


def run(command: Sequence[str], folder: Path) -> str:
    result = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def environment() -> dict[str, str]:
    """Return an environment whose `notifier` and `python` are those of this checkout."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
