"""Deferred bursts: an unfinished burst is always in at least one of two lists."""

from datetime import datetime, timedelta

from notifier.domain.delivery.dispatch_backlog import DeferredBurst
from notifier.domain.ids import BurstKey
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, plan
from tests.support.fakes.clock_and_nonces import START

KEY, OTHER = BurstKey(NOVA, 1), BurstKey(ORION, 1)
HOUR = timedelta(hours=1)
MANY = 100


def deferred(burst: BurstKey = KEY, until: datetime = START + HOUR, opened_at: datetime = START) -> DeferredBurst:
    return DeferredBurst(burst=burst, opened_at=opened_at, until=until)


def test_deferred_burst_is_unfinished_again_when_its_time_comes(store: Store) -> None:
    store.ledger.store_plans([plan(KEY), plan(OTHER)])
    store.deferred_bursts.defer([deferred()], START)
    with reopened(store) as other_process:
        assert (
            list(other_process.ledger.unfinished_bursts()),
            list(other_process.ledger.unfinished_bursts(START)),
            other_process.deferred_bursts.count(),
        ) == (
            [OTHER],
            [OTHER],
            1,
        )
        assert list(other_process.deferred_bursts.wake_due(START + HOUR - timedelta(milliseconds=1), MANY)) == []
        assert list(other_process.deferred_bursts.wake_due(START + HOUR, MANY)) == [KEY]
        assert (
            list(other_process.ledger.unfinished_bursts()),
            list(other_process.ledger.unfinished_bursts(START)),
            other_process.deferred_bursts.count(),
        ) == (
            [KEY, OTHER],
            [KEY, OTHER],
            0,
        )
        assert list(other_process.deferred_bursts.wake_due(START + HOUR, MANY)) == []


def test_burst_can_be_deferred_repeatedly_until_closed(store: Store) -> None:
    store.ledger.store_plans([plan(KEY)])
    for n in range(3):
        now = START + n * HOUR
        store.deferred_bursts.defer([deferred(until=now + HOUR)], now)
        assert list(store.ledger.unfinished_bursts()) == []
        store.clock.advance(HOUR)
        assert list(store.deferred_bursts.wake_due(store.clock.now(), MANY)) == [KEY]
        assert list(store.ledger.unfinished_bursts()) == [KEY]
    store.ledger.unlist([KEY])
    assert (list(store.ledger.unfinished_bursts()), store.deferred_bursts.count()) == ([], 0)


def test_many_deferred_bursts_wake_in_batches(store: Store) -> None:
    keys = [BurstKey(subject, seq) for seq in range(1, 31) for subject in (NOVA, ORION)]
    store.ledger.store_plans([plan(key, shards=1) for key in keys])
    store.deferred_bursts.defer([deferred(key, START + HOUR + n % 3 * HOUR / 60) for n, key in enumerate(keys)], START)
    assert store.deferred_bursts.count() == len(keys)
    woken: list[BurstKey] = []
    while batch := store.deferred_bursts.wake_due(START + 2 * HOUR, 25):
        assert len(batch) <= 25
        woken += batch
    assert sorted(woken) == sorted(keys) == sorted(store.ledger.unfinished_bursts())
    assert store.deferred_bursts.count() == 0


def test_repeated_deferral_wakes_once_at_earliest_time(store: Store) -> None:
    store.ledger.store_plans([plan(KEY), plan(OTHER)])
    store.deferred_bursts.defer([deferred()], START)
    store.deferred_bursts.defer([deferred(), deferred(OTHER, START + 2 * HOUR)], START)
    store.deferred_bursts.defer([deferred(OTHER)], START)
    assert (list(store.ledger.unfinished_bursts()), store.deferred_bursts.count()) == ([], 2)
    assert sorted(store.deferred_bursts.wake_due(START + HOUR, MANY)) == [KEY, OTHER]
    assert list(store.ledger.unfinished_bursts()) == [KEY, OTHER]


def test_late_deferral_of_woken_burst_does_not_lose_it(store: Store) -> None:
    store.ledger.store_plans([plan(KEY)])
    store.deferred_bursts.defer([deferred()], START)
    store.deferred_bursts.wake_due(START + HOUR, MANY)
    store.deferred_bursts.defer([deferred()], START)  # by a dispatcher that stalled after its decision
    store.deferred_bursts.wake_due(START + HOUR, MANY)
    assert list(store.ledger.unfinished_bursts()) == [KEY]


def test_burst_deferred_after_its_time_wakes(store: Store) -> None:
    store.ledger.store_plans([plan(KEY)])
    for _ in range(2):
        assert list(store.deferred_bursts.wake_due(START + 3 * HOUR, MANY)) == []
    store.deferred_bursts.defer([deferred()], START)
    with reopened(store) as other_process:
        other_process.deferred_bursts.wake_due(START + 3 * HOUR, MANY)
        assert list(other_process.ledger.unfinished_bursts()) == [KEY]


def test_burst_closed_while_deferred_wakes_and_is_closed_again(store: Store) -> None:
    store.ledger.store_plans([plan(KEY)])
    store.deferred_bursts.defer([deferred()], START)
    store.ledger.unlist([KEY])
    store.clock.advance(HOUR)
    assert list(store.deferred_bursts.wake_due(store.clock.now(), MANY)) == [KEY]
    store.ledger.unlist([KEY])
    assert (list(store.ledger.unfinished_bursts()), store.deferred_bursts.count()) == ([], 0)
