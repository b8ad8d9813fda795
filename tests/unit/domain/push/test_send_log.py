"""What is noted of a try: whose half hour it is, when it begins, and when it is over."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from notifier.domain.ids import Member
from notifier.domain.push.device import DeviceId
from notifier.domain.push.receipt import ConfigError, Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import (
    TRIES,
    WORTH,
    AlertOutcome,
    FailedAttempt,
    Try,
    in_doubt,
    is_over,
    later,
    missed,
)
from tests.support.examples import HOUR, MINUTE, NOON, SECOND

NEW = Try(device=DeviceId("d"), member=Member(7), first=NOON)
LATE = NOON + 3 * HOUR


def noted(tried: Try, receipt: Receipt, now: datetime) -> FailedAttempt:
    found = missed(tried, receipt, now, 0.5)
    assert found is not None
    return found


def test_what_was_never_sent_is_never_over_however_long_it_waits() -> None:
    held = later(NEW, AlertOutcome.HELD, LATE, "its provider is left alone")
    assert (held.fate, held.at, held.tried) == (AlertOutcome.HELD, LATE, NEW)
    assert not is_over(NEW, NOON + 23 * HOUR)


def test_a_mistake_of_ours_costs_no_try_and_no_time() -> None:
    refused = noted(NEW, ConfigError(reason="key"), LATE)
    assert (refused.fate, refused.tried) == (AlertOutcome.RETRY, NEW)


PARTLY = ConfigError(reason="THIRD_PARTY_AUTH_ERROR", part="third-party")
"""Nobody is left alone for it, so each costs a try."""


@pytest.mark.parametrize("receipt", [RetryAt(at=NOON, reason="busy"), Unknown(reason="no answer"), PARTLY])
def test_half_an_hour_begins_with_the_first_try_that_came_to_nothing(receipt: Receipt) -> None:
    first = noted(NEW, receipt, LATE)
    assert (first.tried.tries, first.tried.first, first.fate is AlertOutcome.GIVEN_UP) == (1, LATE, False)
    second = noted(first.tried, receipt, LATE + 10 * MINUTE)
    assert (second.tried.tries, second.tried.first) == (2, LATE)
    assert noted(first.tried, receipt, LATE + WORTH).fate is AlertOutcome.GIVEN_UP
    assert not is_over(first.tried, LATE + WORTH)
    assert is_over(first.tried, LATE + WORTH + SECOND)


def test_what_a_crash_left_in_doubt_has_its_half_hour_from_when_it_is_found_and_no_other_has_it_anew() -> None:
    found = in_doubt(NEW, LATE)
    assert (found.fate, found.at, found.tried.first) == (AlertOutcome.UNKNOWN, LATE, LATE)
    again = in_doubt(replace(NEW, tries=1), LATE)
    assert again.tried.first == NOON
    assert is_over(again.tried, LATE)
    assert in_doubt(replace(NEW, tries=TRIES - 1), NOON + timedelta(minutes=1)).fate is AlertOutcome.GIVEN_UP
