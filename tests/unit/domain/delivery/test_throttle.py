"""Throttles: when they are active, how a tier resumes, and which are invalid."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.throttle_and_backpressure import (
    MAX_THROTTLE_DURATION,
    RAMP,
    RAMP_CEILING,
    UNLIMITED,
    Throttle,
    TierLimit,
    tier_limit,
    validated_throttle,
)
from notifier.domain.errors import BadThrottle
from tests.support.domain_examples import HOUR, NOON, SECOND

END = NOON + HOUR


def throttle(
    id: str = "t1",
    *,
    rate: float | None = None,
    tier: Tier = Tier.P2,
    starts_at: datetime = NOON,
    ends_at: datetime = END,
    reason: str = "a slow store",
) -> Throttle:
    return Throttle(id=id, tier=tier, rate=rate, reason=reason, operator="ada", starts_at=starts_at, ends_at=ends_at)


PAUSE = throttle()


def test_pause_is_active_from_its_start_to_its_end() -> None:
    assert [PAUSE.is_active(at) for at in (NOON - SECOND, NOON, END - SECOND, END)] == [False, True, True, False]
    assert tier_limit([PAUSE], Tier.P2, NOON) == TierLimit(rate=0.0, throttle_id="t1")


def test_throttle_limits_only_its_own_tier() -> None:
    assert tier_limit([PAUSE], Tier.P1, NOON) == UNLIMITED


def test_strictest_throttle_decides_and_is_named() -> None:
    slow, slower = throttle("slow", rate=500.0), throttle("slower", rate=100.0)
    assert tier_limit([slow, slower], Tier.P2, NOON) == TierLimit(rate=100.0, throttle_id="slower")
    assert tier_limit([slow, slower, PAUSE], Tier.P2, NOON) == TierLimit(rate=0.0, throttle_id="t1")


def test_tier_resumes_in_a_ramp_and_is_then_unlimited() -> None:
    rates = [tier_limit([PAUSE], Tier.P2, END + RAMP * n / 10).rate for n in range(10)]
    assert rates[0] == 0.0
    assert rates == sorted(r for r in rates if r is not None)
    assert tier_limit([PAUSE], Tier.P2, END + RAMP) == UNLIMITED


def test_ramp_never_falls_below_a_rate_above_its_ceiling() -> None:
    fast = throttle(rate=2 * RAMP_CEILING)
    assert tier_limit([fast], Tier.P2, END + RAMP / 2).rate == 2 * RAMP_CEILING


def test_throttle_lifted_before_its_start_leaves_no_ramp() -> None:
    planned = throttle(starts_at=END, ends_at=NOON)
    assert tier_limit([planned], Tier.P2, NOON) == UNLIMITED
    assert tier_limit([planned], Tier.P2, END) == UNLIMITED


@pytest.mark.parametrize(
    "good", [PAUSE, throttle(rate=0.5), throttle(ends_at=NOON + MAX_THROTTLE_DURATION), throttle(tier=Tier.P0)]
)
def test_throttle_with_reason_and_end_is_accepted(good: Throttle) -> None:
    assert validated_throttle(good) is good


@pytest.mark.parametrize(
    "bad",
    [
        replace(PAUSE, reason=" "),
        replace(PAUSE, rate=0.0),
        replace(PAUSE, rate=-1.0),
        replace(PAUSE, rate=float("nan")),
        replace(PAUSE, rate=float("inf")),
        replace(PAUSE, ends_at=NOON),
        replace(PAUSE, ends_at=NOON + MAX_THROTTLE_DURATION + timedelta(seconds=1)),
        replace(PAUSE, tier=Tier.DORMANT),
    ],
)
def test_invalid_throttle_is_refused_with_the_reason(bad: Throttle) -> None:
    with pytest.raises(BadThrottle, match=r"\w+\.$"):
        validated_throttle(bad)
