"""The contract of the claims."""

from dataclasses import replace
from datetime import timedelta

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import Claim
from notifier.domain.ids import BurstKey
from tests.contracts.flow_stores import Store, reopened
from tests.support.contract_examples import NOVA, piece

SLICE = piece(BurstKey(NOVA, 1))
TERM = timedelta(seconds=4)


def claimed(store: Store, owner: str = "one") -> Claim | None:
    now = store.clock.now()
    return store.claims.claim(SLICE, owner, now, now + TERM)


def test_a_slice_is_claimed_by_one(store: Store) -> None:
    mine = claimed(store)
    assert mine is not None
    assert (mine.attempt, mine.owner, mine.until) == (1, "one", store.clock.now() + TERM)
    with reopened(store) as again:
        assert claimed(again, "two") is None


def test_a_second_copy_of_a_task_finds_nothing_to_do_even_at_the_same_worker(store: Store) -> None:
    claimed(store)
    assert claimed(store) is None


def test_other_slices_are_free(store: Store) -> None:
    claimed(store)
    now = store.clock.now()
    assert store.claims.claim(piece(BurstKey(NOVA, 1), Tier.P2), "two", now, now + TERM) is not None
    assert store.claims.claim(piece(BurstKey(NOVA, 2)), "two", now, now + TERM) is not None


def test_an_expired_claim_goes_to_the_next_with_a_higher_attempt(store: Store) -> None:
    claimed(store)
    store.clock.advance(TERM)
    next_one = claimed(store, "two")
    assert next_one is not None
    assert (next_one.attempt, next_one.owner, next_one.claimed_at) == (2, "two", store.clock.now())


def test_a_renewed_claim_lasts_longer(store: Store) -> None:
    mine = claimed(store)
    assert mine is not None
    longer = mine.until + TERM
    assert store.claims.renew(mine, longer) == replace(mine, until=longer)
    store.clock.advance(TERM)
    assert claimed(store, "two") is None


def test_who_lost_the_slice_is_told_at_renewal(store: Store) -> None:
    mine = claimed(store)
    assert mine is not None
    store.clock.advance(TERM)
    theirs = claimed(store, "two")
    assert theirs is not None
    assert store.claims.renew(mine, mine.until + 9 * TERM) is None
    store.clock.advance(TERM)
    assert claimed(store, "three") is not None


def test_the_same_worker_can_lose_a_slice_to_itself(store: Store) -> None:
    first = claimed(store)
    assert first is not None
    store.clock.advance(TERM)
    assert claimed(store) is not None
    assert store.claims.renew(first, first.until + TERM) is None


def test_a_released_slice_is_free_at_once(store: Store) -> None:
    mine = claimed(store)
    assert mine is not None
    store.claims.release(mine, store.clock.now())
    theirs = claimed(store, "two")
    assert theirs is not None
    assert theirs.attempt == 2


def test_a_release_after_the_loss_changes_nothing(store: Store) -> None:
    mine = claimed(store)
    assert mine is not None
    store.clock.advance(TERM)
    claimed(store, "two")
    store.claims.release(mine, store.clock.now())
    assert claimed(store, "three") is None


def test_who_claims_next_goes_on_where_the_last_holder_had_reached(store: Store) -> None:
    mine = claimed(store)
    assert mine is not None
    assert mine.reached == 0
    store.claims.release(replace(mine, reached=17), store.clock.now())
    with reopened(store) as again:
        next_one = claimed(again, "two")
    assert next_one is not None
    assert next_one.reached == 17


def test_a_zombie_cannot_say_how_far_the_work_is(store: Store) -> None:
    zombie = claimed(store)
    store.clock.advance(TERM)
    holder = claimed(store, "two")
    assert zombie is not None
    assert holder is not None
    store.claims.release(replace(zombie, reached=17), store.clock.now())
    store.claims.release(holder, store.clock.now())
    again = claimed(store)
    assert again is not None
    assert again.reached == 0
