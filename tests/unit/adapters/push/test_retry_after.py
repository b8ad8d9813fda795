"""Retry times from Retry-After headers and from random numbers."""

from datetime import timedelta

import pytest

from notifier.adapters.push.request_rounds_and_replies import retry_after_time, soon_with_jitter
from tests.support.domain_examples import NOON


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        ("600", 600),
        (" 7 ", 7),
        ("999999", 86_400),
        ("9" * 400, 86_400),
        ("Mon, 05 Jan 2026 12:10:00 GMT", 600),
        ("Mon, 05 Jan 2026 13:10:00 +0100", 600),
        ("Mon, 05 Jan 2026 12:10:00", 600),
        ("Mon, 05 Jan 2026 11:00:00 GMT", 0),
        ("Fri, 01 Jan 2027 12:00:00 GMT", 86_400),
    ],
)
def test_retry_after_is_seconds_or_a_date_within_a_day(header: str, seconds: int) -> None:
    assert retry_after_time({"retry-after": header}, NOON) == NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize("header", ["", "-1", "soon", "1.5", "٣", "1e3", "Mon, 99 Jan 2026 12:10:00 GMT", "\x00"])
def test_invalid_retry_after_is_ignored(header: str) -> None:
    assert retry_after_time({"retry-after": header}, NOON) is None
    assert retry_after_time({}, NOON) is None


def test_default_retry_is_ten_to_twenty_seconds() -> None:
    assert soon_with_jitter(NOON, 0.0) == NOON + timedelta(seconds=10)
    assert soon_with_jitter(NOON, 0.999) < NOON + timedelta(seconds=20)
