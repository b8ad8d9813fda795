"""Frequency caps: alerts per user, hour and day, in any order and with skewed clocks."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from notifier.codec.devices_send_log_suppressions import pack_history, unpack_history
from notifier.domain.ids import BurstKey, Subject
from notifier.domain.push.frequency_cap import (
    CLOCK_TOLERANCE,
    DAY,
    HOUR,
    MIN_REMEMBERED_ALERTS,
    AlertCause,
    AlertHistory,
    CapLimits,
    Ruling,
    ruling_on,
    with_alert,
)
from tests.support.domain_examples import MINUTE, NOON

LUNA = Subject.parse("mention:luna")
NOVA = Subject.parse("mention:nova")


def cause(number: int, tweet: str = "", *, subject: Subject = NOVA) -> AlertCause:
    return AlertCause.of(BurstKey(subject, number), tweet or f"t{number}")


def alerted(*moments: datetime, caps: CapLimits | None = None) -> AlertHistory:
    history: AlertHistory = ()
    for number, at in enumerate(moments):
        history = with_alert(history, cause(number), at, caps or CapLimits())
    return history


def test_first_alert_is_new_and_same_burst_is_a_repeat() -> None:
    assert ruling_on((), cause(1), NOON, CapLimits()) is Ruling.NEW
    history = with_alert((), cause(1), NOON, CapLimits())
    assert ruling_on(history, cause(1), NOON + MINUTE, CapLimits()) is Ruling.AGAIN
    assert ruling_on(history, cause(2), NOON + MINUTE, CapLimits()) is Ruling.NEW


def test_tweet_about_two_accounts_alerts_once() -> None:
    history = with_alert((), cause(1, "t"), NOON, CapLimits())
    assert ruling_on(history, cause(1, "t", subject=LUNA), NOON, CapLimits()) is Ruling.SAME_TWEET
    assert ruling_on(history, cause(1, "u", subject=LUNA), NOON, CapLimits()) is Ruling.NEW


def test_hourly_cap_is_five_in_a_sliding_hour() -> None:
    history = alerted(*(NOON + 10 * minutes * MINUTE for minutes in range(5)))
    assert ruling_on(history, cause(9), NOON + 59 * MINUTE, CapLimits()) is Ruling.HOURLY
    assert ruling_on(history, cause(9), NOON + HOUR, CapLimits()) is Ruling.NEW
    assert ruling_on(history, cause(0), NOON + 59 * MINUTE, CapLimits()) is Ruling.AGAIN


def test_daily_cap_is_twenty_in_a_sliding_day() -> None:
    history = alerted(*(NOON + hours * HOUR for hours in range(20)))
    assert ruling_on(history, cause(99), NOON + 23 * HOUR, CapLimits()) is Ruling.DAILY
    assert ruling_on(history, cause(99), NOON + DAY, CapLimits()) is Ruling.NEW


def test_zero_disables_caps_and_history_stays_small() -> None:
    caps = CapLimits(hourly=0, daily=0)
    history = alerted(*(NOON + number * timedelta(seconds=1) for number in range(500)), caps=caps)
    assert ruling_on(history, cause(999), NOON + 10 * MINUTE, caps) is Ruling.NEW
    assert ruling_on(history, cause(499), NOON + 10 * MINUTE, caps) is Ruling.AGAIN
    assert len(history) == MIN_REMEMBERED_ALERTS


def test_alert_dated_slightly_ahead_counts_but_far_ahead_does_not() -> None:
    caps = CapLimits(hourly=1)
    assert ruling_on(alerted(NOON + MINUTE), cause(9), NOON, caps) is Ruling.HOURLY
    far = alerted(NOON + 2 * HOUR)
    assert ruling_on(far, cause(9), NOON, caps) is Ruling.NEW
    assert [alerted_before.at for alerted_before in with_alert(far, cause(9), NOON, caps)] == [NOON]


SMALL = CapLimits(hourly=2, daily=4)


@given(st.lists(st.tuples(st.integers(-20, 90), st.integers(0, 30), st.integers(0, 12)), max_size=80))
def test_caps_hold_and_repeats_are_not_counted_again(steps: list[tuple[int, int, int]]) -> None:
    history: AlertHistory = ()
    latest, sent = NOON, list[tuple[datetime, AlertCause]]()
    for minutes, number, tweet in steps:
        # Some clocks lag behind, by less than the allowed skew.
        latest += max(0, minutes) * MINUTE
        now = latest + min(0, minutes) * MINUTE
        alert_cause = cause(number, f"t{tweet}")
        if ruling_on(history, alert_cause, now, SMALL) is Ruling.NEW:
            history = unpack_history(pack_history(with_alert(history, alert_cause, now, SMALL)))
            sent.append((now, alert_cause))
            assert ruling_on(history, alert_cause, now, SMALL) is Ruling.AGAIN
    for at, alert_cause in sent:
        of_the_day = [alert for sent_at, alert in sent if at <= sent_at < at + DAY]
        assert len(of_the_day) <= SMALL.daily
        assert sum(at <= sent_at < at + HOUR for sent_at, _ in sent) <= SMALL.hourly
        assert sum(alert.burst == alert_cause.burst for alert in of_the_day) == 1
        assert sum(alert.tweet == alert_cause.tweet for alert in of_the_day) == 1
    assert len(history) <= SMALL.daily * 2
    assert 20 * MINUTE < CLOCK_TOLERANCE
