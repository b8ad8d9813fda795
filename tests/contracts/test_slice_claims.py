"""Slice claims on every backend."""

from dataclasses import replace
from datetime import timedelta

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import Claim
from notifier.domain.ids import BurstKey
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import NOVA, slice_of

SLICE = slice_of(BurstKey(NOVA, 1))
TERM = timedelta(seconds=4)


def claim_slice(store: Store, owner: str = "one") -> Claim | None:
    now = store.clock.now()
    return store.claims.claim(SLICE, owner, now, now + TERM)


def test_slice_has_one_claim_at_a_time(store: Store) -> None:
    claim = claim_slice(store)
    assert claim is not None
    assert (claim.number, claim.owner, claim.until) == (1, "one", store.clock.now() + TERM)
    with reopened(store) as other_process:
        assert claim_slice(other_process, "two") is None


def test_duplicate_task_gets_no_claim_even_in_same_worker(store: Store) -> None:
    claim_slice(store)
    assert claim_slice(store) is None


def test_claim_does_not_block_other_slices(store: Store) -> None:
    claim_slice(store)
    now = store.clock.now()
    assert store.claims.claim(slice_of(BurstKey(NOVA, 1), Tier.P2), "two", now, now + TERM) is not None
    assert store.claims.claim(slice_of(BurstKey(NOVA, 2)), "two", now, now + TERM) is not None


def test_expired_claim_is_reissued_with_higher_attempt(store: Store) -> None:
    claim_slice(store)
    store.clock.advance(TERM)
    next_claim = claim_slice(store, "two")
    assert next_claim is not None
    assert (next_claim.number, next_claim.owner, next_claim.claimed_at) == (2, "two", store.clock.now())


def test_renewed_claim_lasts_longer(store: Store) -> None:
    claim = claim_slice(store)
    assert claim is not None
    longer = claim.until + TERM
    assert store.claims.renew(claim, longer) == replace(claim, until=longer)
    store.clock.advance(TERM)
    assert claim_slice(store, "two") is None


def test_renewal_fails_after_claim_is_lost(store: Store) -> None:
    claim = claim_slice(store)
    assert claim is not None
    store.clock.advance(TERM)
    next_claim = claim_slice(store, "two")
    assert next_claim is not None
    assert store.claims.renew(claim, claim.until + 9 * TERM) is None
    store.clock.advance(TERM)
    assert claim_slice(store, "three") is not None


def test_renewal_fails_after_same_worker_reclaimed(store: Store) -> None:
    first = claim_slice(store)
    assert first is not None
    store.clock.advance(TERM)
    assert claim_slice(store) is not None
    assert store.claims.renew(first, first.until + TERM) is None


def test_released_slice_is_free_at_once(store: Store) -> None:
    claim = claim_slice(store)
    assert claim is not None
    store.claims.release(claim, store.clock.now())
    next_claim = claim_slice(store, "two")
    assert next_claim is not None
    assert next_claim.number == 2


def test_release_of_lost_claim_changes_nothing(store: Store) -> None:
    claim = claim_slice(store)
    assert claim is not None
    store.clock.advance(TERM)
    claim_slice(store, "two")
    store.claims.release(claim, store.clock.now())
    assert claim_slice(store, "three") is None


def test_next_claim_resumes_at_recorded_progress(store: Store) -> None:
    claim = claim_slice(store)
    assert claim is not None
    assert claim.checkpoint == 0
    store.claims.release(replace(claim, checkpoint=17), store.clock.now())
    with reopened(store) as other_process:
        next_claim = claim_slice(other_process, "two")
    assert next_claim is not None
    assert next_claim.checkpoint == 17


def test_expired_claim_cannot_record_progress(store: Store) -> None:
    expired = claim_slice(store)
    store.clock.advance(TERM)
    current = claim_slice(store, "two")
    assert expired is not None
    assert current is not None
    store.claims.release(replace(expired, checkpoint=17), store.clock.now())
    store.claims.release(current, store.clock.now())
    next_claim = claim_slice(store)
    assert next_claim is not None
    assert next_claim.checkpoint == 0
