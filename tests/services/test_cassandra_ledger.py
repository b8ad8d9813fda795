"""What the ledger owes to Cassandra alone: lost answers, and crashes between a list and a plan."""

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
from notifier.adapters.cassandra.stores.open_bursts import AHEAD, ANEW, SLOT, OpenBursts
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.slice import Step
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from tests.support.contract_examples import NOVA, ORION, piece, plan
from tests.support.fakes.clock import START, ManualClock
from tests.support.lossy_cassandra import LOST, ON_ENGINES, Losing, clock, cluster, made

__all__ = ["clock", "cluster", "made"]

pytestmark = ON_ENGINES

KEY = BurstKey(NOVA, 1)


def cells(*shards: int) -> list[LedgerEntry]:
    return [LedgerEntry(slice=piece(KEY, shard=shard), fact=Fact.DISPATCHED, n=1, at=START) for shard in shards]


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_never_says_that_a_cell_was_anothers(cluster: Cluster, clock: ManualClock, done: bool) -> None:
    ledger = CassandraLedger(cluster, clock)
    ledger.plan([plan(KEY)])
    with pytest.raises(StoreUnavailable):
        CassandraLedger(Losing(cluster, LOST[0], done=done), clock).record(cells(0, 1))
    assert ledger.record(cells(0, 1)) == [not done, not done]


def test_of_an_accounts_cells_those_that_are_new_are_written(cluster: Cluster, clock: ManualClock) -> None:
    ledger = CassandraLedger(cluster, clock)
    ledger.plan([plan(KEY, shards=250)])
    assert ledger.record(cells(7, 120)) == [True, True]
    told = ledger.record(cells(*range(250)))
    assert [n for n, won in enumerate(told) if not won] == [7, 120]
    assert ledger.record(cells(*range(250))) == [False] * 250
    same = cells(251)[0]
    assert ledger.record([same, same]) == [True, False]


def test_a_burst_that_was_listed_by_one_who_died_before_the_plan_is_planned_by_the_next(
    cluster: Cluster, clock: ManualClock
) -> None:
    # The next finds another opening, because the head was re-stamped.
    with pytest.raises(StoreUnavailable):
        CassandraLedger(Losing(cluster, LOST[0], done=False), clock).plan([plan(KEY)])
    ledger = CassandraLedger(cluster, clock)
    assert (ledger.open(), ledger.read([KEY])) == ([KEY], {})
    restamped = plan(KEY, opened_at=START + timedelta(milliseconds=7))
    ledger.plan([restamped])
    assert ledger.read([KEY])[KEY].plan == restamped
    assert set(ledger.open()) == {KEY}
    ledger.close([KEY])
    assert list(ledger.open()) == []
    assert list(CassandraLedger(cluster, clock).open()) == []


def test_a_burst_is_listed_when_it_has_a_plan(cluster: Cluster, clock: ManualClock) -> None:
    with pytest.raises(StoreUnavailable):
        CassandraLedger(Losing(cluster, LOST[0], done=True), clock).plan([plan(KEY)])
    ledger = CassandraLedger(cluster, clock)
    assert ledger.read([KEY])[KEY].plan == plan(KEY)
    ledger.plan([plan(KEY)])
    assert list(ledger.open()) == [KEY]


def test_what_another_process_lists_is_found_wherever_it_opened(cluster: Cluster, clock: ManualClock) -> None:
    ledger, other = CassandraLedger(cluster, clock), CassandraLedger(cluster, clock)
    early, old = BurstKey(ORION, 1), START - timedelta(days=5)
    ledger.plan([plan(KEY)])
    assert list(ledger.open()) == [KEY]
    clock.advance(timedelta(hours=2))
    newer = BurstKey(NOVA, 2)
    other.plan([plan(newer, opened_at=clock.now())])
    assert list(ledger.open()) == [KEY, newer]
    other.plan([plan(early, opened_at=old)])
    assert any(early in ledger.open() for _ in range(60))
    assert list(ledger.open()) == [early, KEY, newer]
    ledger.close([early, newer])
    assert list(ledger.open()) == [KEY]


class Counting(Cluster):
    """How many hours and slots were looked at."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.access)
        self.shared, self.hours, self.slots, self.refusing = cluster, 0, 0, ""

    def ask_each(self, statement: str, each: Iterable[Sequence[object]], *, profile: object = PLAIN) -> list[list[Any]]:
        asked = list(each)
        if self.refusing and self.refusing in statement:
            raise StoreUnavailable("for a test")
        self.hours += sum(len(some) for some, *_ in asked if "FROM open_slots" in statement and isinstance(some, list))
        self.slots += sum(len(some) for some, *_ in asked if "FROM open_bursts" in statement and isinstance(some, list))
        return self.shared.ask_each(statement, asked, profile=profile)


def test_what_is_listed_in_time_or_by_oneself_is_found_by_the_next_look(cluster: Cluster, clock: ManualClock) -> None:
    ledger, other = CassandraLedger(cluster, clock), CassandraLedger(cluster, clock)
    assert list(ledger.open()) == []
    other.plan([plan(KEY)])
    late, older = BurstKey(NOVA, 2), BurstKey(ORION, 1)
    other.plan([plan(late, opened_at=START - timedelta(seconds=30))])
    assert list(ledger.open()) == [late, KEY]
    ledger.plan([plan(older, opened_at=START - timedelta(days=7))])
    assert list(ledger.open()) == [older, late, KEY]


WHOLE = 8 * 24 + 2
"""Hours that a first look may ask for."""
ROUND = WHOLE // ANEW + 1
"""Looks until each hour was read anew."""


def test_where_nothing_was_ever_listed_a_look_asks_for_hours_alone_and_then_for_few(
    cluster: Cluster, clock: ManualClock
) -> None:
    counting = Counting(cluster)
    ledger = CassandraLedger(counting, clock)
    ledger.open()
    assert WHOLE - 2 <= counting.hours <= WHOLE
    before = counting.hours
    for _ in range(10):
        ledger.open()
    assert counting.hours - before <= 10 * (ANEW + 2)
    assert counting.slots == 0
    ledger.open(START - timedelta(seconds=2))
    assert counting.slots <= 2


def test_a_past_slot_without_open_bursts_is_looked_at_once_a_minute(cluster: Cluster, clock: ManualClock) -> None:
    CassandraLedger(cluster, clock).plan([plan(KEY, opened_at=START - timedelta(days=1))])
    CassandraLedger(cluster, clock).close([KEY])
    counting = Counting(cluster)
    ledger = CassandraLedger(counting, clock)
    for _ in range(ROUND):
        assert list(ledger.open()) == []
    assert counting.slots == 2


def test_what_another_lists_late_is_found_within_the_minute(cluster: Cluster, clock: ManualClock) -> None:
    ledger, other = CassandraLedger(cluster, clock), CassandraLedger(cluster, clock)
    day_old, second = START - timedelta(days=1), BurstKey(NOVA, 2)
    other.plan([plan(KEY, opened_at=day_old)])
    assert list(ledger.open()) == [KEY]
    other.close([KEY])
    assert list(ledger.open()) == []
    other.plan([plan(second, opened_at=day_old), plan(BurstKey(ORION, 1), opened_at=day_old + timedelta(hours=2))])
    found = [list(ledger.open()) for _ in range(ROUND)]
    assert found[-1] == [second, BurstKey(ORION, 1)]


def test_what_has_opened_by_a_clock_that_is_ahead_is_found_by_a_look_at_the_latest(
    cluster: Cluster, clock: ManualClock
) -> None:
    ledger = CassandraLedger(cluster, clock)
    for seconds in range(40):  # over the turn of a slot
        key = BurstKey(NOVA, seconds + 1)
        ledger.plan([plan(key, opened_at=clock.now() + AHEAD)])
        assert key in ledger.open(clock.now() - timedelta(seconds=2))
        clock.advance(timedelta(seconds=1))


def test_a_burst_whose_slot_could_not_be_noted_is_not_listed_either_and_is_once_it_can(
    cluster: Cluster, clock: ManualClock
) -> None:
    failing = Counting(cluster)
    failing.refusing = "INTO open_slots"
    ledger, other = CassandraLedger(failing, clock), CassandraLedger(cluster, clock)
    with pytest.raises(StoreUnavailable):
        ledger.plan([plan(KEY)])
    assert (list(other.open()), list(other.open(START))) == ([], [])
    failing.refusing = ""
    ledger.plan([plan(KEY)])
    assert (list(other.open()), list(other.open(START))) == ([KEY], [KEY])


@pytest.mark.parametrize("part", ["FROM open_slots", "FROM open_bursts"])
def test_a_look_that_fails_forgets_nothing_of_where_open_bursts_begin(
    cluster: Cluster, clock: ManualClock, part: str
) -> None:
    CassandraLedger(cluster, clock).plan([plan(KEY)])
    counting = Counting(cluster)
    opened = OpenBursts(counting, clock)
    opened.all()
    known = dict(opened._remembered.first)
    counting.refusing = part
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            opened.all()
    assert opened._remembered.first == known
    counting.refusing = ""
    assert list(opened.all()) == [KEY]


def test_a_slot_of_a_thousand_mentions_a_second_has_fewer_tombstones_than_a_read_may_pass() -> None:
    bursts_a_second = 2 * 1_000  # one of the followers' and one of the celebrity's own
    assert bursts_a_second * SLOT / 1_000 < 100_000


class Cells(Cluster):
    """How many rows an account's facts were read from."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.access)
        self.shared, self.rows = cluster, 0

    def ask_each(self, statement: str, each: Iterable[Sequence[object]], *, profile: object = PLAIN) -> list[list[Any]]:
        found = self.shared.ask_each(statement, each, profile=profile)
        self.rows += sum(map(len, found)) if "FROM slices" in statement else 0
        return found


def again(n: int, fact: Fact = Fact.WAITS) -> LedgerEntry:
    return LedgerEntry(slice=piece(KEY, Tier.P0, step=Step.APNS), fact=fact, n=n, at=START + timedelta(minutes=n))


def test_a_slice_that_waited_three_hundred_times_is_read_with_two_rows(cluster: Cluster, clock: ManualClock) -> None:
    ledger, counting = CassandraLedger(cluster, clock), Cells(cluster)
    ledger.plan([plan(KEY)])
    for n in range(1, 301):
        assert ledger.record([again(n, Fact.DISPATCHED), again(n)]) == [True, True]
    standing = CassandraLedger(counting, clock).read([KEY])[KEY].standings[again(1).slice]
    assert (standing.dispatched, standing.waited, standing.waits_until) == (300, 300, again(300).at)
    assert counting.rows == 2


def test_of_two_who_write_what_happened_once_more_one_is_told_that_he_lost(
    cluster: Cluster, clock: ManualClock
) -> None:
    ledger = CassandraLedger(cluster, clock)
    ledger.plan([plan(KEY)])
    assert ledger.record([again(0)]) == [True]
    assert [ledger.record([again(n)]) for n in (1, 1, 2, 2, 1, 5, 4)] == [
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
            assert sum(threads.map(lambda n: ledger.record([again(n)])[0], [n] * 2)) == 1
    first = replace(again(1), slice=piece(KEY))
    assert ledger.record([again(11), first, again(12)]) == [False, True, True]
    assert ledger.record([again(13), replace(first, n=2)]) == [True, True]
    assert ledger.read([KEY])[KEY].standings[again(1).slice].waited == 13
