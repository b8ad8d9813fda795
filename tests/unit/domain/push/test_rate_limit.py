"""A provider's pace: never more than it takes, the urgent first, slower where it refuses, and back by itself."""

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
from notifier.flow.push.rate_limiter import LOCAL_DIVISOR
from tests.support.examples import MINUTE, NOON, SECOND

GOOGLE = PROVIDER_LIMITS[Platform.FCM]
SMALL = ProviderLimit(per_minute=611)
"""Ten a second."""
FULL = ProviderRate(bucket=TokenBucket(tokens=10.0, at=NOON), since=NOON - 2 * MINUTE)
LOTS = 1_000_000

Step = tuple[float, int, bool, float, int, bool]
"""Seconds that pass, some of them backwards; wanted, urgent, ease; refused, slow."""
STEPS = st.lists(
    st.tuples(
        st.floats(-2, 10), st.integers(0, 2_000), st.booleans(), st.floats(0.05, 1), st.integers(0, 1), st.booleans()
    ),
    max_size=80,
)


def total(
    pace: ProviderRate | None, terms: ProviderLimit, start: datetime, seconds: float, *, urgent: bool = False
) -> int:
    """What one gets who asks for everything, twenty times a second."""
    granted = 0
    for tick in range(int(seconds * 20) + 1):
        pace, some = draw(pace, terms, start + SECOND * tick / 20, LOTS, urgent=urgent)
        granted += some
    return granted


def granted(steps: Sequence[Step], terms: ProviderLimit) -> list[tuple[datetime, int]]:
    pace, now, found = FULL, NOON, list[tuple[datetime, int]]()
    for seconds, wanted, urgent, ease, refused, slow in steps:
        now += timedelta(seconds=seconds)
        pace, some = draw(pace, terms, now, wanted, urgent=urgent, slowdown_factor=ease)
        assert 0 <= some <= wanted
        found.append((pace.bucket.at, some))
        pace = report_results(pace, terms, now, refused=refused, slow=slow)
        assert MIN_SHARE <= pace.share <= 1
    return found


@given(STEPS)
def test_no_minute_has_more_than_the_provider_takes(steps: list[Step]) -> None:
    found = granted(steps, SMALL)
    for at, _ in found:
        assert sum(some for when, some in found if at <= when <= at + MINUTE) <= SMALL.per_minute


@given(STEPS)
def test_no_time_has_more_than_it_brings_and_what_a_second_saved_up(steps: list[Step]) -> None:
    found = granted(steps, SMALL)
    for first, (at, _) in enumerate(found):
        for last, (until, _) in enumerate(found[first:], first):
            some = sum(some for _, some in found[first : last + 1])
            assert some <= SMALL.per_second * (1 + (until - at) / SECOND) + 1 + 1e-6


@given(STEPS)
def test_time_never_goes_backwards(steps: list[Step]) -> None:
    moments = [at for at, _ in granted(steps, SMALL)]
    assert all(one <= other for one, other in pairwise(moments))


def test_a_thousand_are_out_within_two_seconds_of_its_beginning() -> None:
    assert 1_000 <= total(None, GOOGLE, NOON, 2, urgent=True) < 2_000
    idle = ProviderRate(bucket=TokenBucket(tokens=0.0, at=NOON - 6 * MINUTE), since=NOON - 20 * MINUTE)
    assert 1_000 <= total(idle, GOOGLE, NOON, 2, urgent=True) < 2_000


def test_it_rises_for_a_minute_and_then_gives_all() -> None:
    assert total(None, GOOGLE, NOON, 30) < 0.3 * 30 * GOOGLE.per_second
    assert total(None, GOOGLE, NOON, 60) < 0.55 * GOOGLE.per_minute
    risen, last = draw(None, GOOGLE, NOON, 0, urgent=False)
    for second in range(120):
        risen, last = draw(risen, GOOGLE, NOON + second * SECOND, LOTS, urgent=True)
    assert last == int(GOOGLE.per_second)


def test_a_pause_of_four_minutes_begins_nothing_anew_and_one_of_six_does() -> None:
    _, after_four = draw(FULL, SMALL, NOON + 4 * MINUTE, LOTS, urgent=True)
    _, after_six = draw(FULL, SMALL, NOON + 6 * MINUTE, LOTS, urgent=True)
    assert (after_four, after_six) == (10, 1)


def test_under_a_flood_the_urgent_find_a_quarter_of_a_second_and_all_that_comes() -> None:
    pace: ProviderRate | None = None
    for tick in range(2_400):
        pace, _ = draw(pace, GOOGLE, NOON + SECOND * tick / 20, LOTS, urgent=False)
    now = NOON + 120 * SECOND
    pace, at_once = draw(pace, GOOGLE, now, LOTS, urgent=True)
    assert at_once >= 0.25 * GOOGLE.per_second
    others = urgent = 0
    for tick in range(1, 21):
        pace, some = draw(pace, GOOGLE, now + SECOND * tick / 20, LOTS, urgent=False)
        others += some
        pace, some = draw(pace, GOOGLE, now + SECOND * tick / 20, LOTS, urgent=True)
        urgent += some
    assert others == 0
    assert urgent == pytest.approx(GOOGLE.per_second, rel=0.01)


@pytest.mark.parametrize(("urgent", "share"), [(False, 0.05), (True, 0.5)])
def test_ease_slows_the_urgent_less(urgent: bool, share: float) -> None:
    pace, granted = FULL, 0
    for tick in range(20 * 60):
        pace, some = draw(pace, SMALL, NOON + SECOND * tick / 20, LOTS, urgent=urgent, slowdown_factor=0.05)
        granted += some
    assert granted == pytest.approx(600 * share, abs=10 * share + 1)


def test_with_an_ease_of_nothing_nobody_but_the_urgent_goes() -> None:
    assert draw(FULL, SMALL, NOON, 5, urgent=False, slowdown_factor=0.0)[1] == 0
    assert draw(FULL, SMALL, NOON, 5, urgent=True, slowdown_factor=0.0)[1] == 5


def test_a_refusal_halves_it_at_most_once_a_second() -> None:
    pace = FULL
    for _ in range(5):
        pace = report_results(pace, SMALL, NOON, refused=100, slow=True)
    assert (pace.share, pace.bucket.tokens) == (0.5, 5.0)
    assert report_results(pace, SMALL, NOON + SECOND, refused=1, slow=False).share == pytest.approx(0.275)


def test_slowness_takes_a_fifth_and_all_else_nothing() -> None:
    assert report_results(FULL, SMALL, NOON, refused=0, slow=True).share == 0.8
    assert report_results(FULL, SMALL, NOON, refused=0, slow=False) == FULL


def test_it_comes_back_by_a_twentieth_a_second() -> None:
    pace = report_results(FULL, SMALL, NOON, refused=1, slow=False)
    shares = [draw(pace, SMALL, NOON + second * SECOND, 0, urgent=False)[0].share for second in (0, 1, 5, 10, 60)]
    assert shares == pytest.approx([0.5, 0.55, 0.75, 1, 1])


def test_however_much_is_refused_some_may_always_try() -> None:
    pace, now = FULL, NOON
    for _ in range(200):
        now += 1.1 * SECOND
        pace = report_results(pace, SMALL, now, refused=1, slow=True)
    assert total(pace, SMALL, now, 30) > 10


def test_a_clock_that_is_a_little_behind_brings_nothing_and_takes_nothing() -> None:
    empty, _ = draw(FULL, SMALL, NOON, LOTS, urgent=True)
    behind, some = draw(empty, SMALL, NOON - 3 * SECOND, LOTS, urgent=True)
    assert (behind, some) == (empty, 0)
    assert draw(behind, SMALL, NOON + SECOND, LOTS, urgent=True)[1] == 10


def test_clocks_that_are_hours_apart_never_let_more_go_and_never_stop_it() -> None:
    pace, here = FULL, 0
    for tick in range(20 * 30):
        for ahead in (timedelta(), 2 * 60 * MINUTE):
            for _ in range(2):
                pace, some = draw(pace, SMALL, NOON + ahead + SECOND * tick / 20, 1, urgent=True)
                here += some
    assert here <= 2 * 30 * SMALL.per_second + 10
    assert total(pace, SMALL, NOON + 40 * SECOND, 60) > 100


def test_the_slowest_pace_that_can_be_set_sends_something_also_alone() -> None:
    for terms in (
        ProviderLimit(per_minute=MIN_PER_MINUTE),
        ProviderLimit(per_minute=MIN_PER_MINUTE).shared(LOCAL_DIVISOR),
    ):
        assert 0 < total(None, terms, NOON, 600) <= 10 * terms.per_minute
