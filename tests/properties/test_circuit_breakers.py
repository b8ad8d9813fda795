"""Circuit breakers open only for a reason, and can always close again."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.push.circuit_breaker import (
    CLOSED,
    Breaker,
    BreakerSettings,
    Closed,
    Failed,
    HalfOpen,
    LineResult,
    Misconfigured,
    Open,
    Succeeded,
    allow,
    record,
    retry_at,
)
from tests.support.domain_examples import NOON, SECOND

SETTINGS = st.builds(
    BreakerSettings,
    failures_to_open=st.integers(1, 6),
    open_for=st.integers(1, 60).map(lambda s: s * SECOND),
    successes_to_close=st.integers(1, 5),
)
RESULTS: st.SearchStrategy[LineResult] = st.sampled_from(
    [Succeeded(), Failed(reason="503"), Misconfigured(reason="key")]
)
NO_RESULT = None
STEPS = st.lists(st.tuples(st.integers(-5, 40), st.just(NO_RESULT) | RESULTS), max_size=60)
"""Seconds that pass (may be negative), and the result that follows."""
Step = tuple[int, LineResult | None]


def run(steps: list[Step], breaker_settings: BreakerSettings) -> tuple[Breaker, datetime]:
    breaker: Breaker = CLOSED
    now = NOON
    for seconds, result in steps:
        now += timedelta(seconds=seconds)
        breaker = (
            allow(breaker, breaker_settings, now)[0]
            if result is None
            else record(breaker, breaker_settings, result, now)
        )
    return breaker, now


@given(SETTINGS, STEPS)
def test_breaker_opens_only_after_enough_failures_or_a_misconfiguration(
    breaker_settings: BreakerSettings, steps: list[Step]
) -> None:
    breaker, _ = run(steps, breaker_settings)
    failures_in_a_row = most_in_a_row = 0
    for _, result in steps:
        failures_in_a_row = (
            failures_in_a_row + 1
            if isinstance(result, Failed)
            else 0
            if isinstance(result, Succeeded)
            else failures_in_a_row
        )
        most_in_a_row = max(most_in_a_row, failures_in_a_row)
    is_misconfigured = any(isinstance(result, Misconfigured) for _, result in steps)
    assert isinstance(breaker, Closed) or most_in_a_row >= breaker_settings.failures_to_open or is_misconfigured


@given(SETTINGS, STEPS)
def test_breaker_allows_an_attempt_once_its_wait_is_over(breaker_settings: BreakerSettings, steps: list[Step]) -> None:
    breaker, now = run(steps, breaker_settings)
    # It allows one at once if the clock was set back to before it opened.
    assert (
        allow(breaker, breaker_settings, now)[1] or allow(breaker, breaker_settings, now + breaker_settings.open_for)[1]
    )


@given(SETTINGS, STEPS)
def test_consecutive_successes_close_the_breaker(breaker_settings: BreakerSettings, steps: list[Step]) -> None:
    breaker, _ = run(steps, breaker_settings)
    now = NOON + 60 * 40 * SECOND + breaker_settings.open_for  # later than every step
    for _ in range(breaker_settings.successes_to_close):
        breaker, allowed = allow(breaker, breaker_settings, now)
        assert allowed
        breaker = record(breaker, breaker_settings, Succeeded(), now)
    assert breaker == CLOSED


@given(SETTINGS, STEPS)
def test_misconfiguration_always_opens_the_breaker(breaker_settings: BreakerSettings, steps: list[Step]) -> None:
    breaker, now = run(steps, breaker_settings)
    assert isinstance(record(breaker, breaker_settings, Misconfigured(reason="key"), now), Open)


@given(SETTINGS, STEPS)
def test_half_open_breaker_allows_no_more_attempts_than_needed(
    breaker_settings: BreakerSettings, steps: list[Step]
) -> None:
    breaker, _ = run(steps, breaker_settings)
    if isinstance(breaker, HalfOpen):
        assert 0 <= breaker.successes < breaker_settings.successes_to_close
        assert 0 <= breaker.trial_calls <= breaker_settings.successes_to_close - breaker.successes


@given(SETTINGS, STEPS)
def test_attempt_is_allowed_at_retry_at(breaker_settings: BreakerSettings, steps: list[Step]) -> None:
    breaker, now = run(steps, breaker_settings)
    if not allow(breaker, breaker_settings, now)[1]:
        retry_time = retry_at(breaker, breaker_settings, now)
        assert now < retry_time <= now + breaker_settings.open_for
        assert allow(breaker, breaker_settings, retry_time)[1]
