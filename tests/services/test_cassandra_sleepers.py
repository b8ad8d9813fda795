"""What the sleepers owe to Cassandra alone: two lists without a transaction, and looks that pass no tombstones."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from notifier.adapters.cassandra import CassandraLedger, CassandraSleepers, Cluster
from notifier.adapters.cassandra.driver.session import PLAIN
from notifier.adapters.cassandra.stores.deferred_bursts import ANEW, PARTS
from notifier.domain.delivery.backlog import Sleeper
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from tests.support.contract_examples import NOVA, plan
from tests.support.fakes.clock import START, ManualClock
from tests.support.lossy_cassandra import ON_ENGINES, clock, cluster, made

__all__ = ["clock", "cluster", "made"]

pytestmark = ON_ENGINES

KEY = BurstKey(NOVA, 1)
HOUR, MANY = timedelta(hours=1), 100
SLEEPER = Sleeper(burst=KEY, opened_at=START, until=START + HOUR)


class Dying(Cluster):
    """Dies before its next statement of this kind; counts the partitions that it is asked for."""

    def __init__(self, cluster: Cluster, at: str = "") -> None:
        super().__init__(cluster.access)
        self.shared, self.at, self.looks = cluster, at, list[int]()

    def ask_each(self, statement: str, each: Iterable[Sequence[object]], *, profile: object = PLAIN) -> list[list[Any]]:
        asked = list(each)
        if self.at and self.at in statement:
            raise StoreUnavailable("for a test")
        if "SELECT" in statement and "FROM sleepers" in statement:
            self.looks.append(sum(len(slots) * len(PARTS) for slots, *_ in asked if isinstance(slots, list)))
        return self.shared.ask_each(statement, asked, profile=profile)


def stores(cluster: Cluster, clock: ManualClock) -> tuple[CassandraLedger, CassandraSleepers]:
    ledger = CassandraLedger(cluster, clock)
    return ledger, CassandraSleepers(cluster, clock, ledger.openings)


@pytest.mark.parametrize("at", ["INTO sleepers", "DELETE FROM open_bursts"])
def test_who_dies_while_laying_down_leaves_the_burst_open(cluster: Cluster, clock: ManualClock, at: str) -> None:
    ledger, sleepers = stores(cluster, clock)
    ledger.plan([plan(KEY)])
    with pytest.raises(StoreUnavailable):
        stores(Dying(cluster, at), clock)[1].lay([SLEEPER], START)
    assert list(ledger.open()) == [KEY]
    sleepers.lay([SLEEPER], START)
    assert list(ledger.open()) == []


@pytest.mark.parametrize("at", ["INTO open_slots", "INTO open_bursts", "DELETE FROM sleepers"])
def test_who_dies_while_waking_leaves_it_among_the_sleepers(cluster: Cluster, clock: ManualClock, at: str) -> None:
    ledger, sleepers = stores(cluster, clock)
    ledger.plan([plan(KEY)])
    sleepers.lay([SLEEPER], START)
    clock.advance(HOUR)
    with pytest.raises(StoreUnavailable):
        stores(Dying(cluster, at), clock)[1].wake(clock.now(), MANY)
    assert sleepers.count() == 1
    assert list(sleepers.wake(clock.now(), MANY)) == [KEY]
    assert (list(ledger.open()), sleepers.count()) == ([KEY], 0)


def test_whoever_stands_still_in_the_middle_of_laying_down_takes_nothing_out_of_both_lists(
    cluster: Cluster, clock: ManualClock
) -> None:
    ledger, sleepers = stores(cluster, clock)
    ledger.plan([plan(KEY)])
    still = Dying(cluster, "DELETE FROM open_bursts")
    late = stores(still, clock)[1]
    with pytest.raises(StoreUnavailable):
        late.lay([SLEEPER], START)
    sleepers.wake(START + HOUR, MANY)
    still.at = ""
    late.lay([SLEEPER], START)
    assert list(ledger.open()) == [KEY]


def test_a_leader_whose_clock_is_behind_loses_nobody(cluster: Cluster, clock: ManualClock) -> None:
    ledger, sleepers = stores(cluster, clock)
    ledger.plan([plan(KEY)])
    sleepers.lay([SLEEPER], START)
    sleepers.wake(START + HOUR, MANY)
    sleepers.lay([SLEEPER], START + HOUR / 2)
    sleepers.wake(START + HOUR, MANY)
    assert list(ledger.open()) == [KEY]


def test_a_look_asks_for_a_week_once_then_for_what_is_new_and_every_hour_for_a_day(
    cluster: Cluster, clock: ManualClock
) -> None:
    counting = Dying(cluster)
    sleepers = stores(counting, clock)[1]
    for _ in range(3):
        sleepers.wake(clock.now(), MANY)
        clock.advance(timedelta(minutes=1))
    clock.advance(timedelta(milliseconds=ANEW))
    sleepers.wake(clock.now(), MANY)
    week, few, fewer, day = counting.looks
    assert week <= 8 * 96 * len(PARTS) + 2 * len(PARTS)
    assert max(few, fewer) <= 2 * len(PARTS)
    assert 26 * 4 * len(PARTS) <= day <= 26 * 4 * len(PARTS) + 2 * len(PARTS)
