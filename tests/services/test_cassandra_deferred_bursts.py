"""Deferred bursts on Cassandra: two lists without transactions, reads without tombstones."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from notifier.adapters.cassandra import CassandraDeferredBursts, CassandraLedger, Cluster
from notifier.adapters.cassandra.driver.session import PLAIN
from notifier.adapters.cassandra.stores.deferred_bursts import FULL_SCAN_INTERVAL_MS, WAKE_BUCKETS
from notifier.domain.delivery.dispatch_backlog import DeferredBurst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from tests.support.cassandra_keyspace import ON_ENGINES, clock, cluster, shared_cluster
from tests.support.contract_examples import NOVA, plan
from tests.support.fakes.clock_and_nonces import START, ManualClock

__all__ = ["clock", "cluster", "shared_cluster"]

pytestmark = ON_ENGINES

KEY = BurstKey(NOVA, 1)
HOUR, MANY = timedelta(hours=1), 100
SLOTS_PER_HOUR = 4
DEFERRED = DeferredBurst(burst=KEY, opened_at=START, until=START + HOUR)


class CrashingCluster(Cluster):
    """Fails before its next statement of this kind, and counts the partitions that are read."""

    def __init__(self, cluster: Cluster, crash_at: str = "") -> None:
        super().__init__(cluster.access)
        self.shared, self.crash_at, self.partitions_read = cluster, crash_at, list[int]()

    def query_each(
        self, statement: str, parameters: Iterable[Sequence[object]], *, profile: object = PLAIN
    ) -> list[list[Any]]:
        queries = list(parameters)
        if self.crash_at and self.crash_at in statement:
            raise StoreUnavailable("for a test")
        if "SELECT" in statement and "FROM deferred_bursts" in statement:
            self.partitions_read.append(
                sum(len(slots) * len(WAKE_BUCKETS) for slots, *_ in queries if isinstance(slots, list))
            )
        return self.shared.query_each(statement, queries, profile=profile)


def stores(cluster: Cluster, clock: ManualClock) -> tuple[CassandraLedger, CassandraDeferredBursts]:
    ledger = CassandraLedger(cluster, clock)
    return ledger, CassandraDeferredBursts(cluster, clock, ledger.unfinished_burst_list)


@pytest.mark.parametrize("statement", ["INTO deferred_bursts", "DELETE FROM open_bursts"])
def test_crash_while_deferring_leaves_burst_open(cluster: Cluster, clock: ManualClock, statement: str) -> None:
    ledger, deferred_bursts = stores(cluster, clock)
    ledger.store_plans([plan(KEY)])
    with pytest.raises(StoreUnavailable):
        stores(CrashingCluster(cluster, statement), clock)[1].defer([DEFERRED], START)
    assert list(ledger.unfinished_bursts()) == [KEY]
    deferred_bursts.defer([DEFERRED], START)
    assert list(ledger.unfinished_bursts()) == []


@pytest.mark.parametrize("statement", ["INTO open_slots", "INTO open_bursts", "DELETE FROM deferred_bursts"])
def test_crash_while_resuming_keeps_burst_deferred(cluster: Cluster, clock: ManualClock, statement: str) -> None:
    ledger, deferred_bursts = stores(cluster, clock)
    ledger.store_plans([plan(KEY)])
    deferred_bursts.defer([DEFERRED], START)
    clock.advance(HOUR)
    with pytest.raises(StoreUnavailable):
        stores(CrashingCluster(cluster, statement), clock)[1].wake_due(clock.now(), MANY)
    assert deferred_bursts.count() == 1
    assert list(deferred_bursts.wake_due(clock.now(), MANY)) == [KEY]
    assert (list(ledger.unfinished_bursts()), deferred_bursts.count()) == ([KEY], 0)


def test_stall_while_deferring_keeps_burst_in_one_list(cluster: Cluster, clock: ManualClock) -> None:
    ledger, deferred_bursts = stores(cluster, clock)
    ledger.store_plans([plan(KEY)])
    stalled = CrashingCluster(cluster, "DELETE FROM open_bursts")
    stalled_store = stores(stalled, clock)[1]
    with pytest.raises(StoreUnavailable):
        stalled_store.defer([DEFERRED], START)
    deferred_bursts.wake_due(START + HOUR, MANY)
    stalled.crash_at = ""
    stalled_store.defer([DEFERRED], START)
    assert list(ledger.unfinished_bursts()) == [KEY]


def test_leader_with_slow_clock_loses_no_burst(cluster: Cluster, clock: ManualClock) -> None:
    ledger, deferred_bursts = stores(cluster, clock)
    ledger.store_plans([plan(KEY)])
    deferred_bursts.defer([DEFERRED], START)
    deferred_bursts.wake_due(START + HOUR, MANY)
    deferred_bursts.defer([DEFERRED], START + HOUR / 2)
    deferred_bursts.wake_due(START + HOUR, MANY)
    assert list(ledger.unfinished_bursts()) == [KEY]


def test_wake_reads_a_week_once_and_a_day_every_hour(cluster: Cluster, clock: ManualClock) -> None:
    counting = CrashingCluster(cluster)
    deferred_bursts = stores(counting, clock)[1]
    for _ in range(3):
        deferred_bursts.wake_due(clock.now(), MANY)
        clock.advance(timedelta(minutes=1))
    clock.advance(timedelta(milliseconds=FULL_SCAN_INTERVAL_MS))
    deferred_bursts.wake_due(clock.now(), MANY)
    week, second_read, third_read, day = counting.partitions_read
    assert week <= (8 * 24 * SLOTS_PER_HOUR + 2) * len(WAKE_BUCKETS)
    assert max(second_read, third_read) <= 2 * len(WAKE_BUCKETS)
    assert 26 * SLOTS_PER_HOUR * len(WAKE_BUCKETS) <= day <= (26 * SLOTS_PER_HOUR + 2) * len(WAKE_BUCKETS)
