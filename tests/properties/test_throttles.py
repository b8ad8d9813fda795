"""A throttle limits while it lasts, is released gradually, and then has no effect."""

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.delivery.throttle_and_backpressure import RAMP, UNLIMITED, Throttle, tier_limit
from tests.support.domain_examples import HOUR, MINUTE, NOON


def _throttle(id: int, tier: Tier, rate: float | None, start: int, duration: int) -> Throttle:
    starts_at = NOON + start * MINUTE
    return Throttle(
        id=f"t{id}",
        tier=tier,
        rate=rate,
        reason="r",
        operator="ada",
        starts_at=starts_at,
        ends_at=starts_at + duration * MINUTE,
    )


THROTTLES = st.lists(
    st.builds(
        _throttle,
        st.integers(0, 99),
        st.sampled_from(TIERS),
        st.none() | st.floats(0.001, 1e9),
        st.integers(-60, 60),
        st.integers(1, 120),
    ),
    max_size=5,
)
MOMENTS = st.integers(-60 * 60, 4 * 60 * 60).map(lambda seconds: NOON + timedelta(seconds=seconds))


@given(THROTTLES, st.sampled_from(TIERS), MOMENTS)
@settings(max_examples=150)
def test_limit_is_that_of_an_active_throttle_and_below_all_others(
    throttles: list[Throttle], tier: Tier, now: datetime
) -> None:
    limit = tier_limit(throttles, tier, now)
    active_throttles = [t for t in throttles if t.tier is tier and (t.is_active(now) or t.is_ramping(now))]
    assert (limit == UNLIMITED) is (not active_throttles)
    if limit.rate is not None:
        assert limit.throttle_id in {t.id for t in active_throttles}
        assert all(limit.rate <= (t.rate or 0.0) for t in active_throttles if t.is_active(now))


@given(THROTTLES, st.sampled_from(TIERS), st.lists(st.integers(0, 40_000), min_size=2, max_size=20))
@settings(max_examples=150)
def test_rate_only_rises_after_the_last_throttle(
    throttles: list[Throttle], tier: Tier, milliseconds: list[int]
) -> None:
    end = max((t.ends_at for t in throttles), default=NOON)
    rates = [tier_limit(throttles, tier, end + timedelta(milliseconds=ms)).rate for ms in sorted(milliseconds)]
    limits = [float("inf") if rate is None else rate for rate in rates]
    assert limits == sorted(limits)
    assert tier_limit(throttles, tier, end + RAMP) == UNLIMITED
    assert tier_limit(throttles, tier, end + HOUR) == UNLIMITED
