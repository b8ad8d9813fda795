"""`notifier top`: the same facts live, as JSON and as text; it needs nobody who runs, and ends with q or Ctrl-C."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from notifier.cli.commands.top.command import NOTHING, picture, print_plain
from notifier.cli.commands.top.snapshot import Glance, facts, glance
from notifier.cli.context import opened, overview_of
from notifier.cli.http import Ready, ready_path, write_ready
from notifier.cli.output import console, harmless
from notifier.cli.supervisor.pid_files import roster
from notifier.config import Settings
from notifier.domain.delivery.dead_letter_limit import LaneStop, LimitKind
from notifier.domain.push.circuit_breaker import LeftAlone
from tests.cli.conftest import Notifier
from tests.cli.delivered import deliver
from tests.cli.terminal import drawn

AT_ONCE = ("--once", "--every", "0.05")


@pytest.fixture(scope="module")
def half_done(tmp_path_factory: pytest.TempPathFactory, notifier: Notifier) -> Path:
    """P0 and P1 of a burst are written; a throttle holds P2. Nobody changes it."""
    folder = tmp_path_factory.mktemp("half-done")
    words = ("--followers", "2000", "--universe", "4000", "--celebrities", "2", "--json", "--data", str(folder))
    assert notifier("fixture", *words).exit_code == 0
    deliver(folder, "nova", of=lambda piece: str(piece.tier) != "p2")
    throttle = ("--tier", "p2", "--rate", "20k", "--for", "20m", "--reason", "the store is busy", "--who", "ann")
    assert notifier("throttle", "set", *throttle, "--data", str(folder)).exit_code == 0
    return folder


def asked(notifier: Notifier, folder: Path) -> dict[str, Any]:
    done = notifier("top", "--json", "--every", "0.05", "--data", str(folder))
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.output))


def seen(folder: Path) -> Glance:
    settings = Settings(data=folder)
    with opened(settings) as it:
        return glance(overview_of(it.ports, settings), it.ports, settings)


def test_a_running_burst_shows_how_far_each_tier_is(half_done: Path, notifier: Notifier) -> None:
    running = {each["burst"]: each for each in asked(notifier, half_done)["running"]}
    nova = running["mention:nova#1"]
    assert (nova["mentions"], nova["followers"]) == (1, 2000)
    assert {tier: of["share"] for tier, of in nova["tiers"].items()} == {"p0": 1.0, "p1": 1.0, "p2": 0.0}
    assert nova["tiers"]["p1"]["people"] > 0 == nova["tiers"]["p2"]["people"]


def test_throttles_tell_who_why_and_until_when(half_done: Path, notifier: Notifier) -> None:
    (throttle,) = asked(notifier, half_done)["throttles"]
    assert (throttle["tier"], throttle["rate"], throttle["who"]) == ("p2", 20_000.0, "ann")
    assert (throttle["reason"], throttle["state"]) == ("the store is busy", "active")
    text = notifier("top", *AT_ONCE, "--data", str(half_done)).stdout
    assert "20,000/s" in text
    assert "the store is busy" in text
    assert "in 20 min" in text or "in 19 min" in text


def test_what_nobody_says_is_unknown_and_not_zero(half_done: Path, notifier: Notifier) -> None:
    found = asked(notifier, half_done)
    assert (found["redis"], found["pressure"], found["pools"]) == ("unavailable", None, {})
    assert (found["url"], found["processes"]) == (None, [])
    text = notifier("top", *AT_ONCE, "--data", str(half_done)).stdout
    assert found["left_alone"] == []
    assert NOTHING["pools"] in text
    assert NOTHING["left alone"] in text
    assert NOTHING["processes"] in text


def test_processes_show_their_ids_and_since_when_they_are_up(folder: Path, notifier: Notifier) -> None:
    gone = 2**22 + 1  # above the largest id that a process can have
    pids = {"up": os.getpid(), "api": os.getpid(), "pump": gone}
    write_ready(ready_path(folder), Ready(url="http://x", service_key="k", pids=pids, data=str(folder), version="0"))
    roster(folder).sign("api", os.getpid())
    found = asked(notifier, folder)
    assert found["url"] == "http://x"
    by_role = {each["role"]: each for each in found["processes"]}
    assert {role: each["pid"] for role, each in by_role.items()} == pids
    assert [role for role, each in by_role.items() if not each["alive"]] == ["pump"]
    assert datetime.now(UTC) - datetime.fromisoformat(by_role["api"]["since"]) < timedelta(minutes=1)
    assert by_role["up"]["since"] is None
    line = next(x for x in notifier("top", *AT_ONCE, "--data", str(folder)).stdout.splitlines() if x.startswith("pump"))
    assert line.split() == ["pump", str(gone), "gone"]


def test_whom_no_alerts_are_sent_to_is_told_with_the_reason(
    half_done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = seen(half_done)
    left = LeftAlone(until=datetime(2026, 5, 4, 10, 31, 5, tzinfo=UTC), reason="503 UNAVAILABLE\x1b")
    cache = replace(found.snapshot.cache, left_alone={"fcm": left})
    found = replace(found, snapshot=replace(found.snapshot, cache=cache))
    print_plain(found)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("fcm"))
    assert line.split() == ["fcm", "10:31:05", "UTC", "503", "UNAVAILABLE\ufffd"]
    screen = console()
    with screen.capture() as captured:
        screen.print(picture(found, 80))
    assert "503 UNAVAILABLE" in captured.get()
    assert facts(found)["left_alone"] == [
        {"line": "fcm", "until": "2026-05-04T10:31:05.000Z", "reason": "503 UNAVAILABLE\x1b"}
    ]


def test_stopped_lane_is_shown_with_its_record_and_cause(half_done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = seen(half_done)
    print_plain(found)
    assert NOTHING["stopped lanes"] in capsys.readouterr().out
    at = datetime(2026, 5, 4, 10, 31, 5, tzinfo=UTC)
    stop = LaneStop(at=at, who="pump-1", kind=LimitKind.IN_A_ROW, limit=50, record="follows/0/7", cause="no\x1b")
    found = replace(found, snapshot=replace(found.snapshot, stopped_lanes={"follows": stop}))
    print_plain(found)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("follows"))
    assert line.split() == ["follows", "10:31:05", "UTC", "follows/0/7", "no\ufffd"]
    screen = console()
    with screen.capture() as captured:
        screen.print(picture(found, 80))
    assert "follows/0/7" in captured.get()
    [lane] = cast(list[dict[str, object]], facts(found)["stopped_lanes"])
    assert (lane["lane"], lane["limit"], lane["since"]) == ("follows", "in_a_row", "2026-05-04T10:31:05.000Z")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_picture_fits_every_width(half_done: Path, width: int) -> None:
    screen = console()
    screen.width = width
    with screen.capture() as captured:
        screen.print(picture(seen(half_done), width))
    lines = captured.get().splitlines()
    assert max(len(line) for line in lines) <= width
    line = next(line for line in lines if line.startswith("mention:nova#1"))
    assert line.count("100%") == 2
    assert ("━" in line) == (width >= 80)


def test_it_is_live_on_a_terminal_until_q(half_done: Path) -> None:
    lines = drawn(("top", "--every", "0.2", "--data", str(half_done)), width=100, keys="q", after="mention:nova#1")
    assert any("notifier top" in line for line in lines)


def test_ctrl_c_ends_it_well(half_done: Path) -> None:
    drawn(("top", "--every", "0.2", "--data", str(half_done)), width=100, keys="\x03", after="mention:nova#1")


def test_json_and_text_are_of_the_same_facts(half_done: Path) -> None:
    found = seen(half_done)
    assert facts(found)["open_bursts"] == found.snapshot.open_bursts > 0
    assert harmless("a\x1b[0m") == "a\ufffd[0m"


def test_bursts_of_sleepers_are_told_apart_from_those_with_work_left(
    half_done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = seen(half_done)
    asleep = replace(found, snapshot=replace(found.snapshot, sleeping_bursts=1_200))
    print_plain(asleep)
    assert "with work left, 1,200 asleep" in capsys.readouterr().out
    assert (facts(found)["sleeping_bursts"], facts(asleep)["sleeping_bursts"]) == (0, 1_200)
    print_plain(found)
    assert "asleep" not in capsys.readouterr().out
