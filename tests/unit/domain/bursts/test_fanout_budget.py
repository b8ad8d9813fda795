"""The token bucket of fan-outs, and when a collapse window is over."""

from datetime import timedelta

from notifier.domain.bursts.sequencer import fanout_limit, is_window_over
from notifier.domain.ids import POLICIES, Kind
from notifier.domain.token_bucket import TokenBucket
from tests.support.examples import HOUR, MINUTE, NOON, SECOND

POLICY = POLICIES[Kind.MENTION]
LIMIT = fanout_limit(POLICY)
EMPTY = TokenBucket(tokens=0.0, at=NOON)


def test_a_token_comes_each_hour_up_to_the_capacity() -> None:
    assert EMPTY.refilled(LIMIT, NOON + HOUR / 2).tokens == 0.5
    assert EMPTY.refilled(LIMIT, NOON + 100 * HOUR) == TokenBucket.full(LIMIT, NOON + 100 * HOUR)


def test_a_clock_that_goes_back_earns_and_costs_nothing() -> None:
    assert EMPTY.refilled(LIMIT, NOON - HOUR) == EMPTY


def test_a_window_is_over_when_its_least_has_passed_and_a_fan_out_can_be_afforded() -> None:
    full = TokenBucket.full(LIMIT, NOON)
    assert not is_window_over(full, opened_at=NOON, collapse=MINUTE, now=NOON + MINUTE - SECOND)
    assert is_window_over(full, opened_at=NOON, collapse=MINUTE, now=NOON + MINUTE)
    assert not is_window_over(EMPTY, opened_at=NOON, collapse=MINUTE, now=NOON + MINUTE)


def test_without_a_budget_the_window_alone_decides() -> None:
    assert is_window_over(None, opened_at=NOON, collapse=MINUTE, now=NOON + MINUTE)


def test_a_window_of_zero_is_always_over() -> None:
    assert is_window_over(None, opened_at=NOON, collapse=timedelta(0), now=NOON)


def test_a_wish_changes_how_soon_a_token_comes_and_nothing_else() -> None:
    often = fanout_limit(POLICY.refilled_every(MINUTE))
    assert EMPTY.refilled(often, NOON + MINUTE).tokens == 1.0
    assert EMPTY.refilled(often, NOON + HOUR) == TokenBucket.full(LIMIT, NOON + HOUR)
    assert POLICY.refilled_every(None) is POLICY
