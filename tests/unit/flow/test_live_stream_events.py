"""Events of a live stream: row or growth, remembered bursts, the queue, and its limit."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Member
from notifier.domain.users.account_preferences import AccountPreferences
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.visibility import Mark, Marks, Viewer
from notifier.flow.inbox.page import Badge, BurstItem, InboxView
from notifier.flow.live.streams_and_events import (
    MAX_QUEUED_BURSTS,
    RecentBurstBuffer,
    Stream,
    StreamEvent,
    event_for,
    visibility_fingerprint,
)
from tests.contracts.pull_index_backends import NOON, NOVA, burst
from tests.support.domain_examples import ADA, BOB

SINCE = NOON
LATER = burst(1)
VIEWER = Viewer(user=BOB, follows={NOVA: NOON - timedelta(days=1)}, blocked=(), volume={}, marks=Marks())


def view(viewer: Viewer = VIEWER) -> InboxView:
    return InboxView(viewer=viewer, member=Member(1), now=NOON + timedelta(hours=1))


def stream(at: datetime = NOON) -> Stream:
    return Stream(since=at, ends_at=0.0, written_at=at)


def grown(original: Burst) -> Burst:
    return replace(
        original, version=original.version + 1, count=original.count + 1, mentioners=(*original.mentioners, ADA)
    )


def test_burst_opened_since_is_a_row_and_older_one_only_grows() -> None:
    assert event_for(LATER, None, view(), SINCE) is StreamEvent.ROW
    assert event_for(LATER, None, view(), LATER.opened_at) is StreamEvent.GROUP
    assert event_for(grown(LATER), LATER, view(), SINCE) is StreamEvent.GROUP


def test_burst_that_becomes_visible_by_growth_is_a_row() -> None:
    blocking = replace(VIEWER, blocked=LATER.mentioners)
    assert event_for(LATER, None, view(blocking), SINCE) is None
    assert event_for(grown(LATER), LATER, view(blocking), SINCE) is StreamEvent.ROW


def retracted(original: Burst) -> Burst:
    return replace(original, version=original.version + 1, count=0, silent=True)


def test_retracted_burst_is_hidden_from_possible_viewers() -> None:
    assert event_for(retracted(LATER), LATER, view(), SINCE) is StreamEvent.HIDDEN
    assert event_for(retracted(LATER), None, view(), SINCE) is StreamEvent.HIDDEN
    restricted = replace(LATER, version=2, silent=True, restricted_to=ADA)
    assert event_for(restricted, LATER, view(), SINCE) is StreamEvent.HIDDEN
    assert event_for(restricted, None, view(), SINCE) is StreamEvent.HIDDEN


def test_burst_left_with_blocked_mentioners_is_hidden_when_unknown() -> None:
    """Retracted mentioners are no longer named, so a reconnecting viewer may still show the old row."""
    blocking = view(replace(VIEWER, blocked=[ADA]))
    remaining = replace(LATER, version=3, silent=True, mentioners=(ADA,))
    assert event_for(remaining, grown(LATER), blocking, SINCE) is StreamEvent.HIDDEN
    assert event_for(remaining, None, blocking, SINCE) is StreamEvent.HIDDEN
    assert event_for(replace(remaining, silent=False), None, blocking, SINCE) is None
    assert event_for(replace(remaining, restricted_to=ADA), None, blocking, SINCE) is None


def test_retraction_is_not_sent_to_viewer_who_never_saw_the_burst() -> None:
    private = replace(LATER, restricted_to=ADA)
    assert event_for(retracted(private), private, view(), SINCE) is None
    assert event_for(retracted(private), None, view(), SINCE) is None
    assert event_for(retracted(LATER), None, view(replace(VIEWER, follows={})), SINCE) is None


def test_row_retracted_while_waiting_is_sent_as_hidden_only() -> None:
    waiting = stream()
    waiting.put(StreamEvent.ROW, LATER)
    waiting.put(StreamEvent.HIDDEN, retracted(LATER))
    assert [(update.event, update.item, update.hidden_burst) for update in waiting.take(view(), None)] == [
        (StreamEvent.HIDDEN, None, LATER.key)
    ]


@pytest.mark.parametrize(
    "viewer",
    [
        replace(VIEWER, follows={}),
        replace(VIEWER, follows={NOVA: NOON + timedelta(days=1)}),
        replace(VIEWER, volume={NOVA: Volume.OFF}),
        replace(VIEWER, marks=Marks(by_burst={LATER.key: Mark.HIDDEN})),
    ],
)
def test_invisible_burst_is_not_sent(viewer: Viewer) -> None:
    assert event_for(LATER, None, view(viewer), SINCE) is None


def test_fingerprint_changes_with_visibility_but_not_with_marks() -> None:
    changed = [
        replace(VIEWER, follows={NOVA: NOON}),
        replace(VIEWER, follows={}),
        replace(VIEWER, blocked=[ADA]),
        replace(VIEWER, follows={NOVA: NEVER}),
        replace(VIEWER, volume={NOVA: Volume.FIRST}),
        replace(VIEWER, account_preferences=AccountPreferences(volume=Volume.FIRST)),
    ]
    assert len({visibility_fingerprint(viewer) for viewer in (VIEWER, *changed)}) == 7
    assert visibility_fingerprint(
        replace(VIEWER, account_preferences=AccountPreferences(push=False))
    ) == visibility_fingerprint(VIEWER)  # the list is the same
    assert visibility_fingerprint(replace(VIEWER, marks=Marks(seen_at=NOON))) == visibility_fingerprint(VIEWER)
    assert visibility_fingerprint(replace(VIEWER, blocked={ADA, BOB})) == visibility_fingerprint(
        replace(VIEWER, blocked=[BOB, ADA])
    )


def test_buffer_evicts_least_recent_burst_and_reports_completeness() -> None:
    buffer = RecentBurstBuffer(max_bursts=2, complete_since=NOON)
    first, second, third = burst(1), burst(2), burst(3)
    for number, update in enumerate((first, second, grown(first), third), start=1):
        buffer.put(update, NOON + timedelta(seconds=number))
    assert [kept.key.seq for kept in buffer.received_since(NOON)] == [3, 1]
    assert buffer.get(second.key) is None
    assert buffer.complete_since is not None
    assert NOON + timedelta(seconds=2) < buffer.complete_since < NOON + timedelta(seconds=3)
    assert list(buffer.received_since(NOON + timedelta(seconds=3))) == [third, grown(first)]


def test_burst_waits_once_with_its_latest_text_and_stays_a_row() -> None:
    waiting = stream()
    waiting.put(StreamEvent.ROW, LATER)
    waiting.put(StreamEvent.GROUP, grown(LATER))
    [update] = waiting.take(view(), None)
    assert isinstance(update.item, BurstItem)
    assert (update.event, update.item.burst.count) == (StreamEvent.ROW, 2)
    assert waiting.take(view(), None) == []


def test_burst_hidden_while_waiting_is_not_sent() -> None:
    waiting = stream()
    waiting.put(StreamEvent.ROW, LATER)
    assert waiting.take(view(replace(VIEWER, marks=Marks(by_burst={LATER.key: Mark.HIDDEN}))), None) == []


def test_reset_drops_waiting_events_and_repeats_the_badge() -> None:
    waiting, badge = stream(), Badge(count=1, more=False)
    assert [update.event for update in waiting.take(view(), badge)] == [StreamEvent.COUNT]
    waiting.put(StreamEvent.ROW, LATER)
    waiting.reset()
    assert [update.event for update in waiting.take(view(), badge)] == [StreamEvent.RESET, StreamEvent.COUNT]
    assert waiting.take(view(), badge) == []


def test_stream_that_is_too_far_behind_is_cut_off() -> None:
    slow, aborted = stream(), list[bool]()
    slow.abort = lambda: aborted.append(True)
    for seq in range(1, MAX_QUEUED_BURSTS + 1):
        slow.put(StreamEvent.ROW, burst(seq))
    assert not slow.is_cut_off
    slow.put(StreamEvent.ROW, burst(MAX_QUEUED_BURSTS + 1))
    assert (slow.is_cut_off, aborted) == (True, [True])
