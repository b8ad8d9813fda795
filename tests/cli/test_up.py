"""`notifier up` as its users meet it: it starts, delivers, replaces who dies, and leaves nothing behind."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from notifier.cli.ready import Ready
from tests.cli.conftest import Notifier
from tests.cli.running import GONE_WITHIN, STARTS_WITHIN, Running, lives, start, until

ROLES = {"up", "api", "pump", "p0", "p1", "p2", "push", "valkey"}


@pytest.fixture
def running(folder: Path, notifier: Notifier) -> Iterator[Running]:
    words = ("--followers", "1000", "--universe", "2000", "--celebrities", "1", "--json")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    found = start(folder, folder / "asked-for.json")
    yield found
    if found.process.poll() is None:
        found.process.terminate()
    found.process.wait(GONE_WITHIN)


@pytest.mark.timeout(120)
def test_up_delivers_replaces_who_dies_and_takes_everybody_with_it(running: Running, notifier: Notifier) -> None:
    data, first = str(running.data), running.ready
    assert set(first.pids) == ROLES
    assert json.loads((running.data / "asked-for.json").read_text()) == json.loads(
        (running.data / "run" / "ready.json").read_text()
    )

    receipt = notifier("mention", "--author", "ada", "--of", "nova", "--id", "e1", "--json", "--data", data)
    assert json.loads(receipt.output)["status"] == "accepted"
    again = notifier("mention", "--author", "eve", "--of", "nova", "--id", "e1", "--data", data)
    assert again.exit_code == 2
    until(lambda: _delivered(notifier, data), STARTS_WITHIN)

    direct = json.loads(notifier("tab", "nova", "--json", "--data", data).output)
    assert [item["burst"] for item in direct["items"]] == ["self:nova#1"]
    by_http = json.loads(notifier("tab", "nova", "--json", "--url", first.url, "--data", data).output)
    assert {**by_http, "items": [_settled(item) for item in by_http["items"]]} == {
        **direct,
        "items": [_settled(item) for item in direct["items"]],
    }

    second = notifier("up", "--data", data, "--port", "0")
    assert second.exit_code == 3
    assert second.stderr.startswith("The data folder is in use")

    os.kill(first.pids["p1"], signal.SIGKILL)
    until(lambda: running.ready.pids["p1"] != first.pids["p1"], STARTS_WITHIN)
    assert {role for role in ROLES if running.ready.pids[role] != first.pids[role]} == {"p1"}

    last = running.ready.pids
    os.kill(last["up"], signal.SIGKILL)
    running.process.wait(GONE_WITHIN)
    until(lambda: not any(lives(pid) for pid in last.values()), GONE_WITHIN)
    assert notifier("mention", "--author", "ada", "--of", "nova", "--data", data).exit_code == 3


@pytest.mark.timeout(120)
def test_sigterm_stops_everybody_in_order(running: Running) -> None:
    pids: Ready = running.ready
    running.process.terminate()
    assert running.process.wait(GONE_WITHIN) == 0
    assert [role for role, pid in pids.pids.items() if lives(pid)] == []
    assert not (running.data / "run" / "ready.json").exists()
    assert not (running.data / "asked-for.json").exists()


def test_a_taken_port_is_one_sentence(folder: Path, notifier: Notifier) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = notifier("up", "--data", str(folder), "--port", str(taken.getsockname()[1]))
    assert done.exit_code == 3
    assert done.stderr.startswith("The port is taken")


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "file").touch()
    done = notifier("up", "--data", str(tmp_path / "file" / "data"), "--port", "0")
    assert done.exit_code == 3
    assert done.stderr.startswith("The data folder can't be written to.")


def _delivered(notifier: Notifier, data: str) -> bool:
    done = notifier("ledger", "mention:nova#1", "--json", "--data", data)
    books = json.loads(done.output)["books"] if done.exit_code == 0 else {}
    return bool(books) and books["balanced"] and books["delivered"] > 0 and books["in_flight"] == 0


def _settled(item: dict[str, Any]) -> dict[str, Any]:
    """Moments are spelled in more ways than one, and a burst has a name of its own for every person."""
    return {**item, "burst": "", "opened_at": datetime.fromisoformat(item["opened_at"])}
