"""Activity: how long a visit keeps a user in each active set."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.audience.activity import (
    ACTIVE_DAYS,
    ACTIVE_SET_KINDS,
    P2_DAYS_CHOICES,
    ActiveSetFreshness,
    active_set_freshness,
    earliest_expiry_hour,
    expiry_hour,
    hour_of,
    hours_to_read,
    may_have_expired,
)
from notifier.domain.audience.tiers_and_member_sets import SetKind

KEPT = timedelta(hours=8)
NOON = datetime(2026, 1, 5, 12, 30, tzinfo=UTC)
HOUR = hour_of(NOON)
DAY = 24
MINUTE = timedelta(minutes=1)

HOURS = st.integers(0, 1 << 20)
KINDS = st.sampled_from(ACTIVE_SET_KINDS)


@given(KINDS, HOURS, st.floats(0, 0.999), st.integers(0, 40 * DAY), st.floats(0, 0.999))
def test_visit_keeps_user_in_set_for_its_days_and_less_than_one_more(
    kind: SetKind, hour: int, minute: float, later: int, minute_later: float
) -> None:
    idle = max(0.0, later + minute_later - minute)
    inside = hour + later <= expiry_hour(kind, hour)
    if idle <= ACTIVE_DAYS[kind] * DAY:
        assert inside
    if idle >= ACTIVE_DAYS[kind] * DAY + (1 if kind is SetKind.ACTIVE_24H else DAY):
        assert not inside


@given(st.sampled_from(P2_DAYS_CHOICES), HOURS, st.integers(0, 40 * DAY))
def test_p2_reaches_as_far_as_configured(reach: int, hour: int, later: int) -> None:
    kind = SetKind.ACTIVE_30D
    inside = earliest_expiry_hour(kind, hour + later, reach) <= expiry_hour(kind, hour)
    if later < reach * DAY:
        assert inside
    if later >= (reach + 1) * DAY:
        assert not inside
    if reach == ACTIVE_DAYS[SetKind.ACTIVE_7D]:
        assert inside == (hour + later <= expiry_hour(SetKind.ACTIVE_7D, hour))


@given(KINDS, HOURS, HOURS, st.integers(0, 60 * DAY))
def test_membership_changes_only_if_members_may_have_expired(kind: SetKind, visit: int, last: int, hours: int) -> None:
    before, after = last <= expiry_hour(kind, visit), last + hours <= expiry_hour(kind, visit)
    assert before == after or may_have_expired(kind, last, last + hours)


def test_any_set_may_have_expired_in_the_first_round() -> None:
    assert all(may_have_expired(kind, None, HOUR) for kind in ACTIVE_SET_KINDS)


def test_round_reads_current_hour_and_briefly_the_previous_one() -> None:
    assert hours_to_read(NOON, HOUR, KEPT) == range(HOUR, HOUR + 1)
    assert hours_to_read(NOON - 26 * MINUTE, HOUR, KEPT) == range(HOUR - 1, HOUR + 1)


def test_first_round_and_round_after_outage_read_all_kept_hours() -> None:
    assert hours_to_read(NOON, None, KEPT) == hours_to_read(NOON, HOUR - 40, KEPT) == range(HOUR - 8, HOUR + 1)
    assert hours_to_read(NOON, HOUR - 3, KEPT) == range(HOUR - 3, HOUR + 1)


@given(st.integers(0, 1_000_000), st.integers(0, 1_000_000))
def test_round_has_an_hour_to_read_after_any_clock_change(last: int, hour: int) -> None:
    now = datetime(1970, 1, 2, tzinfo=UTC) + timedelta(hours=hour)
    assert hour_of(now) in hours_to_read(now, last, KEPT)
    assert min(hours_to_read(now, last, KEPT)) >= 0


@pytest.mark.parametrize(
    ("last", "every", "expected"),
    [
        (NOON - 3 * MINUTE, MINUTE, ActiveSetFreshness.CURRENT),
        (NOON + 60 * MINUTE, MINUTE, ActiveSetFreshness.CURRENT),
        (NOON - 4 * MINUTE, MINUTE, ActiveSetFreshness.OUTDATED),
        (None, MINUTE, ActiveSetFreshness.OUTDATED),
        (None, timedelta(0), ActiveSetFreshness.OFF),
    ],
)
def test_published_sets_become_a_snapshot_after_three_missed_rounds(
    last: datetime | None, every: timedelta, expected: ActiveSetFreshness
) -> None:
    assert active_set_freshness(last, NOON, every) is expected
