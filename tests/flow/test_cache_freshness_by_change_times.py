"""Times of last changes by subject, in bounded memory: evicted changes prove nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.visibility import MAX_CLOCK_SKEW
from notifier.flow.inbox import newest_bursts_and_change_times as change_times
from notifier.flow.inbox.newest_bursts_and_change_times import MAX_FEED_DELAY, ONE_MILLISECOND, ChangeTimes

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
MARGIN = MAX_CLOCK_SKEW + MAX_FEED_DELAY
NOVA, LYRA, ORION = (Subject(Kind.MENTION, UserId(name)) for name in ("nova", "lyra", "orion"))


@pytest.fixture
def times() -> ChangeTimes:
    """Followed since noon; nova changed a minute later, at revision 3."""
    change_times_ = ChangeTimes()
    change_times_.begin(1, NOON)
    change_times_.record_change(NOVA, 3, NOON + timedelta(minutes=1))
    return change_times_


def test_page_is_proved_once_the_change_is_older_than_the_clock_skew(times: ChangeTimes) -> None:
    changed = NOON + timedelta(minutes=1)
    assert not times.are_unchanged_since([NOVA], changed + MARGIN)
    assert times.are_unchanged_since([NOVA], changed + MARGIN + ONE_MILLISECOND)
    assert times.are_unchanged_since([LYRA], changed)


def test_page_from_before_the_feed_was_followed_is_not_proved(times: ChangeTimes) -> None:
    assert not times.are_unchanged_since([LYRA], NOON + MARGIN)
    assert times.are_unchanged_since([LYRA], NOON + MARGIN + ONE_MILLISECOND)
    assert not ChangeTimes().are_unchanged_since([LYRA], NOON)


def test_revision_of_the_latest_change_is_compared(times: ChangeTimes) -> None:
    assert not times.are_unchanged_since_revision([NOVA, LYRA], 2)
    assert times.are_unchanged_since_revision([NOVA, LYRA], 3)


def test_evicted_change_proves_nothing_from_before(times: ChangeTimes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_times, "MAX_SUBJECTS", 1)
    evicted, later = NOON + timedelta(minutes=1), NOON + timedelta(minutes=2)
    times.record_change(ORION, 4, later)
    assert not times.are_unchanged_since([NOVA], evicted + MARGIN)
    assert times.are_unchanged_since([NOVA], evicted + MARGIN + ONE_MILLISECOND)
    assert not times.are_unchanged_since_revision([NOVA], 2)
    assert times.are_unchanged_since_revision([NOVA], 3)


def test_restarted_feed_forgets_everything(times: ChangeTimes) -> None:
    times.begin(9, NOON + timedelta(minutes=3))
    assert not times.are_unchanged_since([LYRA], NOON + timedelta(minutes=3))
    assert not times.are_unchanged_since_revision([LYRA], 8)
    assert times.are_unchanged_since_revision([LYRA], 9)
    assert times.are_unchanged_since_revision([], 0)
