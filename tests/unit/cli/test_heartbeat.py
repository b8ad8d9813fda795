"""Heartbeats: a silent process counts as hung, and each of its loops must make progress."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from notifier.cli.supervisor.heartbeat import (
    HEARTBEAT_INTERVAL_SECONDS,
    MAX_CHECK_GAP_SECONDS,
    STEP_TIMEOUT_SECONDS,
    HeartbeatLimits,
    HeartbeatSender,
    HeartbeatWatch,
    ThreadProgress,
)
from notifier.consumer_loop import BACKOFF
from notifier.domain.errors import StoreUnavailable

CHECK_INTERVAL = MAX_CHECK_GAP_SECONDS / 2


@dataclass
class ManualSeconds:
    """A clock that the test advances."""

    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Watched:
    """A role that is watched, and the watcher's clock."""

    heartbeat: HeartbeatWatch
    clock: ManualSeconds

    def beat(self) -> None:
        """Change the file's time; only a change matters, not the time itself."""
        self.heartbeat.file.touch()
        os.utime(self.heartbeat.file, ns=(0, self.heartbeat.file_time_ns + 1))

    def hung_within(self, seconds: float) -> bool:
        """Return whether a check within these seconds finds it hung."""
        end = self.clock.at + seconds
        while self.clock.at < end:
            self.clock.at += CHECK_INTERVAL
            if self.heartbeat.poll_hung():
                return True
        return False


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    clock = ManualSeconds()
    limits = HeartbeatLimits(max_silence=60, start_timeout=120)
    heartbeat = HeartbeatWatch(file=tmp_path / "p0", limits=limits, now=clock)
    heartbeat.restart()
    return Watched(heartbeat, clock)


def test_role_with_heartbeats_does_not_hang(watched: Watched) -> None:
    for _ in range(10):
        watched.beat()
        assert not watched.hung_within(50)


def test_role_without_heartbeats_hangs_after_its_limit(watched: Watched) -> None:
    watched.beat()
    assert not watched.hung_within(60)
    assert watched.hung_within(CHECK_INTERVAL)


def test_starting_role_has_a_longer_limit(watched: Watched) -> None:
    watched.beat()
    assert watched.hung_within(70)
    watched.heartbeat.restart()
    assert not watched.hung_within(115)
    assert watched.hung_within(8)


def test_suspended_watcher_restarts_its_count(watched: Watched) -> None:
    watched.beat()
    assert not watched.hung_within(55)
    watched.clock.at += 3600
    assert not watched.heartbeat.poll_hung()
    assert not watched.hung_within(55)
    assert watched.hung_within(10)


def test_missing_heartbeat_folder_does_not_count_as_hung(watched: Watched) -> None:
    watched.beat()
    assert not watched.hung_within(50)
    missing = watched.heartbeat.file.parent / "gone"
    watched.heartbeat.file = missing / "p0"
    assert not watched.hung_within(500)
    missing.mkdir()
    assert watched.hung_within(70)


def test_heartbeat_is_written_once_a_second_and_tolerates_no_folder(tmp_path: Path) -> None:
    clock, file = ManualSeconds(), tmp_path / "run" / "p0"
    beat = HeartbeatSender(file=file, now=clock)
    beat()
    file.parent.mkdir()
    beat()
    assert not file.exists()
    clock.at += HEARTBEAT_INTERVAL_SECONDS
    beat()
    assert file.exists()


def test_stuck_loop_makes_its_process_late() -> None:
    clock = ManualSeconds()
    progress = ThreadProgress(now=clock)
    quick = progress.tracked("router", lambda: 1, 0)
    seen: list[bool] = []

    def stuck() -> None:
        for _ in range(4):
            clock.at += STEP_TIMEOUT_SECONDS / 3
            quick()
            seen.append(progress.all_on_time())

    step = progress.tracked("dispatcher", stuck, 0)
    step()
    assert seen == [True, True, False, False]
    assert progress.all_on_time()


def test_loop_that_never_runs_makes_its_process_late() -> None:
    clock = ManualSeconds()
    progress = ThreadProgress(now=clock)
    progress.tracked("router", lambda: 1, 0)
    assert progress.all_on_time()
    clock.at += STEP_TIMEOUT_SECONDS
    assert not progress.all_on_time()


def test_idle_loop_and_loop_in_an_outage_are_on_time() -> None:
    clock = ManualSeconds()
    progress = ThreadProgress(now=clock)

    def outage() -> None:
        raise StoreUnavailable

    waiting = progress.tracked("router", outage, 0)
    idle = progress.tracked("monitor", lambda: None, 300)
    idle()
    for _ in range(20):
        with pytest.raises(StoreUnavailable):
            waiting()
        clock.at += BACKOFF.longest.total_seconds() + 10
        assert progress.all_on_time()
