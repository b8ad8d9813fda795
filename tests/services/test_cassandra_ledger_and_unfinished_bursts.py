"""The ledger on Cassandra: lost answers, and crashes between list and plan."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from notifier.adapters.cassandra import (
    CassandraLedger,
    Cluster,
)
from notifier.adapters.cassandra.driver.session import PLAIN
from notifier.adapters.cassandra.stores.unfinished_bursts import (
    READ_AHEAD,
    RESCANNED_HOURS_PER_SCAN,
    SLOT_MS,
    UnfinishedBursts,
)
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from tests.support.cassandra_keyspace import ON_ENGINES, clock, cluster, shared_cluster
from tests.support.contract_examples import NOVA, ORION, plan, slice_of
from tests.support.fakes.clock_and_nonces import START, ManualClock
from tests.support.lossy_cassandra import LOST, LossyCluster

__all__ = ["clock", "cluster", "shared_cluster"]

pytestmark = ON_ENGINES

KEY = BurstKey(NOVA, 1)


def dispatched(*shards: int) -> list[LedgerEntry]:
    return [LedgerEntry(slice=slice_of(KEY, shard=shard), fact=Fact.DISPATCHED, number=1, at=START) for shard in shards]


@pytest.mark.parametrize("written", [True, False])
def test_cell_with_lost_answer_is_not_reported_as_foreign(cluster: Cluster, clock: ManualClock, written: bool) -> None:
    ledger = CassandraLedger(cluster, clock)
    ledger.store_plans([plan(KEY)])
    with pytest.raises(StoreUnavailable):
        CassandraLedger(LossyCluster(cluster, LOST[0], done=written), clock).record(dispatched(0, 1))
    assert ledger.record(dispatched(0, 1)) == [not written, not written]


def test_only_new_cells_are_written(cluster: Cluster, clock: ManualClock) -> None:
    ledger = CassandraLedger(cluster, clock)
    ledger.store_plans([plan(KEY, shards=250)])
    assert ledger.record(dispatched(7, 120)) == [True, True]
    results = ledger.record(dispatched(*range(250)))
    assert [shard for shard, won in enumerate(results) if not won] == [7, 120]
    assert ledger.record(dispatched(*range(250))) == [False] * 250
    same = dispatched(251)[0]
    assert ledger.record([same, same]) == [True, False]


def test_burst_listed_before_a_crash_is_planned_by_next_process(cluster: Cluster, clock: ManualClock) -> None:
    # The next process finds another opening time, because the head was re-stamped.
    with pytest.raises(StoreUnavailable):
        CassandraLedger(LossyCluster(cluster, LOST[0], done=False), clock).store_plans([plan(KEY)])
    ledger = CassandraLedger(cluster, clock)
    assert (ledger.unfinished_bursts(), ledger.read([KEY])) == ([KEY], {})
    restamped = plan(KEY, opened_at=START + timedelta(milliseconds=7))
    ledger.store_plans([restamped])
    assert ledger.read([KEY])[KEY].plan == restamped
    assert set(ledger.unfinished_bursts()) == {KEY}
    ledger.unlist([KEY])
    assert list(ledger.unfinished_bursts()) == []
    assert list(CassandraLedger(cluster, clock).unfinished_bursts()) == []


def test_planned_burst_is_listed(cluster: Cluster, clock: ManualClock) -> None:
    with pytest.raises(StoreUnavailable):
        CassandraLedger(LossyCluster(cluster, LOST[0], done=True), clock).store_plans([plan(KEY)])
    ledger = CassandraLedger(cluster, clock)
    assert ledger.read([KEY])[KEY].plan == plan(KEY)
    ledger.store_plans([plan(KEY)])
    assert list(ledger.unfinished_bursts()) == [KEY]


def test_bursts_of_other_process_are_found_at_any_opening_time(cluster: Cluster, clock: ManualClock) -> None:
    ledger, other_ledger = CassandraLedger(cluster, clock), CassandraLedger(cluster, clock)
    early, old = BurstKey(ORION, 1), START - timedelta(days=5)
    ledger.store_plans([plan(KEY)])
    assert list(ledger.unfinished_bursts()) == [KEY]
    clock.advance(timedelta(hours=2))
    newer = BurstKey(NOVA, 2)
    other_ledger.store_plans([plan(newer, opened_at=clock.now())])
    assert list(ledger.unfinished_bursts()) == [KEY, newer]
    other_ledger.store_plans([plan(early, opened_at=old)])
    assert any(early in ledger.unfinished_bursts() for _ in range(60))
    assert list(ledger.unfinished_bursts()) == [early, KEY, newer]
    ledger.unlist([early, newer])
    assert list(ledger.unfinished_bursts()) == [KEY]


class CountingCluster(Cluster):
    """Counts the hours and slots that were read."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.access)
        self.shared, self.hours, self.slots, self.refusing = cluster, 0, 0, ""

    def query_each(
        self, statement: str, parameters: Iterable[Sequence[object]], *, profile: object = PLAIN
    ) -> list[list[Any]]:
        queries = list(parameters)
        if self.refusing and self.refusing in statement:
            raise StoreUnavailable("for a test")
        self.hours += sum(
            len(partitions)
            for partitions, *_ in queries
            if "FROM open_slots" in statement and isinstance(partitions, list)
        )
        self.slots += sum(
            len(partitions)
            for partitions, *_ in queries
            if "FROM open_bursts" in statement and isinstance(partitions, list)
        )
        return self.shared.query_each(statement, queries, profile=profile)


def test_own_and_recent_bursts_are_found_by_next_read(cluster: Cluster, clock: ManualClock) -> None:
    ledger, other_ledger = CassandraLedger(cluster, clock), CassandraLedger(cluster, clock)
    assert list(ledger.unfinished_bursts()) == []
    other_ledger.store_plans([plan(KEY)])
    late, older = BurstKey(NOVA, 2), BurstKey(ORION, 1)
    other_ledger.store_plans([plan(late, opened_at=START - timedelta(seconds=30))])
    assert list(ledger.unfinished_bursts()) == [late, KEY]
    ledger.store_plans([plan(older, opened_at=START - timedelta(days=7))])
    assert list(ledger.unfinished_bursts()) == [older, late, KEY]


FIRST_READ_HOURS = 8 * 24 + 2
"""Number of hours that a first read may ask for."""
READS_PER_FULL_SCAN = FIRST_READ_HOURS // RESCANNED_HOURS_PER_SCAN + 1
"""Number of reads until each hour has been read again."""


def test_empty_list_is_read_by_hours_and_then_with_few_queries(cluster: Cluster, clock: ManualClock) -> None:
    counting = CountingCluster(cluster)
    ledger = CassandraLedger(counting, clock)
    ledger.unfinished_bursts()
    assert FIRST_READ_HOURS - 2 <= counting.hours <= FIRST_READ_HOURS
    before = counting.hours
    for _ in range(10):
        ledger.unfinished_bursts()
    assert counting.hours - before <= 10 * (RESCANNED_HOURS_PER_SCAN + 2)
    assert counting.slots == 0
    ledger.unfinished_bursts(START - timedelta(seconds=2))
    assert counting.slots <= 2


def test_past_slot_without_open_bursts_is_read_once_a_minute(cluster: Cluster, clock: ManualClock) -> None:
    CassandraLedger(cluster, clock).store_plans([plan(KEY, opened_at=START - timedelta(days=1))])
    CassandraLedger(cluster, clock).unlist([KEY])
    counting = CountingCluster(cluster)
    ledger = CassandraLedger(counting, clock)
    for _ in range(READS_PER_FULL_SCAN):
        assert list(ledger.unfinished_bursts()) == []
    assert counting.slots == 2


def test_late_burst_of_other_process_is_found_within_a_minute(cluster: Cluster, clock: ManualClock) -> None:
    ledger, other_ledger = CassandraLedger(cluster, clock), CassandraLedger(cluster, clock)
    day_old, second = START - timedelta(days=1), BurstKey(NOVA, 2)
    other_ledger.store_plans([plan(KEY, opened_at=day_old)])
    assert list(ledger.unfinished_bursts()) == [KEY]
    other_ledger.unlist([KEY])
    assert list(ledger.unfinished_bursts()) == []
    other_ledger.store_plans(
        [plan(second, opened_at=day_old), plan(BurstKey(ORION, 1), opened_at=day_old + timedelta(hours=2))]
    )
    reads = [list(ledger.unfinished_bursts()) for _ in range(READS_PER_FULL_SCAN)]
    assert reads[-1] == [second, BurstKey(ORION, 1)]


def test_burst_opened_by_a_fast_clock_is_found_among_latest(cluster: Cluster, clock: ManualClock) -> None:
    ledger = CassandraLedger(cluster, clock)
    for seconds in range(40):  # across the end of a slot
        key = BurstKey(NOVA, seconds + 1)
        ledger.store_plans([plan(key, opened_at=clock.now() + READ_AHEAD)])
        assert key in ledger.unfinished_bursts(clock.now() - timedelta(seconds=2))
        clock.advance(timedelta(seconds=1))


def test_burst_is_listed_only_after_its_slot(cluster: Cluster, clock: ManualClock) -> None:
    failing = CountingCluster(cluster)
    failing.refusing = "INTO open_slots"
    ledger, other_ledger = CassandraLedger(failing, clock), CassandraLedger(cluster, clock)
    with pytest.raises(StoreUnavailable):
        ledger.store_plans([plan(KEY)])
    assert (list(other_ledger.unfinished_bursts()), list(other_ledger.unfinished_bursts(START))) == ([], [])
    failing.refusing = ""
    ledger.store_plans([plan(KEY)])
    assert (list(other_ledger.unfinished_bursts()), list(other_ledger.unfinished_bursts(START))) == ([KEY], [KEY])


@pytest.mark.parametrize("failing_part", ["FROM open_slots", "FROM open_bursts"])
def test_failed_read_keeps_start_of_open_bursts(cluster: Cluster, clock: ManualClock, failing_part: str) -> None:
    CassandraLedger(cluster, clock).store_plans([plan(KEY)])
    counting = CountingCluster(cluster)
    opened = UnfinishedBursts(counting, clock)
    opened.all()
    known = dict(opened._cache.start_by_slot)
    counting.refusing = failing_part
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            opened.all()
    assert opened._cache.start_by_slot == known
    counting.refusing = ""
    assert list(opened.all()) == [KEY]


def test_slot_at_thousand_mentions_a_second_is_below_tombstone_limit() -> None:
    bursts_a_second = 2 * 1_000  # one for the followers and one for the celebrity
    assert bursts_a_second * SLOT_MS / 1_000 < 100_000


class CountingRows(Cluster):
    """Counts the rows from which ledger facts were read."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.access)
        self.shared, self.rows = cluster, 0

    def query_each(
        self, statement: str, parameters: Iterable[Sequence[object]], *, profile: object = PLAIN
    ) -> list[list[Any]]:
        results = self.shared.query_each(statement, parameters, profile=profile)
        self.rows += sum(map(len, results)) if "FROM slices" in statement else 0
        return results


def repeated(n: int, fact: Fact = Fact.DEFERRED) -> LedgerEntry:
    return LedgerEntry(
        slice=slice_of(KEY, Tier.P0, step=Step.APNS), fact=fact, number=n, at=START + timedelta(minutes=n)
    )


def test_slice_that_waited_300_times_is_read_from_two_rows(cluster: Cluster, clock: ManualClock) -> None:
    ledger, counting = CassandraLedger(cluster, clock), CountingRows(cluster)
    ledger.store_plans([plan(KEY)])
    for n in range(1, 301):
        assert ledger.record([repeated(n, Fact.DISPATCHED), repeated(n)]) == [True, True]
    progress = CassandraLedger(counting, clock).read([KEY])[KEY].slice_states[repeated(1).slice]
    assert (progress.times_dispatched, progress.times_deferred, progress.deferred_until) == (300, 300, repeated(300).at)
    assert counting.rows == 2


def test_one_of_two_writers_of_same_repetition_loses(cluster: Cluster, clock: ManualClock) -> None:
    ledger = CassandraLedger(cluster, clock)
    ledger.store_plans([plan(KEY)])
    assert ledger.record([repeated(0)]) == [True]
    assert [ledger.record([repeated(n)]) for n in (1, 1, 2, 2, 1, 5, 4)] == [
        [True],
        [False],
        [True],
        [False],
        [False],
        [True],
        [False],
    ]
    for n in range(6, 12):
        with ThreadPoolExecutor(2) as threads:
            assert sum(threads.map(lambda n: ledger.record([repeated(n)])[0], [n] * 2)) == 1
    first = replace(repeated(1), slice=slice_of(KEY))
    assert ledger.record([repeated(11), first, repeated(12)]) == [False, True, True]
    assert ledger.record([repeated(13), replace(first, number=2)]) == [True, True]
    assert ledger.read([KEY])[KEY].slice_states[repeated(1).slice].times_deferred == 13
