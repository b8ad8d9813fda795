"""What the tweet service is shown is true: the page's commands run, and the example reaches a person's tab."""

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

from tests.cli.running import STARTS_WITHIN, start, until
from tests.repo.sources import ROOT

PAGE = (ROOT / "docs" / "tweet-service.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(PAGE)

EXAMPLE = ROOT / "examples" / "tweet_service.py"
ANSWERS_WITHIN = 60.0
"""Seconds, for a command on a busy machine."""

pytestmark = pytest.mark.timeout(400)
"""Any of the tests may be the one that starts the service."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the page's reader stands after its first two commands."""
    found = tmp_path_factory.mktemp("reader")
    [fixture, up] = BLOCKS[0][1].splitlines()
    assert up == "notifier up"
    shell(fixture, found)
    running = start(found / "notifier-data", found / "ready.json")
    yield found
    running.end()


def test_the_page_s_commands_run_as_they_stand(folder: Path) -> None:
    python = [code for kind, code in BLOCKS if kind == "python"]
    assert [run([sys.executable, "-c", code], folder) for code in python] == [
        "t1 accepted \n",
        "{'accepted'}\n",
        "in line\nnot sent: ()\n",
    ]
    assert run([sys.executable, "-c", python[0]], folder).startswith("t1 refused event_conflict: ")
    if shutil.which("curl"):  # not everywhere, and no dependency of ours
        said = shell("".join(code for kind, code in BLOCKS[1:] if kind == "sh"), folder)
        receipt, fate, tab = said.split("\n", 2)
        assert json.loads(receipt) == {"id": "t4", "source": "//tweets.example", "status": "accepted"}
        assert json.loads(fate)["id"] == "t4"
        assert tab.startswith("nova: ")
        emitted = run([str(ROOT / "examples" / "emit.sh"), "u7", "nova"], folder)
        assert json.loads(emitted)["status"] == "accepted"


def test_a_tweet_posted_to_the_example_is_in_the_tab_of_who_is_mentioned(folder: Path) -> None:
    with tweeting(folder) as url:
        posted = httpx.post(url, json={"author": "u9", "text": "@io, have you met @luna? me@work.example"})
        assert (posted.status_code, posted.json()["mentions"]) == (201, ["io", "luna"])
        for account in ("io", "luna"):
            until(partial(mentioned_by, folder, account, "u9"), STARTS_WITHIN)


def test_who_tweets_does_not_notice_that_the_notifier_is_away(folder: Path) -> None:
    ready = folder / "away.json"
    ready.write_text(json.dumps({"url": "http://127.0.0.1:1", "service_key": "a key"}))
    with tweeting(folder, "--ready", str(ready)) as url:
        assert httpx.post(url, json={"author": "u9", "text": "hello @nova"}).status_code == 201


def test_the_example_refuses_what_is_no_tweet(folder: Path) -> None:
    with tweeting(folder) as url:
        assert httpx.post(url, content=b"hello").status_code == 400
        assert httpx.post(url.replace("tweets", "else"), json={"author": "u9", "text": "x"}).status_code == 404


def test_the_example_s_help_says_how_to_try_it(folder: Path) -> None:
    assert "curl -d" in run([sys.executable, str(EXAMPLE), "--help"], folder)


def test_the_page_says_what_to_do_about_every_code_a_service_can_get() -> None:
    refusals = (ROOT / "docs" / "http.md").read_text(encoding="utf-8").rpartition("## Problems")[2]
    of_people = {
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
    of_operators = {"bad_throttle"}
    assert codes(refusals) - of_people - of_operators == codes(PAGE)


def codes(page: str) -> set[str]:
    rows = re.findall(r"^\| [45]\d\d \| ([^|]*) \|", page, flags=re.MULTILINE)
    return {code for row in rows for code in re.findall(r"`([a-z_]+)`", row)}


@contextmanager
def tweeting(folder: Path, *more: str) -> Iterator[str]:
    """The example on a free port, with the address where tweets are posted."""
    command = [sys.executable, str(EXAMPLE), "--port", "0", *more]
    with subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            assert process.wait(ANSWERS_WITHIN) == 0


def mentioned_by(folder: Path, user: str, author: str) -> bool:
    """The person's tab has that, and nothing else."""
    tab = run([sys.executable, "-m", "notifier", "tab", user, "--json"], folder)
    return [item["names"] for item in json.loads(tab)["items"]] == [[author]]


def shell(script: str, folder: Path) -> str:
    return run(["sh", "-euc", script], folder)


def run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=ANSWERS_WITHIN
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment() -> dict[str, str]:
    """`notifier` and `python` are those of this checkout."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
