"""The contract of the ledger."""

from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.slice import Slice, Step
from notifier.domain.ids import BurstKey
from tests.contracts.flow_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, piece, plan
from tests.support.fakes.clock import START

KEY, OTHER = BurstKey(NOVA, 1), BurstKey(ORION, 1)
LATER = START + timedelta(seconds=1)


def entry(piece: Slice, fact: Fact = Fact.DISPATCHED, n: int = 0, note: str = "") -> LedgerEntry:
    return LedgerEntry(slice=piece, fact=fact, n=n, at=START, people=40, rows=3, note=note)


def test_a_plan_is_written_once(store: Store) -> None:
    store.ledger.plan([plan(KEY), plan(OTHER)])
    store.ledger.plan([replace(plan(KEY), followers=1)])
    with reopened(store) as again:
        found = again.ledger.read([KEY, OTHER, BurstKey(NOVA, 2)])
    assert {key: account.plan for key, account in found.items()} == {KEY: plan(KEY), OTHER: plan(OTHER)}
    assert set(found[KEY].standings) == set(plan(KEY).slices())


def test_bursts_with_work_left_come_oldest_first(store: Store) -> None:
    newest, same = BurstKey(NOVA, 2), BurstKey(NOVA, 10)
    store.ledger.plan([plan(same, opened_at=LATER), plan(newest, opened_at=LATER), plan(OTHER), plan(KEY)])
    assert list(store.ledger.open()) == [KEY, OTHER, newest, same]


def test_the_list_may_begin_at_a_moment(store: Store) -> None:
    late = BurstKey(NOVA, 2)
    store.ledger.plan([plan(late, opened_at=LATER), plan(KEY)])
    assert list(store.ledger.open(START)) == [KEY, late]
    assert list(store.ledger.open(LATER)) == [late]
    store.ledger.close([late])
    assert list(store.ledger.open(LATER)) == []


def test_a_closed_burst_keeps_its_account_and_is_not_opened_again(store: Store) -> None:
    store.ledger.plan([plan(KEY), plan(OTHER)])
    store.ledger.close([KEY])
    store.ledger.plan([plan(KEY)])
    assert list(store.ledger.open()) == [OTHER]
    assert store.ledger.read([KEY])[KEY].plan == plan(KEY)


def test_a_cell_is_written_once_and_the_second_writer_is_told(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    mine = entry(piece(KEY), Fact.DONE)
    assert store.ledger.record([mine]) == [True]
    assert store.ledger.record([replace(mine, people=1), entry(piece(KEY, shard=1), Fact.DONE)]) == [False, True]
    assert store.ledger.read([KEY])[KEY].standings[piece(KEY)].ended == mine


def test_every_fact_and_number_has_a_cell_of_its_own(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    cells = [entry(piece(KEY), Fact.DISPATCHED, n) for n in (1, 2)] + [entry(piece(KEY), Fact.ATTEMPT, 1)]
    assert store.ledger.record(cells) == [True, True, True]
    standing = store.ledger.read([KEY])[KEY].standings[piece(KEY)]
    assert (standing.dispatched, standing.attempts, standing.ended) == (2, 1, None)


def test_two_writes_of_a_cell_in_one_call_are_told_apart(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    assert store.ledger.record([entry(piece(KEY)), entry(piece(KEY))]) == [True, False]


def test_an_entry_comes_back_whole(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    dead = entry(piece(KEY, Tier.P0, 1, step=Step.FCM), Fact.DEAD, note="a cause")
    parked = entry(piece(KEY), Fact.PARKED, note="lease-1")
    store.ledger.record([dead, parked])
    with reopened(store) as again:
        standings = again.ledger.read([KEY])[KEY].standings
    assert standings[dead.slice].ended == dead
    assert standings[parked.slice].parked_by == {"lease-1"}


@pytest.mark.parametrize("phones", [None, 0, 7])
def test_a_fact_says_how_many_may_be_alerted(store: Store, phones: int | None) -> None:
    store.ledger.plan([plan(KEY)])
    done = replace(entry(piece(KEY, Tier.P0), Fact.DONE), phones=phones)
    store.ledger.record([done])
    with reopened(store) as again:
        standings = again.ledger.read([KEY])[KEY].standings
    assert standings[done.slice].ended == done
    assert (piece(KEY, Tier.P0, step=Step.WEB) in standings) == (phones != 0)


def test_what_waits_comes_back_with_its_moment_and_number(store: Store) -> None:
    store.ledger.plan([plan(KEY)])
    phones = piece(KEY, Tier.P0, step=Step.APNS)
    store.ledger.record([replace(entry(phones, Fact.WAITS, n), at=START + n * timedelta(hours=1)) for n in (1, 2)])
    with reopened(store) as again:
        standing = again.ledger.read([KEY])[KEY].standings[phones]
    assert (standing.waited, standing.waits_until) == (2, START + timedelta(hours=2))


def test_of_what_happened_time_and_again_the_last_counts_and_of_throttles_each(store: Store) -> None:
    store.ledger.plan([plan(KEY), plan(BurstKey(NOVA, 2))])
    often, other = piece(KEY, Tier.P2), piece(BurstKey(NOVA, 2), Tier.P2)
    for n in range(1, 12):
        again = [entry(often, fact, n) for fact in (Fact.DISPATCHED, Fact.ATTEMPT, Fact.WAITS)]
        store.ledger.record([*(replace(one, at=START + timedelta(hours=n)) for one in again), entry(other, n=n % 3)])
    store.ledger.record([entry(often, Fact.PARKED, n, note=f"t{n}") for n in range(3)])
    found = store.ledger.read([other.burst, KEY])
    standing, last = found[KEY].standings[often], START + timedelta(hours=11)
    assert (standing.dispatched, standing.attempts, standing.waited) == (11, 11, 11)
    assert (standing.dispatched_at, standing.waits_until) == (last, last)
    assert standing.parked_by == {"t0", "t1", "t2"}
    assert found[other.burst].standings[other].dispatched == 2


def test_an_account_knows_the_claims(store: Store) -> None:
    store.ledger.plan([plan(KEY), plan(OTHER)])
    claim = store.claims.claim(piece(KEY), "worker", START, LATER)
    found = store.ledger.read([KEY, OTHER])
    assert found[KEY].standings[piece(KEY)].claim == claim
    assert found[OTHER].standings[piece(OTHER)].claim is None


def test_many_accounts_are_read_at_once(store: Store) -> None:
    keys = [BurstKey(NOVA, seq) for seq in range(1, 1_001)]
    store.ledger.plan([plan(key, shards=1) for key in keys])
    store.ledger.record([entry(piece(key), Fact.DONE) for key in keys])
    found = store.ledger.read(keys)
    assert len(found) == 1_000
    assert all(found[key].standings[piece(key)].ended == entry(piece(key), Fact.DONE) for key in keys)
