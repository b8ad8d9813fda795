"""Throttles: when they hold, how a tier comes back, and what is no throttle."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.throttle import (
    LONGEST,
    RAMP,
    RAMP_CEILING,
    UNLIMITED,
    Throttle,
    TierLimit,
    allowance,
    checked,
)
from notifier.domain.errors import BadThrottle
from tests.support.examples import HOUR, NOON, SECOND

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
    return Throttle(id=id, tier=tier, rate=rate, reason=reason, who="ada", starts_at=starts_at, ends_at=ends_at)


PAUSE = throttle()


def test_a_pause_holds_from_its_start_to_its_end() -> None:
    assert [PAUSE.active(at) for at in (NOON - SECOND, NOON, END - SECOND, END)] == [False, True, True, False]
    assert allowance([PAUSE], Tier.P2, NOON) == TierLimit(rate=0.0, by="t1")


def test_a_throttle_holds_its_own_tier_alone() -> None:
    assert allowance([PAUSE], Tier.P1, NOON) == UNLIMITED


def test_the_narrowest_of_several_decides_and_is_named() -> None:
    slow, slower = throttle("slow", rate=500.0), throttle("slower", rate=100.0)
    assert allowance([slow, slower], Tier.P2, NOON) == TierLimit(rate=100.0, by="slower")
    assert allowance([slow, slower, PAUSE], Tier.P2, NOON) == TierLimit(rate=0.0, by="t1")


def test_a_tier_comes_back_in_a_ramp_and_then_knows_no_limit() -> None:
    rates = [allowance([PAUSE], Tier.P2, END + RAMP * n / 10).rate for n in range(10)]
    assert rates[0] == 0.0
    assert rates == sorted(r for r in rates if r is not None)
    assert allowance([PAUSE], Tier.P2, END + RAMP) == UNLIMITED


def test_the_ramp_of_a_rate_above_the_ceiling_doesn_t_fall() -> None:
    fast = throttle(rate=2 * RAMP_CEILING)
    assert allowance([fast], Tier.P2, END + RAMP / 2).rate == 2 * RAMP_CEILING


def test_a_throttle_lifted_before_it_began_leaves_no_ramp() -> None:
    planned = throttle(starts_at=END, ends_at=NOON)
    assert allowance([planned], Tier.P2, NOON) == UNLIMITED
    assert allowance([planned], Tier.P2, END) == UNLIMITED


@pytest.mark.parametrize("good", [PAUSE, throttle(rate=0.5), throttle(ends_at=NOON + LONGEST), throttle(tier=Tier.P0)])
def test_a_throttle_with_reason_and_end_is_taken(good: Throttle) -> None:
    assert checked(good) is good


@pytest.mark.parametrize(
    "bad",
    [
        replace(PAUSE, reason=" "),
        replace(PAUSE, rate=0.0),
        replace(PAUSE, rate=-1.0),
        replace(PAUSE, rate=float("nan")),
        replace(PAUSE, rate=float("inf")),
        replace(PAUSE, ends_at=NOON),
        replace(PAUSE, ends_at=NOON + LONGEST + timedelta(seconds=1)),
        replace(PAUSE, tier=Tier.DORMANT),
    ],
)
def test_what_is_no_throttle_is_refused_with_the_reason(bad: Throttle) -> None:
    with pytest.raises(BadThrottle, match=r"\w+\.$"):
        checked(bad)
