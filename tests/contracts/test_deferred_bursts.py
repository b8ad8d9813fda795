"""Deferred bursts: an open burst is always in the open list, the deferred list, or both."""

from datetime import datetime, timedelta

from notifier.domain.delivery.backlog import Sleeper
from notifier.domain.ids import BurstKey
from tests.contracts.flow_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, plan
from tests.support.fakes.clock import START

KEY, OTHER = BurstKey(NOVA, 1), BurstKey(ORION, 1)
HOUR = timedelta(hours=1)
MANY = 100


def deferred(burst: BurstKey = KEY, until: datetime = START + HOUR, opened_at: datetime = START) -> Sleeper:
    return Sleeper(burst=burst, opened_at=opened_at, until=until)


def test_deferred_burst_is_open_again_when_its_time_comes(store: Store) -> None:
    store.ledger.plan([plan(KEY), plan(OTHER)])
    store.sleepers.lay([deferred()], START)
    with reopened(store) as other_process:
        assert (
            list(other_process.ledger.open()),
            list(other_process.ledger.open(START)),
            other_process.sleepers.count(),
        ) == (
            [OTHER],
            [OTHER],
            1,
        )
        assert list(other_process.sleepers.wake(START + HOUR - timedelta(milliseconds=1), MANY)) == []
        assert list(other_process.sleepers.wake(START + HOUR, MANY)) == [KEY]
        assert (
            list(other_process.ledger.open()),
            list(other_process.ledger.open(START)),
            other_process.sleepers.count(),
        ) == (
            [KEY, OTHER],
            [KEY, OTHER],
            0,
        )
        assert list(other_process.sleepers.wake(START + HOUR, MANY)) == []


def test_burst_can_be_deferred_repeatedly_until_closed(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    for n in range(3):
        now = START + n * HOUR
        store.sleepers.lay([deferred(until=now + HOUR)], now)
        assert list(store.ledger.open()) == []
        store.clock.advance(HOUR)
        assert list(store.sleepers.wake(store.clock.now(), MANY)) == [KEY]
        assert list(store.ledger.open()) == [KEY]
    store.ledger.close([KEY])
    assert (list(store.ledger.open()), store.sleepers.count()) == ([], 0)


def test_many_deferred_bursts_wake_in_batches(store: Store) -> None:
    keys = [BurstKey(subject, seq) for seq in range(1, 31) for subject in (NOVA, ORION)]
    store.ledger.plan([plan(key, shards=1) for key in keys])
    store.sleepers.lay([deferred(key, START + HOUR + n % 3 * HOUR / 60) for n, key in enumerate(keys)], START)
    assert store.sleepers.count() == len(keys)
    woken: list[BurstKey] = []
    while batch := store.sleepers.wake(START + 2 * HOUR, 25):
        assert len(batch) <= 25
        woken += batch
    assert sorted(woken) == sorted(keys) == sorted(store.ledger.open())
    assert store.sleepers.count() == 0


def test_repeated_deferral_wakes_once_at_earliest_time(store: Store) -> None:
    store.ledger.plan([plan(KEY), plan(OTHER)])
    store.sleepers.lay([deferred()], START)
    store.sleepers.lay([deferred(), deferred(OTHER, START + 2 * HOUR)], START)
    store.sleepers.lay([deferred(OTHER)], START)
    assert (list(store.ledger.open()), store.sleepers.count()) == ([], 2)
    assert sorted(store.sleepers.wake(START + HOUR, MANY)) == [KEY, OTHER]
    assert list(store.ledger.open()) == [KEY, OTHER]


def test_late_deferral_of_woken_burst_does_not_lose_it(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    store.sleepers.lay([deferred()], START)
    store.sleepers.wake(START + HOUR, MANY)
    store.sleepers.lay([deferred()], START)  # by a dispatcher that stalled after its decision
    store.sleepers.wake(START + HOUR, MANY)
    assert list(store.ledger.open()) == [KEY]


def test_burst_deferred_after_its_time_wakes(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    for _ in range(2):
        assert list(store.sleepers.wake(START + 3 * HOUR, MANY)) == []
    store.sleepers.lay([deferred()], START)
    with reopened(store) as other_process:
        other_process.sleepers.wake(START + 3 * HOUR, MANY)
        assert list(other_process.ledger.open()) == [KEY]


def test_burst_closed_while_deferred_wakes_and_is_closed_again(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    store.sleepers.lay([deferred()], START)
    store.ledger.close([KEY])
    store.clock.advance(HOUR)
    assert list(store.sleepers.wake(store.clock.now(), MANY)) == [KEY]
    store.ledger.close([KEY])
    assert (list(store.ledger.open()), store.sleepers.count()) == ([], 0)
