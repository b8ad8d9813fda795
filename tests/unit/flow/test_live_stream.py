"""What a stream is told, purely: row or growth; what is remembered, what waits, and what is too much."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Member
from notifier.domain.users.account_preferences import AccountPreferences
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.visibility import Mark, Marks, Viewer
from notifier.flow.inbox.page import Badge, InboxView, Item
from notifier.flow.live.stream import (
    MAX_QUEUED,
    RecentBurstBuffer,
    Stream,
    StreamEvent,
    event_for,
    visibility_fingerprint,
)
from tests.contracts.pull_backends import NOON, NOVA, burst
from tests.support.examples import ADA, BOB

SINCE = NOON
LATER = burst(1)
VIEWER = Viewer(user=BOB, follows={NOVA: NOON - timedelta(days=1)}, blocked=(), volume={}, marks=Marks())


def look(viewer: Viewer = VIEWER) -> InboxView:
    return InboxView(viewer=viewer, member=Member(1), now=NOON + timedelta(hours=1))


def stream(at: datetime = NOON) -> Stream:
    return Stream(since=at, ends_at=0.0, written_at=at)


def grown(one: Burst) -> Burst:
    return replace(one, version=one.version + 1, count=one.count + 1, mentioners=(*one.mentioners, ADA))


def test_what_opened_since_is_a_row_and_what_is_older_can_only_have_grown() -> None:
    assert event_for(LATER, None, look(), SINCE) is StreamEvent.ROW
    assert event_for(LATER, None, look(), LATER.opened_at) is StreamEvent.GROUP
    assert event_for(grown(LATER), LATER, look(), SINCE) is StreamEvent.GROUP


def test_what_becomes_visible_by_growth_is_a_row() -> None:
    blocking = replace(VIEWER, blocked=LATER.mentioners)
    assert event_for(LATER, None, look(blocking), SINCE) is None
    assert event_for(grown(LATER), LATER, look(blocking), SINCE) is StreamEvent.ROW


def taken_back(one: Burst) -> Burst:
    return replace(one, version=one.version + 1, count=0, silent=True)


def test_what_was_taken_back_is_hidden_from_who_may_have_it() -> None:
    assert event_for(taken_back(LATER), LATER, look(), SINCE) is StreamEvent.HIDDEN
    assert event_for(taken_back(LATER), None, look(), SINCE) is StreamEvent.HIDDEN
    left = replace(LATER, version=2, silent=True, restricted_to=ADA)
    assert event_for(left, LATER, look(), SINCE) is StreamEvent.HIDDEN
    assert event_for(left, None, look(), SINCE) is StreamEvent.HIDDEN


def test_what_is_left_to_those_whom_the_viewer_has_blocked_is_hidden_though_it_was_never_heard_of() -> None:
    """Who was seen in it is named no longer: whoever comes back has it on the page as it was."""
    blocking = look(replace(VIEWER, blocked=[ADA]))
    left = replace(LATER, version=3, silent=True, mentioners=(ADA,))
    assert event_for(left, grown(LATER), blocking, SINCE) is StreamEvent.HIDDEN
    assert event_for(left, None, blocking, SINCE) is StreamEvent.HIDDEN
    assert event_for(replace(left, silent=False), None, blocking, SINCE) is None
    assert event_for(replace(left, restricted_to=ADA), None, blocking, SINCE) is None


def test_who_could_never_see_it_is_not_told_that_it_is_gone() -> None:
    private = replace(LATER, restricted_to=ADA)
    assert event_for(taken_back(private), private, look(), SINCE) is None
    assert event_for(taken_back(private), None, look(), SINCE) is None
    assert event_for(taken_back(LATER), None, look(replace(VIEWER, follows={})), SINCE) is None


def test_a_row_that_waits_and_is_taken_back_leaves_as_hidden_alone() -> None:
    one = stream()
    one.put(StreamEvent.ROW, LATER)
    one.put(StreamEvent.HIDDEN, taken_back(LATER))
    assert [(news.event, news.item, news.hidden) for news in one.take(look(), None)] == [
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
def test_what_is_not_visible_is_nothing(viewer: Viewer) -> None:
    assert event_for(LATER, None, look(viewer), SINCE) is None


def test_sight_is_of_all_that_decides_but_the_marks() -> None:
    others = [
        replace(VIEWER, follows={NOVA: NOON}),
        replace(VIEWER, follows={}),
        replace(VIEWER, blocked=[ADA]),
        replace(VIEWER, follows={NOVA: NEVER}),
        replace(VIEWER, volume={NOVA: Volume.FIRST}),
        replace(VIEWER, account_preferences=AccountPreferences(volume=Volume.FIRST)),
    ]
    assert len({visibility_fingerprint(one) for one in (VIEWER, *others)}) == 7
    assert visibility_fingerprint(
        replace(VIEWER, account_preferences=AccountPreferences(push=False))
    ) == visibility_fingerprint(VIEWER)  # the list is the same
    assert visibility_fingerprint(replace(VIEWER, marks=Marks(seen_at=NOON))) == visibility_fingerprint(VIEWER)
    assert visibility_fingerprint(replace(VIEWER, blocked={ADA, BOB})) == visibility_fingerprint(
        replace(VIEWER, blocked=[BOB, ADA])
    )


def test_the_memory_forgets_the_longest_unheard_and_says_from_when_it_is_whole() -> None:
    memory = RecentBurstBuffer(max_bursts=2, since=NOON)
    one, two, three = burst(1), burst(2), burst(3)
    for number, heard in enumerate((one, two, grown(one), three), start=1):
        memory.put(heard, NOON + timedelta(seconds=number))
    assert [found.key.seq for found in memory.after(NOON)] == [3, 1]
    assert memory.known(two.key) is None
    assert memory.since is not None
    assert NOON + timedelta(seconds=2) < memory.since < NOON + timedelta(seconds=3)
    assert list(memory.after(NOON + timedelta(seconds=3))) == [three, grown(one)]


def test_a_burst_waits_once_with_its_last_text_and_stays_a_row() -> None:
    one = stream()
    one.put(StreamEvent.ROW, LATER)
    one.put(StreamEvent.GROUP, grown(LATER))
    [news] = one.take(look(), None)
    assert isinstance(news.item, Item)
    assert (news.event, news.item.burst.count) == (StreamEvent.ROW, 2)
    assert one.take(look(), None) == []


def test_what_was_hidden_while_it_waited_is_not_sent() -> None:
    one = stream()
    one.put(StreamEvent.ROW, LATER)
    assert one.take(look(replace(VIEWER, marks=Marks(by_burst={LATER.key: Mark.HIDDEN}))), None) == []


def test_a_reset_takes_what_waited_along_and_tells_the_badge_again() -> None:
    one, badge = stream(), Badge(count=1, more=False)
    assert [news.event for news in one.take(look(), badge)] == [StreamEvent.COUNT]
    one.put(StreamEvent.ROW, LATER)
    one.reset()
    assert [news.event for news in one.take(look(), badge)] == [StreamEvent.RESET, StreamEvent.COUNT]
    assert one.take(look(), badge) == []


def test_who_is_too_far_behind_is_cut_off() -> None:
    one, aborted = stream(), list[bool]()
    one.abort = lambda: aborted.append(True)
    for seq in range(1, MAX_QUEUED + 1):
        one.put(StreamEvent.ROW, burst(seq))
    assert not one.is_cut_off
    one.put(StreamEvent.ROW, burst(MAX_QUEUED + 1))
    assert (one.is_cut_off, aborted) == (True, [True])
