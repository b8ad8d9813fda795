"""Caps: how often one phone may ring, whatever comes in whatever order, and by whichever clock."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from notifier.codec.push import pack_history, unpack_history
from notifier.domain.ids import BurstKey, Subject
from notifier.domain.push.frequency_cap import (
    CLOCK_TOLERANCE,
    DAY,
    HOUR,
    MIN_REMEMBERED_ALERTS,
    AlertHistory,
    CapLimits,
    CountedAlert,
    Ruling,
    ruling_on,
    with_alert,
)
from tests.support.examples import MINUTE, NOON

LUNA = Subject.parse("mention:luna")
NOVA = Subject.parse("mention:nova")


def cause(number: int, tweet: str = "", *, subject: Subject = NOVA) -> CountedAlert:
    return CountedAlert.of(BurstKey(subject, number), tweet or f"t{number}")


def alerted(*moments: datetime, caps: CapLimits | None = None) -> AlertHistory:
    history: AlertHistory = ()
    for number, at in enumerate(moments):
        history = with_alert(history, cause(number), at, caps or CapLimits())
    return history


def test_the_first_alert_is_new_and_the_same_burst_is_there_again() -> None:
    assert ruling_on((), cause(1), NOON, CapLimits()) is Ruling.NEW
    history = with_alert((), cause(1), NOON, CapLimits())
    assert ruling_on(history, cause(1), NOON + MINUTE, CapLimits()) is Ruling.AGAIN
    assert ruling_on(history, cause(2), NOON + MINUTE, CapLimits()) is Ruling.NEW


def test_of_two_celebrities_in_one_tweet_a_person_is_alerted_once() -> None:
    history = with_alert((), cause(1, "t"), NOON, CapLimits())
    assert ruling_on(history, cause(1, "t", subject=LUNA), NOON, CapLimits()) is Ruling.SAME_TWEET
    assert ruling_on(history, cause(1, "u", subject=LUNA), NOON, CapLimits()) is Ruling.NEW


def test_five_an_hour_and_the_hour_slides() -> None:
    history = alerted(*(NOON + 10 * minutes * MINUTE for minutes in range(5)))
    assert ruling_on(history, cause(9), NOON + 59 * MINUTE, CapLimits()) is Ruling.HOURLY
    assert ruling_on(history, cause(9), NOON + HOUR, CapLimits()) is Ruling.NEW
    assert ruling_on(history, cause(0), NOON + 59 * MINUTE, CapLimits()) is Ruling.AGAIN


def test_twenty_a_day_and_the_day_slides() -> None:
    history = alerted(*(NOON + hours * HOUR for hours in range(20)))
    assert ruling_on(history, cause(99), NOON + 23 * HOUR, CapLimits()) is Ruling.DAILY
    assert ruling_on(history, cause(99), NOON + DAY, CapLimits()) is Ruling.NEW


def test_nothing_is_no_limit_and_what_is_remembered_stays_small() -> None:
    caps = CapLimits(hourly=0, daily=0)
    history = alerted(*(NOON + number * timedelta(seconds=1) for number in range(500)), caps=caps)
    assert ruling_on(history, cause(999), NOON + 10 * MINUTE, caps) is Ruling.NEW
    assert ruling_on(history, cause(499), NOON + 10 * MINUTE, caps) is Ruling.AGAIN
    assert len(history) == MIN_REMEMBERED_ALERTS


def test_what_another_clock_said_of_the_near_future_counts_and_of_the_far_one_does_not() -> None:
    caps = CapLimits(hourly=1)
    assert ruling_on(alerted(NOON + MINUTE), cause(9), NOON, caps) is Ruling.HOURLY
    far = alerted(NOON + 2 * HOUR)
    assert ruling_on(far, cause(9), NOON, caps) is Ruling.NEW
    assert [rung.at for rung in with_alert(far, cause(9), NOON, caps)] == [NOON]


SMALL = CapLimits(hourly=2, daily=4)


@given(st.lists(st.tuples(st.integers(-20, 90), st.integers(0, 30), st.integers(0, 12)), max_size=80))
def test_no_hour_and_no_day_has_more_and_said_again_it_is_not_counted_again(steps: list[tuple[int, int, int]]) -> None:
    history: AlertHistory = ()
    latest, rung = NOON, list[tuple[datetime, CountedAlert]]()
    for minutes, number, tweet in steps:
        # Some clocks are behind the others, by less than they may.
        latest += max(0, minutes) * MINUTE
        now = latest + min(0, minutes) * MINUTE
        why = cause(number, f"t{tweet}")
        if ruling_on(history, why, now, SMALL) is Ruling.NEW:
            history = unpack_history(pack_history(with_alert(history, why, now, SMALL)))
            rung.append((now, why))
            assert ruling_on(history, why, now, SMALL) is Ruling.AGAIN
    for at, why in rung:
        of_the_day = [other for when, other in rung if at <= when < at + DAY]
        assert len(of_the_day) <= SMALL.daily
        assert sum(at <= when < at + HOUR for when, _ in rung) <= SMALL.hourly
        assert sum(other.burst == why.burst for other in of_the_day) == 1
        assert sum(other.tweet == why.tweet for other in of_the_day) == 1
    assert len(history) <= SMALL.daily * 2
    assert 20 * MINUTE < CLOCK_TOLERANCE
