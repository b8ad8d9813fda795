"""A throttle holds while it lasts, lets go gradually, and then for good."""

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.delivery.throttle import RAMP, UNLIMITED, Throttle, allowance
from tests.support.examples import HOUR, MINUTE, NOON


def _throttle(id: int, tier: Tier, rate: float | None, start: int, lasts: int) -> Throttle:
    starts_at = NOON + start * MINUTE
    return Throttle(
        id=f"t{id}",
        tier=tier,
        rate=rate,
        reason="r",
        who="ada",
        starts_at=starts_at,
        ends_at=starts_at + lasts * MINUTE,
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
def test_a_tier_may_do_no_more_than_each_of_its_throttles_says_and_one_of_them_is_named(
    throttles: list[Throttle], tier: Tier, now: datetime
) -> None:
    allowed = allowance(throttles, tier, now)
    holding = [t for t in throttles if t.tier is tier and (t.active(now) or t.ramping(now))]
    assert (allowed == UNLIMITED) is (not holding)
    if allowed.rate is not None:
        assert allowed.by in {t.id for t in holding}
        assert all(allowed.rate <= (t.rate or 0.0) for t in holding if t.active(now))


@given(THROTTLES, st.sampled_from(TIERS), st.lists(st.integers(0, 40_000), min_size=2, max_size=20))
@settings(max_examples=150)
def test_after_the_last_throttle_the_rate_only_rises_until_there_is_no_limit(
    throttles: list[Throttle], tier: Tier, later: list[int]
) -> None:
    end = max((t.ends_at for t in throttles), default=NOON)
    rates = [allowance(throttles, tier, end + timedelta(milliseconds=ms)).rate for ms in sorted(later)]
    limits = [float("inf") if rate is None else rate for rate in rates]
    assert limits == sorted(limits)
    assert allowance(throttles, tier, end + RAMP) == UNLIMITED
    assert allowance(throttles, tier, end + HOUR) == UNLIMITED
