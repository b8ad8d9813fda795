"""Circuit breaker: when it opens, how it probes after a rest, and how it closes."""

from datetime import datetime, timedelta

import pytest

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
    OpenCircuit,
    Succeeded,
    allow,
    open_circuit,
    record,
    remaining_calls,
    retry_at,
)
from tests.support.domain_examples import MINUTE, NOON, SECOND

SETTINGS = BreakerSettings()
GOOD, BAD, OURS = Succeeded(), Failed(reason="503"), Misconfigured(reason="the key is gone")
RESTED = NOON + SETTINGS.open_for


def after(breaker: Breaker, *results: LineResult, now: datetime = NOON) -> Breaker:
    for result in results:
        breaker = record(breaker, SETTINGS, result, now)
    return breaker


def let_through(breaker: Breaker, attempts: int, now: datetime) -> tuple[Breaker, list[bool]]:
    answers = []
    for _ in range(attempts):
        breaker, allowed = allow(breaker, SETTINGS, now)
        answers.append(allowed)
    return breaker, answers


OPENED = after(CLOSED, *[BAD] * 5)


def test_breaker_opens_with_the_fifth_failure_in_a_row() -> None:
    assert after(CLOSED, *[BAD] * 4) == Closed(failures=4)
    assert after(CLOSED, *[BAD] * 5) == Open(since=NOON, reason="503")


def test_success_resets_the_count_of_failures() -> None:
    assert after(CLOSED, *[BAD] * 4, GOOD, *[BAD] * 4) == Closed(failures=4)


def test_misconfiguration_opens_the_breaker_at_once() -> None:
    assert after(CLOSED, OURS) == Open(since=NOON, reason="the key is gone")


def test_open_breaker_allows_no_attempt_until_its_retry_time() -> None:
    assert let_through(OPENED, 3, RESTED - SECOND) == (OPENED, [False] * 3)
    assert retry_at(OPENED, SETTINGS, NOON) == RESTED


def test_breaker_allows_three_attempts_after_a_rest() -> None:
    half, answers = let_through(OPENED, 4, RESTED)
    assert answers == [True, True, True, False]
    assert half == HalfOpen(since=RESTED, reason="503", trial_calls=3)
    assert retry_at(half, SETTINGS, RESTED) == RESTED + SETTINGS.open_for


def test_three_successes_close_the_breaker() -> None:
    half, _ = let_through(OPENED, 3, RESTED)
    assert isinstance(after(half, GOOD, GOOD), HalfOpen)
    assert after(half, GOOD, GOOD, GOOD) == CLOSED


def test_successes_do_not_allow_more_than_three_probes() -> None:
    half, _ = let_through(OPENED, 3, RESTED)
    assert let_through(after(half, GOOD, GOOD), 1, RESTED)[1] == [False]


def test_half_open_breaker_with_remaining_calls_allows_a_retry_now() -> None:
    half, _ = let_through(OPENED, 1, RESTED)
    assert retry_at(half, SETTINGS, RESTED) == retry_at(after(half, GOOD), SETTINGS, RESTED) == RESTED
    full, _ = let_through(after(half, GOOD), 2, RESTED)
    assert retry_at(full, SETTINGS, RESTED) == RESTED + SETTINGS.open_for


def test_two_successes_count_when_the_third_result_is_lost() -> None:
    half, _ = let_through(OPENED, 3, RESTED)
    later, answers = let_through(after(half, GOOD, GOOD), 2, RESTED + SETTINGS.open_for)
    assert answers == [True, False]
    assert after(later, GOOD) == CLOSED


@pytest.mark.parametrize("result", [BAD, OURS])
def test_failed_probe_opens_the_breaker_again(result: LineResult) -> None:
    half, _ = let_through(OPENED, 3, RESTED)
    reopened = after(half, GOOD, GOOD, result, now=RESTED + SECOND)
    assert reopened == Open(since=RESTED + SECOND, reason=result.reason)  # type: ignore[union-attr]  # both have one
    assert allow(reopened, SETTINGS, RESTED + SETTINGS.open_for) == (reopened, False)


def test_probes_without_result_block_no_longer_than_a_rest() -> None:
    half, _ = let_through(OPENED, 3, RESTED)
    assert allow(half, SETTINGS, RESTED + SETTINGS.open_for - SECOND) == (half, False)
    assert let_through(half, 4, RESTED + SETTINGS.open_for)[1] == [True, True, True, False]


@pytest.mark.parametrize("result", [GOOD, BAD, OURS])
def test_results_of_earlier_attempts_do_not_change_an_open_breaker(result: LineResult) -> None:
    assert record(OPENED, SETTINGS, result, NOON + 20 * SECOND) == OPENED


def test_clock_set_back_by_hours_does_not_block_attempts() -> None:
    long_before = NOON - timedelta(hours=5)
    assert allow(OPENED, SETTINGS, long_before) == (HalfOpen(since=long_before, reason="503"), True)
    assert retry_at(OPENED, SETTINGS, long_before) == long_before


@pytest.mark.parametrize(
    ("requested", "granted"),
    [(SECOND, SETTINGS.open_for), (5 * MINUTE, 5 * MINUTE), (timedelta(days=1), SETTINGS.max_open_for)],
)
def test_provider_may_ask_for_a_longer_rest_up_to_a_limit(requested: timedelta, granted: timedelta) -> None:
    """The longer rest applies once: after the next failure the usual rest applies."""
    opened = after(CLOSED, *[BAD] * 4, Failed(reason="429", until=NOON + requested))
    over = NOON + granted
    assert retry_at(opened, SETTINGS, over - SECOND) == over
    assert open_circuit(opened, SETTINGS, NOON) == OpenCircuit(until=over, reason="429")
    assert let_through(opened, 4, over - SECOND)[1] == [False] * 4
    half, through = let_through(opened, 4, over)
    assert through == [True] * 3 + [False]
    assert retry_at(after(half, BAD, now=over), SETTINGS, over) == over + SETTINGS.open_for


def test_closed_breaker_allows_every_attempt() -> None:
    assert let_through(Closed(failures=4), 100, NOON) == (Closed(failures=4), [True] * 100)
    assert retry_at(CLOSED, SETTINGS, NOON) == NOON


def test_remaining_calls_match_the_attempts_that_are_allowed() -> None:
    opened, (half, _) = OPENED, let_through(OPENED, 1, RESTED)
    one_succeeded, lost = after(half, GOOD, now=RESTED), let_through(OPENED, 3, RESTED)[0]
    for breaker, now in [(opened, NOON), (opened, RESTED), (half, RESTED), (one_succeeded, RESTED), (lost, RESTED)]:
        free = remaining_calls(breaker, SETTINGS, now)
        assert free == sum(let_through(breaker, 9, now)[1])
        assert (retry_at(breaker, SETTINGS, now) == now) == bool(free)
    assert remaining_calls(lost, SETTINGS, RESTED + SETTINGS.open_for) == sum(
        let_through(lost, 9, RESTED + SETTINGS.open_for)[1]
    )
    assert remaining_calls(CLOSED, SETTINGS, NOON) is None
