"""What is noted of a try: whose half hour it is, when it begins, and when it is over."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from notifier.domain.ids import Member
from notifier.domain.push.device import DeviceId
from notifier.domain.push.receipt import ConfigError, Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import (
    MAX_TRIES,
    RETRY_WINDOW,
    AlertOutcome,
    AttemptState,
    FailedAttempt,
    failure_of,
    in_doubt,
    is_retry_window_over,
    retry_or_give_up,
)
from tests.support.examples import HOUR, MINUTE, NOON, SECOND

NEW = AttemptState(device=DeviceId("d"), member=Member(7), first_at=NOON)
LATE = NOON + 3 * HOUR


def noted(tried: AttemptState, receipt: Receipt, now: datetime) -> FailedAttempt:
    found = failure_of(tried, receipt, now, 0.5)
    assert found is not None
    return found


def test_what_was_never_sent_is_never_over_however_long_it_waits() -> None:
    held = retry_or_give_up(NEW, AlertOutcome.HELD, LATE, "its provider is left alone")
    assert (held.outcome, held.at, held.state) == (AlertOutcome.HELD, LATE, NEW)
    assert not is_retry_window_over(NEW, NOON + 23 * HOUR)


def test_a_mistake_of_ours_costs_no_try_and_no_time() -> None:
    refused = noted(NEW, ConfigError(reason="key"), LATE)
    assert (refused.outcome, refused.state) == (AlertOutcome.RETRY, NEW)


PARTLY = ConfigError(reason="THIRD_PARTY_AUTH_ERROR", device_group="third-party")
"""Nobody is left alone for it, so each costs a try."""


@pytest.mark.parametrize("receipt", [RetryAt(at=NOON, reason="busy"), Unknown(reason="no answer"), PARTLY])
def test_half_an_hour_begins_with_the_first_try_that_came_to_nothing(receipt: Receipt) -> None:
    first = noted(NEW, receipt, LATE)
    assert (first.state.failures, first.state.first_at, first.outcome is AlertOutcome.GIVEN_UP) == (1, LATE, False)
    second = noted(first.state, receipt, LATE + 10 * MINUTE)
    assert (second.state.failures, second.state.first_at) == (2, LATE)
    assert noted(first.state, receipt, LATE + RETRY_WINDOW).outcome is AlertOutcome.GIVEN_UP
    assert not is_retry_window_over(first.state, LATE + RETRY_WINDOW)
    assert is_retry_window_over(first.state, LATE + RETRY_WINDOW + SECOND)


def test_what_a_crash_left_in_doubt_has_its_half_hour_from_when_it_is_found_and_no_other_has_it_anew() -> None:
    found = in_doubt(NEW, LATE)
    assert (found.outcome, found.at, found.state.first_at) == (AlertOutcome.UNKNOWN, LATE, LATE)
    again = in_doubt(replace(NEW, failures=1), LATE)
    assert again.state.first_at == NOON
    assert is_retry_window_over(again.state, LATE)
    assert in_doubt(replace(NEW, failures=MAX_TRIES - 1), NOON + timedelta(minutes=1)).outcome is AlertOutcome.GIVEN_UP
