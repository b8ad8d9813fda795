"""Token buckets: what a bucket earns and spends, and what an allowance reports."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.token_bucket import BucketLimit, RequestAllowance, RequestLimit, TokenBucket, whole_seconds
from tests.support.fakes.clock_and_nonces import START

READS = RequestLimit.per(timedelta(seconds=100), "reads", 10)
LIMIT = READS.bucket
FULL = TokenBucket.full(LIMIT, START)
HOUR, TEN_SECONDS = timedelta(hours=1), timedelta(seconds=10)


def test_request_limit_spreads_its_requests_over_the_window() -> None:
    assert (READS.max_requests, LIMIT) == (10, BucketLimit(capacity=10, refill=TEN_SECONDS))


def test_spent_tokens_come_back_one_by_one() -> None:
    spent = FULL.spent().spent()
    assert spent.refilled(LIMIT, START + TEN_SECONDS).tokens == 9
    assert spent.refilled(LIMIT, START + timedelta(days=1)) == TokenBucket.full(LIMIT, START + timedelta(days=1))


def test_allowance_reports_remaining_tokens_and_refill_time() -> None:
    allowance = RequestAllowance(limit=READS, bucket=FULL.spent().spent())
    assert (allowance.remaining, allowance.full_after, allowance.retry_after) == (
        8,
        timedelta(seconds=20),
        timedelta(0),
    )


def test_bucket_in_debt_takes_longer_to_afford_a_token() -> None:
    in_debt = FULL.lowered(-3)
    allowance = RequestAllowance(limit=READS, bucket=in_debt)
    assert (in_debt.has_token, allowance.remaining, allowance.retry_after) == (False, 0, timedelta(seconds=40))
    assert in_debt.refilled(LIMIT, START + timedelta(seconds=40)).has_token


def test_clock_behind_the_latest_time_changes_no_tokens() -> None:
    spent = FULL.spent()
    assert spent.refilled(LIMIT, START - HOUR) == spent
    assert spent.refilled(LIMIT, START - HOUR).refilled(LIMIT, START - HOUR + TEN_SECONDS).tokens == 9


def test_single_clock_that_was_set_back_earns_again_at_once() -> None:
    back = FULL.spent().with_time_at_most(START - HOUR)
    assert back.refilled(LIMIT, START - HOUR).tokens == 9
    assert back.refilled(LIMIT, START - HOUR + TEN_SECONDS).tokens == 10


def test_lowering_a_bucket_never_raises_it() -> None:
    assert FULL.spent().lowered(20).tokens == 9


@pytest.mark.parametrize(("span", "whole"), [(0, 0), (0.001, 1), (1, 1), (1.2, 2)])
def test_wait_is_reported_in_whole_seconds_and_never_too_short(span: float, whole: int) -> None:
    assert whole_seconds(timedelta(seconds=span)) == whole


@given(st.lists(st.floats(0, 50), max_size=200))
def test_no_interval_grants_more_than_capacity_plus_refill(gaps: list[float]) -> None:
    now, bucket, granted = START, FULL, 0
    for gap in gaps:
        now += timedelta(seconds=gap)
        bucket = bucket.refilled(LIMIT, now)
        if bucket.has_token:
            bucket, granted = bucket.spent(), granted + 1
    assert granted <= LIMIT.capacity + (now - START) / LIMIT.refill + 1e-6
