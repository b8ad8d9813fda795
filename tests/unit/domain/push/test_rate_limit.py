"""Rate limit of a provider: P0 alerts first, slower after refusals, automatic recovery."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.config.push import MIN_PER_MINUTE
from notifier.domain.ids import Platform
from notifier.domain.push.rate_limit import (
    MIN_SHARE,
    PROVIDER_LIMITS,
    ProviderLimit,
    ProviderRate,
    draw,
    report_results,
)
from notifier.domain.token_bucket import TokenBucket
from notifier.flow.push.rate_limiter import LOCAL_LIMIT_DIVISOR
from tests.support.domain_examples import MINUTE, NOON, SECOND

GOOGLE = PROVIDER_LIMITS[Platform.FCM]
SMALL = ProviderLimit(per_minute=611)
"""Ten alerts a second."""
FULL = ProviderRate(bucket=TokenBucket(tokens=10.0, at=NOON), since=NOON - 2 * MINUTE)
LOTS = 1_000_000

Step = tuple[float, int, bool, float, int, bool]
"""Seconds that pass (may be negative), wanted, is_p0, slowdown_factor, refused_count, is_slow."""
STEPS = st.lists(
    st.tuples(
        st.floats(-2, 10), st.integers(0, 2_000), st.booleans(), st.floats(0.05, 1), st.integers(0, 1), st.booleans()
    ),
    max_size=80,
)


def total(
    rate: ProviderRate | None, limit: ProviderLimit, start: datetime, seconds: float, *, is_p0: bool = False
) -> int:
    """Return what a sender gets that asks for everything twenty times a second."""
    granted = 0
    for tick in range(int(seconds * 20) + 1):
        rate, drawn_now = draw(rate, limit, start + SECOND * tick / 20, LOTS, is_p0=is_p0)
        granted += drawn_now
    return granted


def grants_of(steps: Sequence[Step], limit: ProviderLimit) -> list[tuple[datetime, int]]:
    rate, now, grants = FULL, NOON, list[tuple[datetime, int]]()
    for seconds, wanted, is_p0, slowdown_factor, refused_count, is_slow in steps:
        now += timedelta(seconds=seconds)
        rate, drawn_now = draw(rate, limit, now, wanted, is_p0=is_p0, slowdown_factor=slowdown_factor)
        assert 0 <= drawn_now <= wanted
        grants.append((rate.bucket.at, drawn_now))
        rate = report_results(rate, limit, now, refused_count=refused_count, is_slow=is_slow)
        assert MIN_SHARE <= rate.share <= 1
    return grants


@given(STEPS)
def test_no_minute_exceeds_the_limit_of_the_provider(steps: list[Step]) -> None:
    grants = grants_of(steps, SMALL)
    for at, _ in grants:
        assert sum(amount for granted_at, amount in grants if at <= granted_at <= at + MINUTE) <= SMALL.per_minute


@given(STEPS)
def test_no_interval_exceeds_its_refill_plus_one_second(steps: list[Step]) -> None:
    grants = grants_of(steps, SMALL)
    for first, (at, _) in enumerate(grants):
        for last, (until, _) in enumerate(grants[first:], first):
            total_amount = sum(amount for _, amount in grants[first : last + 1])
            assert total_amount <= SMALL.per_second * (1 + (until - at) / SECOND) + 1 + 1e-6


@given(STEPS)
def test_bucket_time_never_goes_backwards(steps: list[Step]) -> None:
    moments = [at for at, _ in grants_of(steps, SMALL)]
    assert all(earlier <= later for earlier, later in pairwise(moments))


def test_first_two_seconds_allow_a_thousand_alerts() -> None:
    assert 1_000 <= total(None, GOOGLE, NOON, 2, is_p0=True) < 2_000
    idle = ProviderRate(bucket=TokenBucket(tokens=0.0, at=NOON - 6 * MINUTE), since=NOON - 20 * MINUTE)
    assert 1_000 <= total(idle, GOOGLE, NOON, 2, is_p0=True) < 2_000


def test_rate_ramps_up_for_a_minute() -> None:
    assert total(None, GOOGLE, NOON, 30) < 0.3 * 30 * GOOGLE.per_second
    assert total(None, GOOGLE, NOON, 60) < 0.55 * GOOGLE.per_minute
    risen, last = draw(None, GOOGLE, NOON, 0, is_p0=False)
    for second in range(120):
        risen, last = draw(risen, GOOGLE, NOON + second * SECOND, LOTS, is_p0=True)
    assert last == int(GOOGLE.per_second)


def test_ramp_restarts_after_a_pause_of_six_minutes_but_not_of_four() -> None:
    _, after_four = draw(FULL, SMALL, NOON + 4 * MINUTE, LOTS, is_p0=True)
    _, after_six = draw(FULL, SMALL, NOON + 6 * MINUTE, LOTS, is_p0=True)
    assert (after_four, after_six) == (10, 1)


def test_p0_alerts_get_reserve_and_all_refill_under_load() -> None:
    rate: ProviderRate | None = None
    for tick in range(2_400):
        rate, _ = draw(rate, GOOGLE, NOON + SECOND * tick / 20, LOTS, is_p0=False)
    now = NOON + 120 * SECOND
    rate, at_once = draw(rate, GOOGLE, now, LOTS, is_p0=True)
    assert at_once >= 0.25 * GOOGLE.per_second
    ordinary = p0_total = 0
    for tick in range(1, 21):
        rate, amount = draw(rate, GOOGLE, now + SECOND * tick / 20, LOTS, is_p0=False)
        ordinary += amount
        rate, amount = draw(rate, GOOGLE, now + SECOND * tick / 20, LOTS, is_p0=True)
        p0_total += amount
    assert ordinary == 0
    assert p0_total == pytest.approx(GOOGLE.per_second, rel=0.01)


@pytest.mark.parametrize(("is_p0", "share"), [(False, 0.05), (True, 0.5)])
def test_slowdown_affects_p0_alerts_less(is_p0: bool, share: float) -> None:
    rate, granted = FULL, 0
    for tick in range(20 * 60):
        rate, amount = draw(rate, SMALL, NOON + SECOND * tick / 20, LOTS, is_p0=is_p0, slowdown_factor=0.05)
        granted += amount
    assert granted == pytest.approx(600 * share, abs=10 * share + 1)


def test_full_slowdown_allows_urgent_alerts_only() -> None:
    assert draw(FULL, SMALL, NOON, 5, is_p0=False, slowdown_factor=0.0)[1] == 0
    assert draw(FULL, SMALL, NOON, 5, is_p0=True, slowdown_factor=0.0)[1] == 5


def test_refusal_halves_the_rate_at_most_once_a_second() -> None:
    rate = FULL
    for _ in range(5):
        rate = report_results(rate, SMALL, NOON, refused_count=100, is_slow=True)
    assert (rate.share, rate.bucket.tokens) == (0.5, 5.0)
    assert report_results(rate, SMALL, NOON + SECOND, refused_count=1, is_slow=False).share == pytest.approx(0.275)


def test_slow_provider_reduces_the_rate_by_a_fifth() -> None:
    assert report_results(FULL, SMALL, NOON, refused_count=0, is_slow=True).share == 0.8
    assert report_results(FULL, SMALL, NOON, refused_count=0, is_slow=False) == FULL


def test_rate_recovers_by_a_twentieth_a_second() -> None:
    rate = report_results(FULL, SMALL, NOON, refused_count=1, is_slow=False)
    shares = [draw(rate, SMALL, NOON + second * SECOND, 0, is_p0=False)[0].share for second in (0, 1, 5, 10, 60)]
    assert shares == pytest.approx([0.5, 0.55, 0.75, 1, 1])


def test_rate_never_drops_to_zero_after_refusals() -> None:
    rate, now = FULL, NOON
    for _ in range(200):
        now += 1.1 * SECOND
        rate = report_results(rate, SMALL, now, refused_count=1, is_slow=True)
    assert total(rate, SMALL, now, 30) > 10


def test_slightly_slow_clock_earns_and_costs_nothing() -> None:
    empty, _ = draw(FULL, SMALL, NOON, LOTS, is_p0=True)
    unchanged, amount = draw(empty, SMALL, NOON - 3 * SECOND, LOTS, is_p0=True)
    assert (unchanged, amount) == (empty, 0)
    assert draw(unchanged, SMALL, NOON + SECOND, LOTS, is_p0=True)[1] == 10


def test_clocks_hours_apart_neither_exceed_nor_stop_the_rate() -> None:
    rate, granted_total = FULL, 0
    for tick in range(20 * 30):
        for ahead in (timedelta(), 2 * 60 * MINUTE):
            for _ in range(2):
                rate, amount = draw(rate, SMALL, NOON + ahead + SECOND * tick / 20, 1, is_p0=True)
                granted_total += amount
    assert granted_total <= 2 * 30 * SMALL.per_second + 10
    assert total(rate, SMALL, NOON + 40 * SECOND, 60) > 100


def test_slowest_configurable_rate_still_sends_without_redis() -> None:
    for limit in (
        ProviderLimit(per_minute=MIN_PER_MINUTE),
        ProviderLimit(per_minute=MIN_PER_MINUTE).shared(LOCAL_LIMIT_DIVISOR),
    ):
        assert 0 < total(None, limit, NOON, 600) <= 10 * limit.per_minute
