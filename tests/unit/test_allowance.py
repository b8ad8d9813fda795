"""Allowances: a bucket that fills up again, of which several may have taken the same."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.token_bucket import Allowance, Limit, seconds
from tests.support.fakes.clock import START

LIMIT = Limit(name="reads", most=10, window=timedelta(seconds=100))
FULL = Allowance.full(LIMIT, START)


def test_what_is_spent_comes_back_one_by_one() -> None:
    spent = FULL.spent().spent()
    assert (spent.left, spent.full_after, spent.again_after) == (8, timedelta(seconds=20), timedelta(0))
    assert spent.refilled(START + timedelta(seconds=10)).left == 9
    assert spent.refilled(START + timedelta(days=1)).left == 10


def test_who_is_below_nothing_waits_longer() -> None:
    owing = FULL.lowered(-3)
    assert (owing.affords, owing.left, owing.again_after) == (False, 0, timedelta(seconds=40))
    assert owing.refilled(START + timedelta(seconds=40)).affords


def test_a_clock_that_was_set_back_gives_nothing_and_takes_nothing() -> None:
    back = FULL.spent().refilled(START - timedelta(hours=1))
    assert back.left == 9
    assert back.refilled(START - timedelta(hours=1) + timedelta(seconds=10)).left == 10


def test_others_can_only_lower_it() -> None:
    assert FULL.spent().lowered(20).tokens == 9


@pytest.mark.parametrize(("span", "found"), [(0, 0), (0.001, 1), (1, 1), (1.2, 2)])
def test_a_wait_is_told_in_whole_seconds_and_never_too_short(span: float, found: int) -> None:
    assert seconds(timedelta(seconds=span)) == found


@given(st.lists(st.floats(0, 50), max_size=200))
def test_in_any_time_nobody_gets_more_than_a_bucket_and_what_came_in(gaps: list[float]) -> None:
    now, allowance, granted = START, FULL, 0
    for gap in gaps:
        now += timedelta(seconds=gap)
        allowance = allowance.refilled(now)
        if allowance.affords:
            allowance, granted = allowance.spent(), granted + 1
    assert granted <= LIMIT.most + (now - START) / LIMIT.refill + 1e-6
