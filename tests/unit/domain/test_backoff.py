"""Exponential back-off: delays grow, differ between callers, and are limited."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.backoff_due_times_alert_ages import Backoff
from notifier.domain.push.send_log import RETRY_BACKOFF as PROVIDER_BACKOFF

FIRST, LONGEST = PROVIDER_BACKOFF.first, PROVIDER_BACKOFF.longest
PLAIN = Backoff(first=timedelta(milliseconds=100), longest=timedelta(seconds=2))
FAILURES = st.integers(0, 10_000)
RANDOM_NUMBERS = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(("failures", "step"), [(0, 10), (1, 20), (2, 40), (3, 80)])
def test_step_doubles_with_each_failure(failures: int, step: int) -> None:
    assert PROVIDER_BACKOFF.delay(failures, 0.0) == timedelta(seconds=step)
    assert PROVIDER_BACKOFF.delay(failures, 0.5) == timedelta(seconds=1.5 * step)


def test_delay_without_jitter_doubles_up_to_the_longest() -> None:
    seconds = [PLAIN.delay(failures).total_seconds() for failures in (0, 1, 2, 3, 4, 5, 50)]
    assert seconds == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert PLAIN.delay(3, 0.9) == PLAIN.delay(3)


@given(FAILURES, RANDOM_NUMBERS)
def test_delay_stays_within_its_limits(failures: int, random_number: float) -> None:
    assert FIRST <= PROVIDER_BACKOFF.delay(failures, random_number) <= LONGEST


@given(FAILURES, RANDOM_NUMBERS, RANDOM_NUMBERS)
def test_delay_grows_with_failures_and_random_number(
    failures: int, random_number: float, other_random_number: float
) -> None:
    delay = PROVIDER_BACKOFF.delay(failures, random_number)
    assert delay <= PROVIDER_BACKOFF.delay(failures + 1, random_number)
    assert (delay < PROVIDER_BACKOFF.delay(failures, other_random_number)) <= (random_number < other_random_number)


def test_negative_failures_count_as_none() -> None:
    assert PROVIDER_BACKOFF.delay(-1, 0.0) == FIRST
