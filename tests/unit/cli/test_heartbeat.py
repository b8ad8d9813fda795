"""Who gives no sign of life hangs, unless nobody could listen; a process is alive only while all of its loops are."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from notifier.cli.supervisor.heartbeat import (
    BEATS_EVERY,
    CLOCK_GAP,
    STEP_WITHIN,
    HeartbeatLimits,
    HeartbeatSender,
    HeartbeatWatch,
    ThreadProgress,
)
from notifier.consumer_loop import BACKOFF
from notifier.domain.errors import StoreUnavailable

LOOK = CLOCK_GAP / 2


@dataclass
class Watch:
    """A clock turned by hand."""

    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Watched:
    pulse: HeartbeatWatch
    watch: Watch

    def beat(self) -> None:
        """Some time or other: the file's times are of no interest, only that they change."""
        self.pulse.file.touch()
        os.utime(self.pulse.file, ns=(0, self.pulse.touched_at + 1))

    def hung_within(self, seconds: float) -> bool:
        """Whether it hangs at one of the looks from now on."""
        end = self.watch.at + seconds
        while self.watch.at < end:
            self.watch.at += LOOK
            if self.pulse.is_hung():
                return True
        return False


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    watch = Watch()
    pulse = HeartbeatWatch(file=tmp_path / "p0", limits=HeartbeatLimits(silent_for=60, starts_within=120), now=watch)
    pulse.restart()
    return Watched(pulse, watch)


def test_a_role_that_beats_never_hangs(watched: Watched) -> None:
    for _ in range(10):
        watched.beat()
        assert not watched.hung_within(50)


def test_a_role_that_stops_beating_hangs_after_its_limit_and_not_before(watched: Watched) -> None:
    watched.beat()
    assert not watched.hung_within(60)
    assert watched.hung_within(LOOK)


def test_a_role_that_starts_has_longer_whatever_its_predecessor_left(watched: Watched) -> None:
    watched.beat()
    assert watched.hung_within(70)
    watched.pulse.restart()
    assert not watched.hung_within(115)
    assert watched.hung_within(8)


def test_a_watcher_that_was_away_begins_counting_anew(watched: Watched) -> None:
    watched.beat()
    assert not watched.hung_within(55)
    watched.watch.at += 3600
    assert not watched.pulse.is_hung()
    assert not watched.hung_within(55)
    assert watched.hung_within(10)


def test_a_disk_that_takes_no_beat_proves_nothing(watched: Watched) -> None:
    watched.beat()
    assert not watched.hung_within(50)
    away = watched.pulse.file.parent / "gone"
    watched.pulse.file = away / "p0"
    assert not watched.hung_within(500)
    away.mkdir()
    assert watched.hung_within(70)


def test_a_beat_touches_its_file_at_most_once_a_second_and_bears_a_missing_folder(tmp_path: Path) -> None:
    watch, file = Watch(), tmp_path / "run" / "p0"
    beat = HeartbeatSender(file=file, now=watch)
    beat()
    file.parent.mkdir()
    beat()
    assert not file.exists()
    watch.at += BEATS_EVERY
    beat()
    assert file.exists()


def test_one_loop_that_is_stuck_in_its_step_makes_the_process_absent() -> None:
    watch = Watch()
    attendance = ThreadProgress(now=watch)
    quick = attendance.reporting("router", lambda: 1, 0)
    seen: list[bool] = []

    def stuck() -> None:
        for _ in range(4):
            watch.at += STEP_WITHIN / 3
            quick()
            seen.append(attendance.is_complete())

    step = attendance.reporting("dispatcher", stuck, 0)
    step()
    assert seen == [True, True, False, False]
    assert attendance.is_complete()


def test_a_loop_that_never_began_or_ended_makes_the_process_absent() -> None:
    watch = Watch()
    attendance = ThreadProgress(now=watch)
    attendance.reporting("router", lambda: 1, 0)
    assert attendance.is_complete()
    watch.at += STEP_WITHIN
    assert not attendance.is_complete()


def test_a_loop_that_idles_or_waits_out_an_outage_is_there() -> None:
    watch = Watch()
    attendance = ThreadProgress(now=watch)

    def outage() -> None:
        raise StoreUnavailable

    waiting = attendance.reporting("router", outage, 0)
    idle = attendance.reporting("monitor", lambda: None, 300)
    idle()
    for _ in range(20):
        with pytest.raises(StoreUnavailable):
            waiting()
        watch.at += BACKOFF.longest.total_seconds() + 10
        assert attendance.is_complete()
