"""The contract of the sleepers: an open burst is in one list or the other, and in neither for nobody."""

from datetime import datetime, timedelta

from notifier.domain.delivery.backlog import Sleeper
from notifier.domain.ids import BurstKey
from tests.contracts.flow_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, plan
from tests.support.fakes.clock import START

KEY, OTHER = BurstKey(NOVA, 1), BurstKey(ORION, 1)
HOUR = timedelta(hours=1)
MANY = 100


def sleeper(burst: BurstKey = KEY, until: datetime = START + HOUR, opened_at: datetime = START) -> Sleeper:
    return Sleeper(burst=burst, opened_at=opened_at, until=until)


def test_who_is_laid_down_is_open_again_when_its_moment_is_there_and_not_before(store: Store) -> None:
    store.ledger.plan([plan(KEY), plan(OTHER)])
    store.sleepers.lay([sleeper()], START)
    with reopened(store) as again:
        assert (list(again.ledger.open()), list(again.ledger.open(START)), again.sleepers.count()) == (
            [OTHER],
            [OTHER],
            1,
        )
        assert list(again.sleepers.wake(START + HOUR - timedelta(milliseconds=1), MANY)) == []
        assert list(again.sleepers.wake(START + HOUR, MANY)) == [KEY]
        assert (list(again.ledger.open()), list(again.ledger.open(START)), again.sleepers.count()) == (
            [KEY, OTHER],
            [KEY, OTHER],
            0,
        )
        assert list(again.sleepers.wake(START + HOUR, MANY)) == []


def test_it_may_lie_down_and_wake_time_and_again_until_it_is_closed(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    for n in range(3):
        now = START + n * HOUR
        store.sleepers.lay([sleeper(until=now + HOUR)], now)
        assert list(store.ledger.open()) == []
        store.clock.advance(HOUR)
        assert list(store.sleepers.wake(store.clock.now(), MANY)) == [KEY]
        assert list(store.ledger.open()) == [KEY]
    store.ledger.close([KEY])
    assert (list(store.ledger.open()), store.sleepers.count()) == ([], 0)


def test_many_are_woken_in_turns_and_none_is_left_out(store: Store) -> None:
    keys = [BurstKey(subject, seq) for seq in range(1, 31) for subject in (NOVA, ORION)]
    store.ledger.plan([plan(key, shards=1) for key in keys])
    store.sleepers.lay([sleeper(key, START + HOUR + n % 3 * HOUR / 60) for n, key in enumerate(keys)], START)
    assert store.sleepers.count() == len(keys)
    woken: list[BurstKey] = []
    while some := store.sleepers.wake(START + 2 * HOUR, 25):
        assert len(some) <= 25
        woken += some
    assert sorted(woken) == sorted(keys) == sorted(store.ledger.open())
    assert store.sleepers.count() == 0


def test_said_twice_it_sleeps_once_and_with_two_moments_it_wakes_at_the_earlier(store: Store) -> None:
    store.ledger.plan([plan(KEY), plan(OTHER)])
    store.sleepers.lay([sleeper()], START)
    store.sleepers.lay([sleeper(), sleeper(OTHER, START + 2 * HOUR)], START)
    store.sleepers.lay([sleeper(OTHER)], START)
    assert (list(store.ledger.open()), store.sleepers.count()) == ([], 2)
    assert sorted(store.sleepers.wake(START + HOUR, MANY)) == [KEY, OTHER]
    assert list(store.ledger.open()) == [KEY, OTHER]


def test_who_lays_down_late_what_has_woken_meanwhile_takes_it_out_of_no_list_for_good(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    store.sleepers.lay([sleeper()], START)
    store.sleepers.wake(START + HOUR, MANY)
    store.sleepers.lay([sleeper()], START)  # by one who slept himself since he decided it
    store.sleepers.wake(START + HOUR, MANY)
    assert list(store.ledger.open()) == [KEY]


def test_what_is_laid_down_after_its_moment_wakes(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    for _ in range(2):
        assert list(store.sleepers.wake(START + 3 * HOUR, MANY)) == []
    store.sleepers.lay([sleeper()], START)
    with reopened(store) as again:
        again.sleepers.wake(START + 3 * HOUR, MANY)
        assert list(again.ledger.open()) == [KEY]


def test_a_burst_that_is_done_is_found_when_it_wakes_and_closed_again(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    store.sleepers.lay([sleeper()], START)
    store.ledger.close([KEY])
    store.clock.advance(HOUR)
    assert list(store.sleepers.wake(store.clock.now(), MANY)) == [KEY]
    store.ledger.close([KEY])
    assert (list(store.ledger.open()), store.sleepers.count()) == ([], 0)
