"""A breaker opens when it should, lets a few through after a rest, and never stays open for good."""

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
from tests.support.examples import MINUTE, NOON, SECOND

TERMS = BreakerSettings()
GOOD, BAD, OURS = Succeeded(), Failed(reason="503"), Misconfigured(reason="the key is gone")
RESTED = NOON + TERMS.open_for


def after(breaker: Breaker, *what: LineResult, now: datetime = NOON) -> Breaker:
    for one in what:
        breaker = record(breaker, TERMS, one, now)
    return breaker


def let_through(breaker: Breaker, many: int, now: datetime) -> tuple[Breaker, list[bool]]:
    answers = []
    for _ in range(many):
        breaker, may = allow(breaker, TERMS, now)
        answers.append(may)
    return breaker, answers


OPENED = after(CLOSED, *[BAD] * 5)


def test_it_opens_with_the_fifth_failure_in_a_row_and_says_why() -> None:
    assert after(CLOSED, *[BAD] * 4) == Closed(failures=4)
    assert after(CLOSED, *[BAD] * 5) == Open(since=NOON, reason="503")


def test_a_success_between_failures_begins_the_count_anew() -> None:
    assert after(CLOSED, *[BAD] * 4, GOOD, *[BAD] * 4) == Closed(failures=4)


def test_one_mistake_of_ours_opens_it_at_once() -> None:
    assert after(CLOSED, OURS) == Open(since=NOON, reason="the key is gone")


def test_while_it_is_open_nobody_goes_through_and_everybody_knows_until_when() -> None:
    assert let_through(OPENED, 3, RESTED - SECOND) == (OPENED, [False] * 3)
    assert retry_at(OPENED, TERMS, NOON) == RESTED


def test_after_a_rest_three_go_through_and_the_fourth_waits_for_what_they_tell() -> None:
    half, answers = let_through(OPENED, 4, RESTED)
    assert answers == [True, True, True, False]
    assert half == HalfOpen(since=RESTED, reason="503", trial_calls=3)
    assert retry_at(half, TERMS, RESTED) == RESTED + TERMS.open_for


def test_three_successes_close_it() -> None:
    half, _ = let_through(OPENED, 3, RESTED)
    assert isinstance(after(half, GOOD, GOOD), HalfOpen)
    assert after(half, GOOD, GOOD, GOOD) == CLOSED


def test_who_has_succeeded_makes_no_room_for_more_than_it_takes() -> None:
    half, _ = let_through(OPENED, 3, RESTED)
    assert let_through(after(half, GOOD, GOOD), 1, RESTED)[1] == [False]


def test_where_there_is_room_for_one_more_who_asks_nobody_waits() -> None:
    half, _ = let_through(OPENED, 1, RESTED)
    assert retry_at(half, TERMS, RESTED) == retry_at(after(half, GOOD), TERMS, RESTED) == RESTED
    full, _ = let_through(after(half, GOOD), 2, RESTED)
    assert retry_at(full, TERMS, RESTED) == RESTED + TERMS.open_for


def test_of_three_who_try_two_successes_count_although_the_third_never_tells() -> None:
    half, _ = let_through(OPENED, 3, RESTED)
    later, answers = let_through(after(half, GOOD, GOOD), 2, RESTED + TERMS.open_for)
    assert answers == [True, False]
    assert after(later, GOOD) == CLOSED


@pytest.mark.parametrize("what", [BAD, OURS])
def test_a_single_failure_of_those_who_try_opens_it_for_another_rest(what: LineResult) -> None:
    half, _ = let_through(OPENED, 3, RESTED)
    again = after(half, GOOD, GOOD, what, now=RESTED + SECOND)
    assert again == Open(since=RESTED + SECOND, reason=what.reason)  # type: ignore[union-attr]  # both have one
    assert allow(again, TERMS, RESTED + TERMS.open_for) == (again, False)


def test_who_tries_and_never_tells_is_waited_for_no_longer_than_a_rest() -> None:
    half, _ = let_through(OPENED, 3, RESTED)
    assert allow(half, TERMS, RESTED + TERMS.open_for - SECOND) == (half, False)
    assert let_through(half, 4, RESTED + TERMS.open_for)[1] == [True, True, True, False]


@pytest.mark.parametrize("what", [GOOD, BAD, OURS])
def test_what_was_sent_before_it_opened_neither_closes_it_nor_puts_the_next_try_off(what: LineResult) -> None:
    assert record(OPENED, TERMS, what, NOON + 20 * SECOND) == OPENED


def test_a_clock_that_was_set_back_by_hours_keeps_nobody_out() -> None:
    long_before = NOON - timedelta(hours=5)
    assert allow(OPENED, TERMS, long_before) == (HalfOpen(since=long_before, reason="503"), True)
    assert retry_at(OPENED, TERMS, long_before) == long_before


@pytest.mark.parametrize(
    ("asked_for", "rest"), [(SECOND, TERMS.open_for), (5 * MINUTE, 5 * MINUTE), (timedelta(days=1), TERMS.max_open_for)]
)
def test_who_asks_for_a_longer_rest_has_it_within_reason(asked_for: timedelta, rest: timedelta) -> None:
    """For himself alone: the next one who only fails is left alone for the usual time."""
    opened = after(CLOSED, *[BAD] * 4, Failed(reason="429", until=NOON + asked_for))
    over = NOON + rest
    assert retry_at(opened, TERMS, over - SECOND) == over
    assert open_circuit(opened, TERMS, NOON) == OpenCircuit(until=over, reason="429")
    assert let_through(opened, 4, over - SECOND)[1] == [False] * 4
    half, through = let_through(opened, 4, over)
    assert through == [True] * 3 + [False]
    assert retry_at(after(half, BAD, now=over), TERMS, over) == over + TERMS.open_for


def test_closed_it_holds_up_nobody() -> None:
    assert let_through(Closed(failures=4), 100, NOON) == (Closed(failures=4), [True] * 100)
    assert retry_at(CLOSED, TERMS, NOON) == NOON


def test_as_many_as_it_says_are_let_through_and_nobody_is_put_off_while_one_more_may_be() -> None:
    opened, (half, _) = OPENED, let_through(OPENED, 1, RESTED)
    one_worked, lost = after(half, GOOD, now=RESTED), let_through(OPENED, 3, RESTED)[0]
    for breaker, now in [(opened, NOON), (opened, RESTED), (half, RESTED), (one_worked, RESTED), (lost, RESTED)]:
        many = remaining_calls(breaker, TERMS, now)
        assert many == sum(let_through(breaker, 9, now)[1])
        assert (retry_at(breaker, TERMS, now) == now) == bool(many)
    assert remaining_calls(lost, TERMS, RESTED + TERMS.open_for) == sum(
        let_through(lost, 9, RESTED + TERMS.open_for)[1]
    )
    assert remaining_calls(CLOSED, TERMS, NOON) is None
