"""Fan-out budgets and collapse windows: token bucket, end, and requested length."""

from datetime import timedelta

from notifier.domain.bursts.sequencer import fanout_limit, is_collapse_window_over
from notifier.domain.ids import POLICIES, Kind
from notifier.domain.token_bucket import TokenBucket
from tests.support.domain_examples import HOUR, MINUTE, NOON, SECOND

OFF = timedelta(0)
POLICY = POLICIES[Kind.MENTION]
LIMIT = fanout_limit(POLICY)
EMPTY = TokenBucket(tokens=0.0, at=NOON)


def test_budget_gains_one_token_per_hour_up_to_capacity() -> None:
    assert EMPTY.refilled(LIMIT, NOON + HOUR / 2).tokens == 0.5
    assert EMPTY.refilled(LIMIT, NOON + 100 * HOUR) == TokenBucket.full(LIMIT, NOON + 100 * HOUR)


def test_clock_that_goes_back_changes_no_tokens() -> None:
    assert EMPTY.refilled(LIMIT, NOON - HOUR) == EMPTY


def test_window_ends_after_its_minimum_when_a_token_is_available() -> None:
    full = TokenBucket.full(LIMIT, NOON)
    assert not is_collapse_window_over(full, opened_at=NOON, collapse=MINUTE, now=NOON + MINUTE - SECOND)
    assert is_collapse_window_over(full, opened_at=NOON, collapse=MINUTE, now=NOON + MINUTE)
    assert not is_collapse_window_over(EMPTY, opened_at=NOON, collapse=MINUTE, now=NOON + MINUTE)


def test_window_without_budget_ends_after_its_minimum() -> None:
    assert is_collapse_window_over(None, opened_at=NOON, collapse=MINUTE, now=NOON + MINUTE)


def test_window_of_zero_is_always_over() -> None:
    assert is_collapse_window_over(None, opened_at=NOON, collapse=timedelta(0), now=NOON)


def test_requested_refill_time_changes_the_rate_but_not_the_capacity() -> None:
    often = fanout_limit(POLICY.refilled_every(MINUTE))
    assert EMPTY.refilled(often, NOON + MINUTE).tokens == 1.0
    assert EMPTY.refilled(often, NOON + HOUR) == TokenBucket.full(LIMIT, NOON + HOUR)
    assert POLICY.refilled_every(None) is POLICY


def test_collapsing_can_be_disabled_up_to_the_limit_only() -> None:
    limit = POLICY.max_small_followers
    assert POLICY.collapse_for(limit, OFF) == OFF
    assert POLICY.collapse_for(limit + 1, OFF) == POLICY.collapse


def test_collapse_window_can_be_changed_at_every_size() -> None:
    assert POLICY.collapse_for(200_000_000, 5 * SECOND) == 5 * SECOND
    assert POLICY.collapse_for(10, None) == MINUTE


def test_subject_above_the_collapse_limit_has_a_budget() -> None:
    limit = POLICY.max_small_followers
    assert [POLICY.needs_budget(n) for n in (limit, limit + 1)] == [False, True]
    assert not POLICIES[Kind.SELF].needs_budget(200_000_000)
