"""`notifier up` as its users meet it: it starts, delivers, replaces who dies, and leaves nothing behind."""

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from notifier.cli.http import Ready
from notifier.cli.supervisor.pid_files import roster
from notifier.config import Settings
from tests.cli.caller import ANSWERS_WITHIN, calling
from tests.cli.conftest import Notifier
from tests.cli.running import GONE_WITHIN, STARTS_WITHIN, Running, Shared, lives, until
from tests.cli.up_facts import audience_of, followers_of, muted_of, vips_of, why_of

ROLES = {"up", "api", "pump", "p0", "p1", "p2", "push.apns", "push.fcm", "push.web", "fakes", "valkey"}


MUTED_WITHIN = 60.0
"""Seconds; an idle machine needs one."""

HUNG_AFTER = 15.0
"""Seconds. A role beats every second, but may wait five for a locked file or a broker, and a busy machine adds to it.
Also longer than a supervisor may be stopped unnoticed."""

LOOKS = 5
"""A supervisor that slept so often has looked at all of its roles."""


@pytest.fixture(scope="module")
def service(small_world: Path) -> Iterator[Shared]:
    (small_world / "run").mkdir(exist_ok=True)
    (small_world / "run" / "loading").write_text("85")  # of a demo that was killed
    shared = Shared(data=small_world, more=("--hung-after", str(HUNG_AFTER)))
    yield shared
    shared.end()


@pytest.fixture
def running(service: Shared) -> Running:
    return service.running()


@pytest.mark.timeout(400)
def test_up_delivers_and_replaces_who_dies(running: Running, notifier: Notifier) -> None:
    data, first = str(running.data), running.ready
    assert set(first.pids) == ROLES
    assert not (running.data / "run" / "loading").exists(), "nobody loads"
    assert json.loads((running.data / "asked-for.json").read_text()) == json.loads(
        (running.data / "run" / "ready.json").read_text()
    )

    before = followers_of(notifier, data)
    receipt = notifier("mention", "--author", "ada", "--of", "nova", "--id", "e1", "--json", "--data", data)
    assert json.loads(receipt.output)["status"] == "accepted"
    again = notifier("mention", "--author", "eve", "--of", "nova", "--id", "e1", "--data", data)
    assert again.exit_code == 2
    until(lambda: _delivered(notifier, data), STARTS_WITHIN)

    direct = _inbox(notifier, data)
    assert [item["burst"] for item in direct["items"]] == ["self:nova#1"]
    by_http = _inbox(notifier, data, "--url", first.url)
    assert {**by_http, "items": [_settled(item) for item in by_http["items"]]} == {
        **direct,
        "items": [_settled(item) for item in direct["items"]],
    }

    followed = notifier("follow", "--follower", "zoe", "--of", "nova", "--json", "--data", data)
    assert json.loads(followed.output)["status"] == "accepted"
    until(lambda: followers_of(notifier, data) == before + 1, STARTS_WITHIN)

    blocked = notifier("block", "@zoe", "--by", "@nova", "--json", "--data", data)
    assert json.loads(blocked.output)["status"] == "accepted"
    until(lambda: why_of(notifier, data, "zoe") == "blocked", STARTS_WITHIN)
    assert notifier("unblock", "zoe", "--by", "nova", "--data", data).exit_code == 0
    until(lambda: why_of(notifier, data, "zoe") == "before_follow", STARTS_WITHIN)
    for words in (("@zoe", "--by", "zoe"), ("@", "--by", "zoe"), ("z" * 1_000, "--by", "nova")):
        refused = notifier("block", *words, "--data", data)
        assert (refused.exit_code, "data.blocke" in refused.stderr) == (2, True)
    assert notifier("block", "zoe", "--by", "nova", "--sequence", "0", "--data", data).exit_code == 2

    told = notifier("vip", "add", "@zoe", "yan", "--data", data)
    assert (told.exit_code, told.output.splitlines()[0].startswith("Said of @zoe, @yan: a VIP.")) == (0, True)
    until(lambda: {"zoe", "yan"} <= vips_of(notifier, data), STARTS_WITHIN)
    assert json.loads(notifier("vip", "remove", "zoe", "--json", "--data", data).output)["results"][0]["status"]
    until(lambda: "zoe" not in vips_of(notifier, data), STARTS_WITHIN)
    assert notifier("vip", "add", "@", "--data", data).exit_code == 2
    assert notifier("vip", "add", *map(str, range(1_001)), "--data", data).exit_code == 2

    second = notifier("up", "--data", data, "--port", "0")
    assert second.exit_code == 3
    assert second.stderr.startswith("The data folder is in use")

    where = Settings.read(data=running.data).push.apns.fake
    for role in ("p1", "fakes"):
        os.kill(first.pids[role], signal.SIGKILL)
        until(partial(_replaced, running, role, first.pids[role]), STARTS_WITHIN)
    assert {role for role in ROLES if running.ready.pids[role] != first.pids[role]} == {"p1", "fakes"}
    until(lambda: _listens(where), STARTS_WITHIN)


def _replaced(running: Running, role: str, pid: int) -> bool:
    return running.ready.pids[role] != pid


def _signed(running: Running, role: str) -> bool:
    return roster(running.data).signed(role, running.ready.pids[role])


def _listens(origin: str) -> bool:
    at = urlsplit(origin)
    try:
        socket.create_connection((at.hostname, at.port), timeout=1.0).close()
        return True
    except OSError:
        return False


@pytest.mark.timeout(400)
def test_mute_effective_s(running: Running, notifier: Notifier) -> None:
    """From a person's mute until fan-out honours it, on a service that runs."""
    data, lyra = str(running.data), "/v1/preferences/mention:lyra"
    followers = audience_of(notifier, data, "lyra")["followers"]
    assert notifier("follow", "--follower", "amy", "--of", "lyra", "--data", data).exit_code == 0
    until(lambda: audience_of(notifier, data, "lyra")["followers"] == followers + 1, STARTS_WITHIN)
    before = muted_of(audience_of(notifier, data, "lyra"))
    amy = {"Authorization": f"Bearer {notifier('token', 'amy', '--data', data).output.strip()}"}
    said = httpx.patch(running.ready.url + lyra, json={"muted_until": "forever"}, headers=amy, timeout=ANSWERS_WITHIN)
    muted_at = monotonic()
    assert said.status_code == 200
    until(lambda: muted_of(audience_of(notifier, data, "lyra")) == before + 1, MUTED_WITHIN)
    with calling(running.ready, "") as caller:
        assert caller.post("muted", of="lyra").status_code == 202
        until(lambda: caller.settled("muted"), STARTS_WITHIN)
    mute_effective_s = monotonic() - muted_at
    seals = notifier("dump", "seals", "--ndjson", "--burst", "mention:lyra#1", "--data", data).output.splitlines()
    assert sum(json.loads(seal)["suppressed"].get("muted", 0) for seal in seals) == before + 1
    assert mute_effective_s <= MUTED_WITHIN


@pytest.mark.timeout(400)
def test_a_supervisor_that_was_stopped_for_long_kills_nobody(running: Running) -> None:
    first, said = running.ready.pids, len(_log(running))
    everybody = {role: pid for role, pid in first.items() if role not in {"valkey", "up"}}
    for pid in (first["up"], *everybody.values()):
        os.kill(pid, signal.SIGSTOP)
    sleep(HUNG_AFTER + 1)  # as a machine that was suspended: the clock goes on, and nobody runs
    looks = _sleeps(first["up"])
    os.kill(first["up"], signal.SIGCONT)
    until(lambda: _sleeps(first["up"]) >= looks + LOOKS, STARTS_WITHIN)
    assert "no sign of life" not in _log(running)[said:]
    beats = {role: _beaten(running, role) for role in everybody}
    for pid in everybody.values():
        os.kill(pid, signal.SIGCONT)
    until(lambda: all(_beaten(running, role) > last for role, last in beats.items()), STARTS_WITHIN)
    assert running.ready.pids == first
    assert "no sign of life" not in _log(running)[said:]


@pytest.mark.timeout(400)
def test_roles_that_hang_are_replaced_and_the_others_are_left_alone(running: Running) -> None:
    first, hanging, ends = running.ready.pids, {"api", "pump", "p1"}, _ends(running)
    before = len(_log(running))
    for role in hanging:
        os.kill(first[role], signal.SIGSTOP)
    until(lambda: all(running.ready.pids[role] != first[role] for role in hanging), STARTS_WITHIN)
    assert {role for role in ROLES if running.ready.pids[role] != first[role]} == hanging
    said = _log(running)[before:]
    assert all(said.count(f"The role {role} (process {first[role]}) gave no sign") == 1 for role in hanging)
    assert said.count("no sign of life") == len(hanging)
    files = set((running.data / "run" / "metrics").iterdir())
    os.kill(first["p0"], signal.SIGKILL)
    until(lambda: running.ready.pids["p0"] != first["p0"], STARTS_WITHIN)
    assert set((running.data / "run" / "metrics").iterdir()) == files
    new = {*(("hung", role) for role in hanging), ("died", "p0")}
    assert ends.isdisjoint(new)
    until(lambda: _ends(running) == ends | new, STARTS_WITHIN)


@pytest.mark.timeout(400)
def test_roles_survive_their_fork_server(running: Running) -> None:
    first, up = running.ready.pids, psutil.Process(running.ready.pids["up"])
    assert {child.pid for child in up.children()} == set(first.values()) - {up.pid} | {fork_server(up).pid}
    fork_server(up).kill()
    os.kill(first["p2"], signal.SIGKILL)
    until(partial(_replaced, running, "p2", first["p2"]), STARTS_WITHIN)
    assert {role for role in ROLES if running.ready.pids[role] != first[role]} == {"p2"}
    assert psutil.Process(running.ready.pids["p2"]).ppid() == up.pid
    until(partial(_signed, running, "p2"), STARTS_WITHIN)


def fork_server(up: psutil.Process) -> psutil.Process:
    [found] = [child for child in up.children() if "notifier.cli.supervisor.forkserver" in child.cmdline()]
    return found


@pytest.mark.timeout(400)
def test_sigterm_stops_everybody_in_order(running: Running) -> None:
    pids: Ready = running.ready
    children = psutil.Process(pids.pids["up"]).children(recursive=True)
    running.process.terminate()
    assert running.process.wait(GONE_WITHIN) == 0
    assert [role for role, pid in pids.pids.items() if lives(pid)] == []
    assert [child for child in children if lives(child.pid)] == []
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


def _log(running: Running) -> str:
    return (running.data / "up.log").read_text()


def _sleeps(pid: int) -> int:
    """Return how often the process went to sleep by itself, as a supervisor does between two looks at its roles."""
    return int(psutil.Process(pid).num_ctx_switches().voluntary)


def _beaten(running: Running, role: str) -> int:
    return (running.data / "run" / "beats" / role).stat().st_mtime_ns


def _ends(running: Running) -> set[tuple[str, str]]:
    """By cause and role, of which there was one each; nothing while the api is starting."""
    with calling(running.ready, "nobody") as caller:
        try:
            text = caller.metrics().text
        except httpx.TransportError:
            return set()
    return set(re.findall(r'roles_replaced_total{cause="(\w+)",role="(\w+)"} 1.0', text))


def _delivered(notifier: Notifier, data: str) -> bool:
    done = notifier("ledger", "mention:nova#1", "--json", "--data", data)
    books = json.loads(done.output)["books"] if done.exit_code == 0 else {}
    return bool(books) and books["balanced"] and books["delivered"] > 0 and books["in_flight"] == 0


def _inbox(notifier: Notifier, data: str, *more: str) -> dict[str, Any]:
    """Return nova's inbox as soon as it is whole and has an item.

    The mention makes two records, one for nova's followers and one for nova. The followers' burst may be delivered
    before nova's own is opened.
    """
    pages: list[dict[str, Any]] = []

    def is_there() -> bool:
        pages.append(json.loads(notifier("tab", "nova", "--json", "--data", data, *more).output))
        return bool(pages[-1]["items"]) and not pages[-1]["partial"]

    until(is_there, STARTS_WITHIN)
    return pages[-1]


def _settled(item: dict[str, Any]) -> dict[str, Any]:
    """People are told the second, operators the moment, and a burst has a name of its own for every person."""
    return {**item, "burst": "", "opened_at": datetime.fromisoformat(item["opened_at"]).replace(microsecond=0)}
