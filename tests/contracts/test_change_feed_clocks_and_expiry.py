"""Change feed of bursts: clock differences, slow writes, and expired or invalid positions."""

from asyncio import run
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain, repeat

import pytest

from notifier.adapters.cassandra.driver.async_queries import AsyncQueries
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.stores.burst_change_feed import (
    MAX_POSITION_AGE,
    MAX_WRITE_DURATION,
    CassandraBurstChanges,
)
from notifier.adapters.cassandra.stores.bursts_and_sequence_heads import CassandraBursts
from notifier.adapters.clock_and_nonces import UuidNonces
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.burst_change_feed import MIN_KEPT_CHANGES, SqliteBurstChanges, SqlitePosition
from notifier.adapters.sqlite.stores.bursts_and_sequence_heads import SqliteBursts
from notifier.domain.errors import StoreUnavailable
from notifier.domain.users.visibility import MAX_CLOCK_SKEW
from tests.contracts.change_feed_reader import FeedReader
from tests.support.contract_examples import NOVA, ORION, burst
from tests.support.fakes.clock_and_nonces import START, ManualClock

MOMENT = timedelta(milliseconds=1)
LATE = MAX_WRITE_DURATION + MOMENT


pytestmark = pytest.mark.timeout(180)


class SteppingClock:
    """A clock that advances by the next given interval at each reading; the last interval repeats forever."""

    def __init__(self, *intervals: timedelta, start: datetime = START) -> None:
        self._now = start
        self._intervals: Iterator[timedelta] = chain(intervals, repeat(intervals[-1]))

    def now(self) -> datetime:
        now, self._now = self._now, self._now + next(self._intervals)
        return now


def feed_of(cluster: Cluster, clock: ManualClock) -> CassandraBurstChanges:
    return CassandraBurstChanges(AsyncQueries(cluster), clock, UuidNonces())


@pytest.mark.parametrize("offset", [MAX_CLOCK_SKEW, -MAX_CLOCK_SKEW])
def test_reader_reads_writes_by_another_clock(cluster: Cluster, offset: timedelta) -> None:
    own_clock, other_clock = ManualClock(), ManualClock(START + offset)
    reader, bursts = FeedReader(feed_of(cluster, own_clock)), CassandraBursts(cluster, other_clock)
    for version in range(1, 30):
        burst_ = burst(version=version)
        bursts.write([burst_], [])
        assert reader.read() == [burst_]
        assert reader.read() == []
        for clock in (own_clock, other_clock):
            clock.advance(timedelta(seconds=1.1))


@pytest.mark.parametrize("delay", [0, 9, 11, 120])
def test_follower_reads_all_buckets_after_a_pause(cluster: Cluster, delay: int) -> None:
    clock = ManualClock()
    reader, bursts = FeedReader(feed_of(cluster, clock)), CassandraBursts(cluster, clock)
    bursts_written = [burst(NOVA, seq) for seq in range(1, delay + 2)]
    for burst_ in bursts_written:
        bursts.write([burst_], [])
        clock.advance(timedelta(seconds=1))
    assert reader.read() == bursts_written


def test_slow_row_is_written_again(cluster: Cluster) -> None:
    """The reader has read past the first row's time when the write returns, and finds the second row."""
    clock = ManualClock()
    reader = FeedReader(feed_of(cluster, clock))
    # The write begins this long before the reader does, by a clock that is also late.
    slow = SteppingClock(timedelta(0), LATE, timedelta(0), start=START - LATE - MAX_CLOCK_SKEW)
    CassandraBursts(cluster, slow).write([burst()], [])
    clock.advance(MOMENT)
    assert reader.read() == [burst()]


def test_write_fails_when_each_row_is_slow(cluster: Cluster) -> None:
    with pytest.raises(StoreUnavailable, match="change feed"):
        CassandraBursts(cluster, SteppingClock(LATE)).write([burst()], [])
    with pytest.raises(StoreUnavailable, match="change feed"):
        run(CassandraBurstChanges(AsyncQueries(cluster), SteppingClock(LATE), UuidNonces()).record_viewer_lapse())


def test_position_expires_before_its_rows(cluster: Cluster) -> None:
    clock = ManualClock()
    changes = feed_of(cluster, clock)
    position = run(changes.begin())
    clock.advance(MAX_POSITION_AGE)
    assert run(changes.after(position)) is not None
    clock.advance(MOMENT)
    assert run(changes.after(position)) is None


def test_position_is_rejected_after_clock_was_set_back(cluster: Cluster) -> None:
    clock = ManualClock()
    changes = feed_of(cluster, clock)
    position = run(changes.begin())
    clock.advance(-MAX_CLOCK_SKEW)
    assert run(changes.after(position)) is not None
    clock.advance(-MOMENT)
    assert run(changes.after(position)) is None


def test_sqlite_keeps_only_newest_changes(files: Files) -> None:
    changes, bursts = SqliteBurstChanges(files.core), SqliteBursts(files.core)
    first = run(changes.begin())
    bursts.write([burst()], [])
    second = run(changes.begin())
    batch = [burst(ORION, seq) for seq in range(1, 1_001)]
    for _ in range(MIN_KEPT_CHANGES // len(batch)):
        bursts.write(batch, [])
    assert run(changes.after(first)) is not None
    bursts.write(batch, [])
    assert run(changes.after(first)) is None
    assert run(changes.after(second)) is None
    with files.core.read() as c:
        assert (
            MIN_KEPT_CHANGES
            <= c.execute("SELECT count(*) FROM burst_changes").fetchone()[0]
            < MIN_KEPT_CHANGES + len(batch)
        )


def test_sqlite_rejects_position_beyond_the_end(files: Files) -> None:
    """The file was replaced by an older copy of itself."""
    SqliteBursts(files.core).write([burst()], [])
    assert run(SqliteBurstChanges(files.core).after(SqlitePosition(2))) is None
