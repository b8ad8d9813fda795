"""Send log: retry window of an attempt, when it opens and when it closes."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from notifier.domain.ids import Member
from notifier.domain.push.device import DeviceId
from notifier.domain.push.receipt import ConfigError, Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import (
    MAX_ALERT_ATTEMPTS,
    RETRY_WINDOW,
    AlertOutcome,
    AttemptState,
    FailedAttempt,
    failure_in_doubt,
    failure_of,
    is_retry_window_over,
    retry_or_give_up,
)
from tests.support.domain_examples import HOUR, MINUTE, NOON, SECOND

NEW = AttemptState(device=DeviceId("d"), member=Member(7), first_at=NOON)
LATE = NOON + 3 * HOUR


def recorded(tried: AttemptState, receipt: Receipt, now: datetime) -> FailedAttempt:
    failed = failure_of(tried, receipt, now, 0.5)
    assert failed is not None
    return failed


def test_attempt_never_sent_does_not_expire() -> None:
    deferred = retry_or_give_up(NEW, AlertOutcome.HELD, LATE, "its provider is left alone")
    assert (deferred.outcome, deferred.at, deferred.state) == (AlertOutcome.HELD, LATE, NEW)
    assert not is_retry_window_over(NEW, NOON + 23 * HOUR)


def test_misconfiguration_costs_no_try_and_no_time() -> None:
    refused = recorded(NEW, ConfigError(reason="key"), LATE)
    assert (refused.outcome, refused.state) == (AlertOutcome.RETRY, NEW)


PARTLY_MISCONFIGURED = ConfigError(reason="THIRD_PARTY_AUTH_ERROR", device_group="third-party")
"""It opens no circuit breaker, so each failure costs a try."""


@pytest.mark.parametrize(
    "receipt", [RetryAt(at=NOON, reason="busy"), Unknown(reason="no answer"), PARTLY_MISCONFIGURED]
)
def test_retry_window_opens_at_the_first_failed_try(receipt: Receipt) -> None:
    first = recorded(NEW, receipt, LATE)
    assert (first.state.failed_attempts, first.state.first_at, first.outcome is AlertOutcome.GIVEN_UP) == (
        1,
        LATE,
        False,
    )
    second = recorded(first.state, receipt, LATE + 10 * MINUTE)
    assert (second.state.failed_attempts, second.state.first_at) == (2, LATE)
    assert recorded(first.state, receipt, LATE + RETRY_WINDOW).outcome is AlertOutcome.GIVEN_UP
    assert not is_retry_window_over(first.state, LATE + RETRY_WINDOW)
    assert is_retry_window_over(first.state, LATE + RETRY_WINDOW + SECOND)


def test_retry_window_of_attempt_in_doubt_opens_once() -> None:
    doubtful = failure_in_doubt(NEW, LATE)
    assert (doubtful.outcome, doubtful.at, doubtful.state.first_at) == (AlertOutcome.UNKNOWN, LATE, LATE)
    retried = failure_in_doubt(replace(NEW, failed_attempts=1), LATE)
    assert retried.state.first_at == NOON
    assert is_retry_window_over(retried.state, LATE)
    assert (
        failure_in_doubt(replace(NEW, failed_attempts=MAX_ALERT_ATTEMPTS - 1), NOON + timedelta(minutes=1)).outcome
        is AlertOutcome.GIVEN_UP
    )
