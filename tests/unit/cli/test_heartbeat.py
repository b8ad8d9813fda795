"""Heartbeats: a silent process hangs, and each of its loops must make progress."""

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
class ManualWatch:
    """A clock that the test advances."""

    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Watched:
    pulse: HeartbeatWatch
    watch: ManualWatch

    def beat(self) -> None:
        """Change the file's time; only a change matters, not the time itself."""
        self.pulse.file.touch()
        os.utime(self.pulse.file, ns=(0, self.pulse.file_time_ns + 1))

    def hung_within(self, seconds: float) -> bool:
        """Return whether a check within these seconds finds it hung."""
        end = self.watch.at + seconds
        while self.watch.at < end:
            self.watch.at += CHECK_INTERVAL
            if self.pulse.poll_hung():
                return True
        return False


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    watch = ManualWatch()
    pulse = HeartbeatWatch(file=tmp_path / "p0", limits=HeartbeatLimits(max_silence=60, start_timeout=120), now=watch)
    pulse.restart()
    return Watched(pulse, watch)


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
    watched.pulse.restart()
    assert not watched.hung_within(115)
    assert watched.hung_within(8)


def test_suspended_watcher_restarts_its_count(watched: Watched) -> None:
    watched.beat()
    assert not watched.hung_within(55)
    watched.watch.at += 3600
    assert not watched.pulse.poll_hung()
    assert not watched.hung_within(55)
    assert watched.hung_within(10)


def test_missing_heartbeat_folder_does_not_count_as_hung(watched: Watched) -> None:
    watched.beat()
    assert not watched.hung_within(50)
    missing = watched.pulse.file.parent / "gone"
    watched.pulse.file = missing / "p0"
    assert not watched.hung_within(500)
    missing.mkdir()
    assert watched.hung_within(70)


def test_heartbeat_is_written_once_a_second_and_tolerates_no_folder(tmp_path: Path) -> None:
    watch, file = ManualWatch(), tmp_path / "run" / "p0"
    beat = HeartbeatSender(file=file, now=watch)
    beat()
    file.parent.mkdir()
    beat()
    assert not file.exists()
    watch.at += HEARTBEAT_INTERVAL_SECONDS
    beat()
    assert file.exists()


def test_process_with_a_stuck_loop_is_incomplete() -> None:
    watch = ManualWatch()
    progress = ThreadProgress(now=watch)
    quick = progress.tracked("router", lambda: 1, 0)
    seen: list[bool] = []

    def stuck() -> None:
        for _ in range(4):
            watch.at += STEP_TIMEOUT_SECONDS / 3
            quick()
            seen.append(progress.all_on_time())

    step = progress.tracked("dispatcher", stuck, 0)
    step()
    assert seen == [True, True, False, False]
    assert progress.all_on_time()


def test_process_with_a_loop_that_never_runs_is_incomplete() -> None:
    watch = ManualWatch()
    progress = ThreadProgress(now=watch)
    progress.tracked("router", lambda: 1, 0)
    assert progress.all_on_time()
    watch.at += STEP_TIMEOUT_SECONDS
    assert not progress.all_on_time()


def test_idle_loop_or_loop_in_an_outage_is_alive() -> None:
    watch = ManualWatch()
    progress = ThreadProgress(now=watch)

    def outage() -> None:
        raise StoreUnavailable

    waiting = progress.tracked("router", outage, 0)
    idle = progress.tracked("monitor", lambda: None, 300)
    idle()
    for _ in range(20):
        with pytest.raises(StoreUnavailable):
            waiting()
        watch.at += BACKOFF.longest.total_seconds() + 10
        assert progress.all_on_time()
