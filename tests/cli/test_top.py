"""`notifier top` shows live facts as JSON and text, without a running service."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from notifier.cli.commands.top.command import EMPTY_TEXTS, print_plain, render_screen
from notifier.cli.commands.top.snapshot import TopView, read_view, view_json
from notifier.cli.opened_stores import open_stores, overview_of
from notifier.cli.output import console, without_control_characters
from notifier.cli.running_service import Ready, ready_path, write_ready
from notifier.cli.supervisor.pid_files import pid_files_of
from notifier.config import Settings
from notifier.domain.delivery.dead_letter_limit import LaneStop, LimitKind
from notifier.domain.push.circuit_breaker import OpenCircuit
from tests.cli.conftest import Notifier
from tests.cli.in_process_delivery import deliver_mention
from tests.cli.terminal import run_in_terminal

AT_ONCE = ("--once", "--every", "0.05")


@pytest.fixture(scope="module")
def half_done(tmp_path_factory: pytest.TempPathFactory, notifier: Notifier) -> Path:
    """P0 and P1 of a burst are written, and a throttle holds P2. No test changes it."""
    folder = tmp_path_factory.mktemp("half-done")
    options = ("--followers", "2000", "--universe", "4000", "--celebrities", "2", "--json", "--data", str(folder))
    assert notifier("fixture", *options).exit_code == 0
    deliver_mention(folder, "nova", only=lambda slice_: str(slice_.tier) != "p2")
    throttle = ("--tier", "p2", "--rate", "20k", "--for", "20m", "--reason", "the store is busy", "--operator", "ann")
    assert notifier("throttle", "set", *throttle, "--data", str(folder)).exit_code == 0
    return folder


def run_json(notifier: Notifier, folder: Path) -> dict[str, Any]:
    result = notifier("top", "--json", "--every", "0.05", "--data", str(folder))
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.output))


def read_half_done(folder: Path) -> TopView:
    settings = Settings(data=folder)
    with open_stores(settings) as context:
        return read_view(overview_of(context.ports, settings), context.ports, settings)


def test_running_burst_shows_progress_per_tier(half_done: Path, notifier: Notifier) -> None:
    running = {progress["burst"]: progress for progress in run_json(notifier, half_done)["running"]}
    nova = running["mention:nova#1"]
    assert (nova["mentions"], nova["followers"]) == (1, 2000)
    assert {tier: counts["share"] for tier, counts in nova["tiers"].items()} == {"p0": 1.0, "p1": 1.0, "p2": 0.0}
    assert nova["tiers"]["p1"]["people"] > 0 == nova["tiers"]["p2"]["people"]


def test_throttle_shows_operator_reason_and_end(half_done: Path, notifier: Notifier) -> None:
    (throttle,) = run_json(notifier, half_done)["throttles"]
    assert (throttle["tier"], throttle["rate"], throttle["operator"]) == ("p2", 20_000.0, "ann")
    assert (throttle["reason"], throttle["state"]) == ("the store is busy", "active")
    text = notifier("top", *AT_ONCE, "--data", str(half_done)).stdout
    assert "20,000/s" in text
    assert "the store is busy" in text
    assert "in 20 min" in text or "in 19 min" in text


def test_missing_facts_are_unknown_and_not_zero(half_done: Path, notifier: Notifier) -> None:
    report = run_json(notifier, half_done)
    assert (report["redis"], report["backpressure"], report["backlog"]) == ("unavailable", None, {})
    assert (report["url"], report["processes"]) == (None, [])
    text = notifier("top", *AT_ONCE, "--data", str(half_done)).stdout
    assert report["open_circuits"] == []
    assert EMPTY_TEXTS["pools"] in text
    assert EMPTY_TEXTS["open circuits"] in text
    assert EMPTY_TEXTS["processes"] in text


def test_processes_show_pid_and_start_time(folder: Path, notifier: Notifier) -> None:
    unused_pid = 2**22 + 1  # above the largest id that a process can have
    pids = {"up": os.getpid(), "api": os.getpid(), "pump": unused_pid}
    write_ready(ready_path(folder), Ready(url="http://x", service_key="k", pids=pids, data=str(folder), version="0"))
    pid_files_of(folder).write("api", os.getpid())
    report = run_json(notifier, folder)
    assert report["url"] == "http://x"
    by_role = {process["role"]: process for process in report["processes"]}
    assert {role: process["pid"] for role, process in by_role.items()} == pids
    assert [role for role, process in by_role.items() if not process["alive"]] == ["pump"]
    assert datetime.now(UTC) - datetime.fromisoformat(by_role["api"]["since"]) < timedelta(minutes=1)
    assert by_role["up"]["since"] is None
    line = next(
        text for text in notifier("top", *AT_ONCE, "--data", str(folder)).stdout.splitlines() if text.startswith("pump")
    )
    assert line.split() == ["pump", str(unused_pid), "gone"]


def test_open_circuit_is_shown_with_its_reason(half_done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    current = read_half_done(half_done)
    open_circuit = OpenCircuit(until=datetime(2026, 5, 4, 10, 31, 5, tzinfo=UTC), reason="503 UNAVAILABLE\x1b")
    cache = replace(current.snapshot.cache, open_circuits={"fcm": open_circuit})
    current = replace(current, snapshot=replace(current.snapshot, cache=cache))
    print_plain(current)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("fcm"))
    assert line.split() == ["fcm", "10:31:05", "UTC", "503", "UNAVAILABLE\ufffd"]
    screen = console()
    with screen.capture() as captured:
        screen.print(render_screen(current, 80))
    assert "503 UNAVAILABLE" in captured.get()
    assert view_json(current)["open_circuits"] == [
        {"line": "fcm", "until": "2026-05-04T10:31:05.000Z", "reason": "503 UNAVAILABLE\x1b"}
    ]


def test_stopped_lane_is_shown_with_its_record_and_cause(half_done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    current = read_half_done(half_done)
    print_plain(current)
    assert EMPTY_TEXTS["stopped lanes"] in capsys.readouterr().out
    at = datetime(2026, 5, 4, 10, 31, 5, tzinfo=UTC)
    stop = LaneStop(at=at, stopped_by="pump-1", kind=LimitKind.IN_A_ROW, limit=50, record="follows/0/7", cause="no\x1b")
    current = replace(current, snapshot=replace(current.snapshot, stopped_lanes={"follows": stop}))
    print_plain(current)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("follows"))
    assert line.split() == ["follows", "10:31:05", "UTC", "follows/0/7", "no\ufffd"]
    screen = console()
    with screen.capture() as captured:
        screen.print(render_screen(current, 80))
    assert "follows/0/7" in captured.get()
    [lane] = cast(list[dict[str, object]], view_json(current)["stopped_lanes"])
    assert (lane["lane"], lane["limit"], lane["since"]) == ("follows", "in_a_row", "2026-05-04T10:31:05.000Z")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_display_fits_every_width(half_done: Path, width: int) -> None:
    screen = console()
    screen.width = width
    with screen.capture() as captured:
        screen.print(render_screen(read_half_done(half_done), width))
    lines = captured.get().splitlines()
    assert max(len(line) for line in lines) <= width
    line = next(line for line in lines if line.startswith("mention:nova#1"))
    assert line.count("100%") == 2
    assert ("━" in line) == (width >= 80)


def test_display_is_live_on_terminal_until_q(half_done: Path) -> None:
    lines = run_in_terminal(
        ("top", "--every", "0.2", "--data", str(half_done)), width=100, keys="q", after="mention:nova#1"
    )
    assert any("notifier top" in line for line in lines)


def test_ctrl_c_exits_cleanly(half_done: Path) -> None:
    run_in_terminal(("top", "--every", "0.2", "--data", str(half_done)), width=100, keys="\x03", after="mention:nova#1")


def test_json_has_the_number_of_unfinished_bursts(half_done: Path) -> None:
    current = read_half_done(half_done)
    assert view_json(current)["open_bursts"] == current.snapshot.unfinished_burst_count > 0


def test_control_characters_are_replaced() -> None:
    assert without_control_characters("a\x1b[0m") == "a\ufffd[0m"


def test_deferred_bursts_are_counted_apart_from_pending_ones(
    half_done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    current = read_half_done(half_done)
    with_deferred = replace(current, snapshot=replace(current.snapshot, deferred_burst_count=1_200))
    print_plain(with_deferred)
    assert "unfinished, 1,200 deferred" in capsys.readouterr().out
    assert (view_json(current)["deferred_bursts"], view_json(with_deferred)["deferred_bursts"]) == (0, 1_200)
    print_plain(current)
    assert "unfinished, " not in capsys.readouterr().out
