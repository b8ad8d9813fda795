"""`notifier up` as a user runs it: starts, delivers, replaces dead processes, stops cleanly."""

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

from notifier.cli.running_service import Ready
from notifier.cli.supervisor.pid_files import pid_files_of
from notifier.config import Settings
from tests.cli.account_facts_from_commands import audience_of, followers_of, hiding_rule_of, muted_of, vips_of
from tests.cli.conftest import Notifier
from tests.cli.running_service import GONE_WITHIN, STARTS_WITHIN, Running, SharedService, is_running, until
from tests.cli.service_caller import ANSWERS_WITHIN, calling

ROLES = {"up", "api", "pump", "p0", "p1", "p2", "push.apns", "push.fcm", "push.web", "fakes", "valkey"}


MUTED_WITHIN = 60.0
"""Seconds; an idle machine needs one."""

HUNG_AFTER = 15.0
"""Seconds, longer than a supervisor may be stopped unnoticed.

A role sends a heartbeat every second, but may wait five for a locked file or a broker; a busy machine adds to it.
"""

SLEEPS_PER_CHECK = 5
"""A supervisor that slept so often has checked all of its roles."""


@pytest.fixture(scope="module")
def service(small_world: Path) -> Iterator[SharedService]:
    (small_world / "run").mkdir(exist_ok=True)
    (small_world / "run" / "loading").write_text("85")  # left by a demo that was killed
    shared = SharedService(data=small_world, options=("--hung-after", str(HUNG_AFTER)))
    yield shared
    shared.end()


@pytest.fixture
def running(service: SharedService) -> Running:
    return service.running()


@pytest.mark.timeout(400)
def test_up_delivers_and_replaces_dead_processes(running: Running, notifier: Notifier) -> None:
    data, first = str(running.data), running.ready
    assert set(first.pids) == ROLES
    assert not (running.data / "run" / "loading").exists(), "no process loads a world"
    assert json.loads((running.data / "asked-for.json").read_text()) == json.loads(
        (running.data / "run" / "ready.json").read_text()
    )

    before = followers_of(notifier, data)
    receipt = notifier("mention", "--author", "ada", "--of", "nova", "--id", "e1", "--json", "--data", data)
    assert json.loads(receipt.output)["status"] == "accepted"
    conflict = notifier("mention", "--author", "eve", "--of", "nova", "--id", "e1", "--data", data)
    assert conflict.exit_code == 2
    until(lambda: _delivered(notifier, data), STARTS_WITHIN)

    direct = _inbox(notifier, data)
    assert [item["burst"] for item in direct["items"]] == ["self:nova#1"]
    by_http = _inbox(notifier, data, "--url", first.url)
    assert {**by_http, "items": [_comparable(item) for item in by_http["items"]]} == {
        **direct,
        "items": [_comparable(item) for item in direct["items"]],
    }

    followed = notifier("follow", "--follower", "zoe", "--of", "nova", "--json", "--data", data)
    assert json.loads(followed.output)["status"] == "accepted"
    until(lambda: followers_of(notifier, data) == before + 1, STARTS_WITHIN)

    blocked = notifier("block", "@zoe", "--by", "@nova", "--json", "--data", data)
    assert json.loads(blocked.output)["status"] == "accepted"
    until(lambda: hiding_rule_of(notifier, data, "zoe") == "blocked", STARTS_WITHIN)
    assert notifier("unblock", "zoe", "--by", "nova", "--data", data).exit_code == 0
    until(lambda: hiding_rule_of(notifier, data, "zoe") == "before_follow", STARTS_WITHIN)
    for arguments in (("@zoe", "--by", "zoe"), ("z" * 1_000, "--by", "nova")):
        refused = notifier("block", *arguments, "--data", data)
        assert (refused.exit_code, "data.blocke" in refused.stderr) == (2, True)
    assert notifier("block", "zoe", "--by", "nova", "--sequence", "0", "--data", data).exit_code == 2

    added = notifier("vip", "add", "@zoe", "yan", "--data", data)
    assert (added.exit_code, added.output.splitlines()[0].startswith("Sent for @zoe, @yan: VIP.")) == (0, True)
    until(lambda: {"zoe", "yan"} <= vips_of(notifier, data), STARTS_WITHIN)
    assert json.loads(notifier("vip", "remove", "zoe", "--json", "--data", data).output)["results"][0]["status"]
    until(lambda: "zoe" not in vips_of(notifier, data), STARTS_WITHIN)
    assert notifier("vip", "add", "@", "--data", data).exit_code == 2
    assert notifier("vip", "add", *map(str, range(1_001)), "--data", data).exit_code == 2

    second = notifier("up", "--data", data, "--port", "0")
    assert second.exit_code == 3
    assert second.stderr.startswith("The data folder is in use")

    apns_url = Settings.read(data=running.data).push.apns.fake
    for role in ("p1", "fakes"):
        os.kill(first.pids[role], signal.SIGKILL)
        until(partial(_replaced, running, role, first.pids[role]), STARTS_WITHIN)
    assert {role for role in ROLES if running.ready.pids[role] != first.pids[role]} == {"p1", "fakes"}
    until(lambda: _listens(apns_url), STARTS_WITHIN)


def _replaced(running: Running, role: str, pid: int) -> bool:
    return running.ready.pids[role] != pid


def _has_started(running: Running, role: str) -> bool:
    return pid_files_of(running.data).is_written(role, running.ready.pids[role])


def _listens(origin: str) -> bool:
    url = urlsplit(origin)
    try:
        socket.create_connection((url.hostname, url.port), timeout=1.0).close()
        return True
    except OSError:
        return False


@pytest.mark.timeout(400)
def test_mute_takes_effect_within_limit(running: Running, notifier: Notifier) -> None:
    """Measure from a user's mute until fan-out honors it, on a running service."""
    data, lyra = str(running.data), "/v1/preferences/mention:lyra"
    followers = audience_of(notifier, data, "lyra")["followers"]
    assert notifier("follow", "--follower", "amy", "--of", "lyra", "--data", data).exit_code == 0
    until(lambda: audience_of(notifier, data, "lyra")["followers"] == followers + 1, STARTS_WITHIN)
    before = muted_of(audience_of(notifier, data, "lyra"))
    amy = {"Authorization": f"Bearer {notifier('token', 'amy', '--data', data).output.strip()}"}
    response = httpx.patch(
        running.ready.url + lyra, json={"muted_until": "forever"}, headers=amy, timeout=ANSWERS_WITHIN
    )
    muted_at = monotonic()
    assert response.status_code == 200
    until(lambda: muted_of(audience_of(notifier, data, "lyra")) == before + 1, MUTED_WITHIN)
    with calling(running.ready, "") as caller:
        assert caller.post("muted", mentioned="lyra").status_code == 202
        until(lambda: caller.is_finished("muted"), STARTS_WITHIN)
    mute_effective_s = monotonic() - muted_at
    snapshots = notifier(
        "dump", "snapshots", "--ndjson", "--burst", "mention:lyra#1", "--data", data
    ).output.splitlines()
    assert sum(json.loads(snapshot)["suppressed"].get("muted", 0) for snapshot in snapshots) == before + 1
    assert mute_effective_s <= MUTED_WITHIN


@pytest.mark.thorough
@pytest.mark.timeout(400)
def test_suspended_supervisor_kills_no_role(running: Running) -> None:
    first, log_start = running.ready.pids, len(_log(running))
    roles = {role: pid for role, pid in first.items() if role not in {"valkey", "up"}}
    for pid in (first["up"], *roles.values()):
        os.kill(pid, signal.SIGSTOP)
    sleep(HUNG_AFTER + 1)  # as on a suspended machine: the clock goes on, and no process runs
    sleeps = _sleeps(first["up"])
    os.kill(first["up"], signal.SIGCONT)
    until(lambda: _sleeps(first["up"]) >= sleeps + SLEEPS_PER_CHECK, STARTS_WITHIN)
    assert "no heartbeat from" not in _log(running)[log_start:]
    beats = {role: _heartbeat(running, role) for role in roles}
    for pid in roles.values():
        os.kill(pid, signal.SIGCONT)
    until(lambda: all(_heartbeat(running, role) > beat for role, beat in beats.items()), STARTS_WITHIN)
    assert running.ready.pids == first
    assert "no heartbeat from" not in _log(running)[log_start:]


@pytest.mark.thorough
@pytest.mark.timeout(400)
def test_only_hung_roles_are_replaced(running: Running) -> None:
    first, hanging, ends = running.ready.pids, {"api", "pump", "p1"}, _ends(running)
    before = len(_log(running))
    for role in hanging:
        os.kill(first[role], signal.SIGSTOP)
    until(lambda: all(running.ready.pids[role] != first[role] for role in hanging), STARTS_WITHIN)
    assert {role for role in ROLES if running.ready.pids[role] != first[role]} == hanging
    log = _log(running)[before:]
    assert all(log.count(f"no heartbeat from role {role} (process {first[role]})") == 1 for role in hanging)
    assert log.count("no heartbeat from") == len(hanging)
    files = set((running.data / "run" / "metrics").iterdir())
    os.kill(first["p0"], signal.SIGKILL)
    until(lambda: running.ready.pids["p0"] != first["p0"], STARTS_WITHIN)
    assert set((running.data / "run" / "metrics").iterdir()) == files
    new_ends = {*(("hung", role) for role in hanging), ("died", "p0")}
    assert ends.isdisjoint(new_ends)
    until(lambda: _ends(running) == ends | new_ends, STARTS_WITHIN)


@pytest.mark.timeout(400)
def test_roles_survive_their_fork_server(running: Running) -> None:
    first, up = running.ready.pids, psutil.Process(running.ready.pids["up"])
    assert {child.pid for child in up.children()} == set(first.values()) - {up.pid} | {fork_server(up).pid}
    fork_server(up).kill()
    os.kill(first["p2"], signal.SIGKILL)
    until(partial(_replaced, running, "p2", first["p2"]), STARTS_WITHIN)
    assert {role for role in ROLES if running.ready.pids[role] != first[role]} == {"p2"}
    assert psutil.Process(running.ready.pids["p2"]).ppid() == up.pid
    until(partial(_has_started, running, "p2"), STARTS_WITHIN)


def fork_server(up: psutil.Process) -> psutil.Process:
    [server] = [child for child in up.children() if "notifier.cli.supervisor.forkserver" in child.cmdline()]
    return server


@pytest.mark.timeout(400)
def test_sigterm_stops_all_processes(running: Running) -> None:
    ready: Ready = running.ready
    children = psutil.Process(ready.pids["up"]).children(recursive=True)
    running.process.terminate()
    assert running.process.wait(GONE_WITHIN) == 0
    assert [role for role, pid in ready.pids.items() if is_running(pid)] == []
    assert [child for child in children if is_running(child.pid)] == []
    assert not (running.data / "run" / "ready.json").exists()
    assert not (running.data / "asked-for.json").exists()


def test_port_in_use_is_reported_in_one_sentence(folder: Path, notifier: Notifier) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        result = notifier("up", "--data", str(folder), "--port", str(listener.getsockname()[1]))
    assert result.exit_code == 3
    assert result.stderr.startswith("The port is taken")


def test_uncreatable_folder_is_reported_in_one_sentence(tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "file").touch()
    result = notifier("up", "--data", str(tmp_path / "file" / "data"), "--port", "0")
    assert result.exit_code == 3
    assert result.stderr.startswith("The data folder can't be written to.")


def _log(running: Running) -> str:
    return (running.data / "up.log").read_text()


def _sleeps(pid: int) -> int:
    """Return how often the process went to sleep by itself, as a supervisor does between two checks of its roles."""
    return int(psutil.Process(pid).num_ctx_switches().voluntary)


def _heartbeat(running: Running, role: str) -> int:
    return (running.data / "run" / "heartbeats" / role).stat().st_mtime_ns


def _ends(running: Running) -> set[tuple[str, str]]:
    """Return the causes and roles that ended exactly once; an empty set while the API is starting."""
    with calling(running.ready, "nobody") as caller:
        try:
            text = caller.metrics().text
        except httpx.TransportError:
            return set()
    return set(re.findall(r'roles_replaced_total{cause="(\w+)",role="(\w+)"} 1.0', text))


def _delivered(notifier: Notifier, data: str) -> bool:
    result = notifier("ledger", "mention:nova#1", "--json", "--data", data)
    counts = json.loads(result.output)["recipients"] if result.exit_code == 0 else {}
    return bool(counts) and counts["balanced"] and counts["delivered"] > 0 and counts["in_flight"] == 0


def _inbox(notifier: Notifier, data: str, *options: str) -> dict[str, Any]:
    """Return nova's inbox as soon as it is complete and has an item.

    The mention makes two records, one for nova's followers and one for nova. The followers' burst may be delivered
    before nova's own is opened.
    """
    pages: list[dict[str, Any]] = []

    def is_complete() -> bool:
        pages.append(json.loads(notifier("inbox", "nova", "--json", "--data", data, *options).output))
        return bool(pages[-1]["items"]) and not pages[-1]["partial"]

    until(is_complete, STARTS_WITHIN)
    return pages[-1]


def _comparable(item: dict[str, Any]) -> dict[str, Any]:
    """Remove differences: users get times in seconds, operators exact ones, and burst ids differ per user."""
    return {**item, "burst": "", "opened_at": datetime.fromisoformat(item["opened_at"]).replace(microsecond=0)}
