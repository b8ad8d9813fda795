"""A child is started again when it dies: soon at first, later after longer pauses."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from notifier.cli.supervisor.child import BACKOFF, DIED, HUNG, LONGEST_LOG, STEADY_AFTER, Child, put_aside
from notifier.cli.supervisor.heartbeat import HeartbeatLimits, Pulse

PAUSE = BACKOFF.first.total_seconds()


@dataclass
class Watch:
    """A clock turned by hand."""

    at: float = 0.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Starts:
    """Starts processes that do nothing but wait, and remembers them."""

    made: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def __call__(self) -> "subprocess.Popen[bytes]":
        self.made.append(
            subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
        )
        return self.made[-1]

    def kill_last(self) -> None:
        self.made[-1].kill()
        self.made[-1].communicate()


@pytest.fixture
def starts() -> Iterator[Starts]:
    made = Starts()
    yield made
    for each in made.made:
        each.kill()
        each.communicate()


def test_a_dead_child_is_started_again_after_its_pause(starts: Starts) -> None:
    watch = Watch()
    child = Child(role="p0", start=starts, now=watch)
    child.tend()
    first = child.pid
    starts.kill_last()
    child.tend()
    assert child.pid is None
    watch.at += PAUSE / 2
    child.tend()
    assert child.pid is None
    watch.at += PAUSE
    child.tend()
    assert child.pid not in (None, first)


def test_a_child_that_hangs_is_killed_replaced_told_of_and_counted(
    starts: Starts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch, ends = Watch(), list[str]()
    pulse = Pulse(file=tmp_path / "p0", patience=HeartbeatLimits(silent_for=3, starts_within=4), now=watch)
    child = Child(role="p0", start=starts, now=watch, pulse=pulse, ended=ends.append)
    child.tend()
    first = starts.made[0]
    os.kill(first.pid, signal.SIGSTOP)
    for _ in range(4):
        child.tend()
        watch.at += 1
    assert (ends, child.pid) == ([], first.pid)
    child.tend()
    first.wait(10)
    child.tend()
    watch.at += PAUSE
    child.tend()
    assert child.pid not in (None, first.pid)
    assert caplog.messages == [
        f"The role p0 (process {first.pid}) gave no sign of life for 4 s: it is killed and replaced."
    ]
    starts.kill_last()
    child.tend()
    assert ends == [HUNG, DIED]


@pytest.mark.parametrize(("lived", "deaths"), [(STEADY_AFTER - 1, 2), (STEADY_AFTER + 1, 1)])
def test_a_steady_life_makes_the_next_death_the_first(lived: float, deaths: int, starts: Starts) -> None:
    watch = Watch()
    child = Child(role="p0", start=starts, now=watch)
    for _ in range(2):
        watch.at = child.due_at
        child.tend()
        watch.at += lived
        starts.kill_last()
        child.tend()
    assert len(child.exits) == deaths


def test_delay_grows_with_each_death_and_starts_again_when_steady(starts: Starts) -> None:
    watch, delays = Watch(), list[float]()
    child = Child(role="p0", start=starts, now=watch)
    for lived in (0.0, 0.0, 0.0, STEADY_AFTER):
        watch.at = child.due_at
        child.tend()
        watch.at += lived
        starts.kill_last()
        child.tend()
        delays.append(round(child.due_at - watch.at, 6))
    assert delays == [0.1, 0.2, 0.4, 0.1]


@pytest.mark.parametrize(("size", "aside"), [(LONGEST_LOG, False), (LONGEST_LOG + 1, True)])
def test_only_a_long_log_is_put_aside(size: int, aside: bool, tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    with log.open("wb") as file:
        file.truncate(size)
    put_aside(log)
    assert (tmp_path / "api.log.1").exists() is aside
    assert log.exists() is not aside
