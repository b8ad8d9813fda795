"""What a look at the tab is worth, hour by hour: never less than a set says, and hardly more."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.audience.activity import (
    ACTIVE_DAYS,
    ACTIVE_SET_KINDS,
    P2_REACH_DAYS,
    ActiveSetFreshness,
    active_set_freshness,
    earliest_expiry_hour,
    expiry_hour,
    hour_of,
    hours_to_read,
    may_have_expired,
)
from notifier.domain.audience.tiers import SetKind

KEPT = timedelta(hours=8)
NOON = datetime(2026, 1, 5, 12, 30, tzinfo=UTC)
HOUR = hour_of(NOON)
DAY = 24
MINUTE = timedelta(minutes=1)

HOURS = st.integers(0, 1 << 20)
KINDS = st.sampled_from(ACTIVE_SET_KINDS)


@given(KINDS, HOURS, st.floats(0, 0.999), st.integers(0, 40 * DAY), st.floats(0, 0.999))
def test_whoever_looked_is_in_a_set_for_as_long_as_it_says_and_less_than_a_day_more(
    kind: SetKind, hour: int, minute: float, later: int, minute_later: float
) -> None:
    idle = max(0.0, later + minute_later - minute)
    inside = hour + later <= expiry_hour(kind, hour)
    if idle <= ACTIVE_DAYS[kind] * DAY:
        assert inside
    if idle >= ACTIVE_DAYS[kind] * DAY + (1 if kind is SetKind.ACTIVE_24H else DAY):
        assert not inside


@given(st.sampled_from(P2_REACH_DAYS), HOURS, st.integers(0, 40 * DAY))
def test_p2_reaches_as_far_as_it_is_told(reach: int, hour: int, later: int) -> None:
    kind = SetKind.ACTIVE_30D
    inside = earliest_expiry_hour(kind, hour + later, reach) <= expiry_hour(kind, hour)
    if later < reach * DAY:
        assert inside
    if later >= (reach + 1) * DAY:
        assert not inside
    if reach == ACTIVE_DAYS[SetKind.ACTIVE_7D]:
        assert inside == (hour + later <= expiry_hour(SetKind.ACTIVE_7D, hour))


@given(KINDS, HOURS, HOURS, st.integers(0, 60 * DAY))
def test_nobody_leaves_a_set_unless_it_turned(kind: SetKind, looked: int, last: int, by: int) -> None:
    was, stays = last <= expiry_hour(kind, looked), last + by <= expiry_hour(kind, looked)
    assert was == stays or may_have_expired(kind, last, last + by)


def test_everything_turns_for_who_begins() -> None:
    assert all(may_have_expired(kind, None, HOUR) for kind in ACTIVE_SET_KINDS)


def test_a_round_reads_the_hour_and_for_a_while_the_one_before_it() -> None:
    assert hours_to_read(NOON, HOUR, KEPT) == range(HOUR, HOUR + 1)
    assert hours_to_read(NOON - 26 * MINUTE, HOUR, KEPT) == range(HOUR - 1, HOUR + 1)


def test_the_first_round_and_one_after_an_outage_read_what_is_kept() -> None:
    assert hours_to_read(NOON, None, KEPT) == hours_to_read(NOON, HOUR - 40, KEPT) == range(HOUR - 8, HOUR + 1)
    assert hours_to_read(NOON, HOUR - 3, KEPT) == range(HOUR - 3, HOUR + 1)


@given(st.integers(0, 1_000_000), st.integers(0, 1_000_000))
def test_wherever_a_clock_is_set_there_is_an_hour_to_read(last: int, hour: int) -> None:
    now = datetime(1970, 1, 2, tzinfo=UTC) + timedelta(hours=hour)
    assert hour_of(now) in hours_to_read(now, last, KEPT)
    assert min(hours_to_read(now, last, KEPT)) >= 0


@pytest.mark.parametrize(
    ("last", "every", "found"),
    [
        (NOON - 3 * MINUTE, MINUTE, ActiveSetFreshness.CURRENT),
        (NOON + 60 * MINUTE, MINUTE, ActiveSetFreshness.CURRENT),
        (NOON - 4 * MINUTE, MINUTE, ActiveSetFreshness.SNAPSHOT),
        (None, MINUTE, ActiveSetFreshness.SNAPSHOT),
        (None, timedelta(0), ActiveSetFreshness.HELD),
    ],
)
def test_what_is_published_is_a_snapshot_once_three_rounds_are_missed(
    last: datetime | None, every: timedelta, found: ActiveSetFreshness
) -> None:
    assert active_set_freshness(last, NOON, every) is found
