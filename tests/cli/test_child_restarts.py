"""A dead child process is restarted: soon at first, then after longer pauses."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from notifier.cli.supervisor.child import (
    BACKOFF,
    DIED,
    HUNG,
    MAX_LOG_BYTES,
    STEADY_UPTIME_SECONDS,
    Child,
    rotate_large_log,
)
from notifier.cli.supervisor.heartbeat import HeartbeatLimits, HeartbeatWatch

PAUSE = BACKOFF.first.total_seconds()


@dataclass
class ManualClock:
    """A clock that tests advance."""

    at: float = 0.0

    def __call__(self) -> float:
        return self.at


@dataclass
class ProcessStarter:
    """Start processes that only wait, and remember them."""

    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def __call__(self) -> "subprocess.Popen[bytes]":
        self.processes.append(
            subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
        )
        return self.processes[-1]

    def kill_last(self) -> None:
        self.processes[-1].kill()
        self.processes[-1].communicate()


@pytest.fixture
def starts() -> Iterator[ProcessStarter]:
    starts = ProcessStarter()
    yield starts
    for process in starts.processes:
        process.kill()
        process.communicate()


def test_dead_child_is_restarted_after_pause(starts: ProcessStarter) -> None:
    clock = ManualClock()
    child = Child(name="p0", start=starts, now=clock)
    child.supervise()
    first_pid = child.pid
    starts.kill_last()
    child.supervise()
    assert child.pid is None
    clock.at += PAUSE / 2
    child.supervise()
    assert child.pid is None
    clock.at += PAUSE
    child.supervise()
    assert child.pid not in (None, first_pid)


def test_hung_child_is_killed_and_restarted(
    starts: ProcessStarter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, ends = ManualClock(), list[str]()
    heartbeat = HeartbeatWatch(file=tmp_path / "p0", limits=HeartbeatLimits(max_silence=3, start_timeout=4), now=clock)
    child = Child(name="p0", start=starts, now=clock, heartbeat=heartbeat, on_end=ends.append)
    child.supervise()
    first = starts.processes[0]
    os.kill(first.pid, signal.SIGSTOP)
    for _ in range(4):
        child.supervise()
        clock.at += 1
    assert (ends, child.pid) == ([], first.pid)
    child.supervise()
    first.wait(10)
    child.supervise()
    clock.at += PAUSE
    child.supervise()
    assert child.pid not in (None, first.pid)
    assert caplog.messages == [f"no heartbeat from role p0 (process {first.pid}) for 4 s, killing and restarting it"]
    starts.kill_last()
    child.supervise()
    assert ends == [HUNG, DIED]


@pytest.mark.parametrize(("lived", "deaths"), [(STEADY_UPTIME_SECONDS - 1, 2), (STEADY_UPTIME_SECONDS + 1, 1)])
def test_steady_child_resets_its_count_of_exits(lived: float, deaths: int, starts: ProcessStarter) -> None:
    clock = ManualClock()
    child = Child(name="p0", start=starts, now=clock)
    for _ in range(2):
        clock.at = child.next_start_at
        child.supervise()
        clock.at += lived
        starts.kill_last()
        child.supervise()
    assert len(child.exit_codes) == deaths


def test_restart_delay_grows_and_resets_when_child_is_steady(starts: ProcessStarter) -> None:
    clock, delays = ManualClock(), list[float]()
    child = Child(name="p0", start=starts, now=clock)
    for lived in (0.0, 0.0, 0.0, STEADY_UPTIME_SECONDS):
        clock.at = child.next_start_at
        child.supervise()
        clock.at += lived
        starts.kill_last()
        child.supervise()
        delays.append(round(child.next_start_at - clock.at, 6))
    assert delays == [0.1, 0.2, 0.4, 0.1]


@pytest.mark.parametrize(("size", "rotated"), [(MAX_LOG_BYTES, False), (MAX_LOG_BYTES + 1, True)])
def test_only_long_log_is_rotated(size: int, rotated: bool, tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    with log.open("wb") as file:
        file.truncate(size)
    rotate_large_log(log)
    assert (tmp_path / "api.log.1").exists() is rotated
    assert log.exists() is not rotated
