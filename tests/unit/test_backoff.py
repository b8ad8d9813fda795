"""Waiting grows, is never the same for all, and ends somewhere."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.timing import FIRST, LONGEST, backoff

ATTEMPTS = st.integers(0, 10_000)
CHANCES = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(("attempt", "least"), [(0, 10), (1, 20), (2, 40), (3, 80)])
def test_each_wait_begins_where_the_last_one_ended_at_most(attempt: int, least: int) -> None:
    assert backoff(attempt, 0.0) == timedelta(seconds=least)
    assert backoff(attempt, 0.5) == timedelta(seconds=1.5 * least)


@given(ATTEMPTS, CHANCES)
def test_nobody_comes_back_at_once_and_nobody_waits_for_longer_than_it_is_worth(attempt: int, chance: float) -> None:
    assert FIRST <= backoff(attempt, chance) <= LONGEST


@given(ATTEMPTS, CHANCES, CHANCES)
def test_whoever_failed_more_often_waits_no_less(attempt: int, chance: float, other: float) -> None:
    assert backoff(attempt, chance) <= backoff(attempt + 1, chance)
    assert (backoff(attempt, chance) < backoff(attempt, other)) <= (chance < other)


def test_an_attempt_that_is_none_counts_as_the_first() -> None:
    assert backoff(-1, 0.0) == FIRST
