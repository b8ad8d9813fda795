"""The ledger of plans and slices on every backend."""

from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.slice_and_pool import Slice, Step
from notifier.domain.ids import BurstKey
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, plan, slice_of
from tests.support.fakes.clock_and_nonces import START

KEY, OTHER = BurstKey(NOVA, 1), BurstKey(ORION, 1)
LATER = START + timedelta(seconds=1)


def entry(slice_: Slice, fact: Fact = Fact.DISPATCHED, n: int = 0, note: str = "") -> LedgerEntry:
    return LedgerEntry(slice=slice_, fact=fact, number=n, at=START, people=40, row_count=3, note=note)


def test_plan_is_written_once(store: Store) -> None:
    store.ledger.store_plans([plan(KEY), plan(OTHER)])
    store.ledger.store_plans([replace(plan(KEY), followers=1)])
    with reopened(store) as other_process:
        progress = other_process.ledger.read([KEY, OTHER, BurstKey(NOVA, 2)])
    assert {key: burst_progress.plan for key, burst_progress in progress.items()} == {
        KEY: plan(KEY),
        OTHER: plan(OTHER),
    }
    assert set(progress[KEY].slice_states) == set(plan(KEY).slices())


def test_unfinished_bursts_are_listed_oldest_first(store: Store) -> None:
    newest, same = BurstKey(NOVA, 2), BurstKey(NOVA, 10)
    store.ledger.store_plans([plan(same, opened_at=LATER), plan(newest, opened_at=LATER), plan(OTHER), plan(KEY)])
    assert list(store.ledger.unfinished_bursts()) == [KEY, OTHER, newest, same]


def test_unfinished_bursts_can_be_listed_from_a_time(store: Store) -> None:
    late = BurstKey(NOVA, 2)
    store.ledger.store_plans([plan(late, opened_at=LATER), plan(KEY)])
    assert list(store.ledger.unfinished_bursts(START)) == [KEY, late]
    assert list(store.ledger.unfinished_bursts(LATER)) == [late]
    store.ledger.unlist([late])
    assert list(store.ledger.unfinished_bursts(LATER)) == []


def test_unlisted_burst_keeps_progress_and_is_not_listed_again(store: Store) -> None:
    store.ledger.store_plans([plan(KEY), plan(OTHER)])
    store.ledger.unlist([KEY])
    store.ledger.store_plans([plan(KEY)])
    assert list(store.ledger.unfinished_bursts()) == [OTHER]
    assert store.ledger.read([KEY])[KEY].plan == plan(KEY)


def test_ledger_entry_is_written_once_and_second_write_fails(store: Store) -> None:
    store.ledger.store_plans([plan(KEY)])
    done = entry(slice_of(KEY), Fact.DONE)
    assert store.ledger.record([done]) == [True]
    assert store.ledger.record([replace(done, people=1), entry(slice_of(KEY, shard=1), Fact.DONE)]) == [False, True]
    assert store.ledger.read([KEY])[KEY].slice_states[slice_of(KEY)].final_entry == done


def test_each_fact_and_number_has_its_own_entry(store: Store) -> None:
    store.ledger.store_plans([plan(KEY)])
    entries = [entry(slice_of(KEY), Fact.DISPATCHED, n) for n in (1, 2)] + [entry(slice_of(KEY), Fact.ATTEMPT, 1)]
    assert store.ledger.record(entries) == [True, True, True]
    state = store.ledger.read([KEY])[KEY].slice_states[slice_of(KEY)]
    assert (state.times_dispatched, state.failure_count, state.final_entry) == (2, 1, None)


def test_duplicate_entries_in_one_call_are_detected(store: Store) -> None:
    store.ledger.store_plans([plan(KEY)])
    assert store.ledger.record([entry(slice_of(KEY)), entry(slice_of(KEY))]) == [True, False]


def test_ledger_entry_is_returned_as_written(store: Store) -> None:
    store.ledger.store_plans([plan(KEY)])
    dead = entry(slice_of(KEY, Tier.P0, 1, step=Step.FCM), Fact.DEAD, note="a cause")
    parked = entry(slice_of(KEY), Fact.PARKED, note="lease-1")
    store.ledger.record([dead, parked])
    with reopened(store) as other_process:
        states = other_process.ledger.read([KEY])[KEY].slice_states
    assert states[dead.slice].final_entry == dead
    assert states[parked.slice].parked_by == {"lease-1"}


@pytest.mark.parametrize("alert_count", [None, 0, 7])
def test_entry_keeps_number_of_push_recipients(store: Store, alert_count: int | None) -> None:
    store.ledger.store_plans([plan(KEY)])
    done = replace(entry(slice_of(KEY, Tier.P0), Fact.DONE), alert_count=alert_count)
    store.ledger.record([done])
    with reopened(store) as other_process:
        states = other_process.ledger.read([KEY])[KEY].slice_states
    assert states[done.slice].final_entry == done
    assert (slice_of(KEY, Tier.P0, step=Step.WEB) in states) == (alert_count != 0)


def test_deferral_is_returned_with_time_and_number(store: Store) -> None:
    store.ledger.store_plans([plan(KEY)])
    push_slice = slice_of(KEY, Tier.P0, step=Step.APNS)
    store.ledger.record(
        [replace(entry(push_slice, Fact.DEFERRED, n), at=START + n * timedelta(hours=1)) for n in (1, 2)]
    )
    with reopened(store) as other_process:
        state = other_process.ledger.read([KEY])[KEY].slice_states[push_slice]
    assert (state.times_deferred, state.deferred_until) == (2, START + timedelta(hours=2))


def test_last_repeated_fact_counts_but_every_throttle_is_kept(store: Store) -> None:
    store.ledger.store_plans([plan(KEY), plan(BurstKey(NOVA, 2))])
    repeated, other_slice = slice_of(KEY, Tier.P2), slice_of(BurstKey(NOVA, 2), Tier.P2)
    for n in range(1, 12):
        entries = [entry(repeated, fact, n) for fact in (Fact.DISPATCHED, Fact.ATTEMPT, Fact.DEFERRED)]
        store.ledger.record(
            [*(replace(entry_, at=START + timedelta(hours=n)) for entry_ in entries), entry(other_slice, n=n % 3)]
        )
    store.ledger.record([entry(repeated, Fact.PARKED, n, note=f"t{n}") for n in range(3)])
    progress = store.ledger.read([other_slice.burst, KEY])
    state, last = progress[KEY].slice_states[repeated], START + timedelta(hours=11)
    assert (state.times_dispatched, state.failure_count, state.times_deferred) == (11, 11, 11)
    assert (state.dispatched_at, state.deferred_until) == (last, last)
    assert state.parked_by == {"t0", "t1", "t2"}
    assert progress[other_slice.burst].slice_states[other_slice].times_dispatched == 2


def test_progress_includes_claims(store: Store) -> None:
    store.ledger.store_plans([plan(KEY), plan(OTHER)])
    claim = store.claims.claim(slice_of(KEY), "worker", START, LATER)
    progress = store.ledger.read([KEY, OTHER])
    assert progress[KEY].slice_states[slice_of(KEY)].claim == claim
    assert progress[OTHER].slice_states[slice_of(OTHER)].claim is None


def test_progress_of_many_bursts_is_read_at_once(store: Store) -> None:
    keys = [BurstKey(NOVA, seq) for seq in range(1, 1_001)]
    store.ledger.store_plans([plan(key, shards=1) for key in keys])
    store.ledger.record([entry(slice_of(key), Fact.DONE) for key in keys])
    progress = store.ledger.read(keys)
    assert len(progress) == 1_000
    assert all(progress[key].slice_states[slice_of(key)].final_entry == entry(slice_of(key), Fact.DONE) for key in keys)
