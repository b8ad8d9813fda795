"""Predicate: whether a user sees a burst, rule by rule."""

from datetime import datetime, timedelta

import pytest

from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.ids import BurstKey, Kind, Subject
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.visibility import (
    HiddenReason,
    Mark,
    Marks,
    Viewer,
    hidden_reason,
    is_unread,
    is_visible,
    may_push,
)
from tests.support.domain_examples import ADA, BOB, EVE, HOUR, NOON, NOVA, OF_NOVA, SELF_NOVA, burst, viewer

NOW = NOON + HOUR
OF_EVE = Subject(Kind.MENTION, EVE)
BY_EVE = burst(mentioners=(EVE,), restricted_to=EVE, first_of_day=False)


def reason_for(shown: Burst, reader: Viewer) -> HiddenReason | None:
    return hidden_reason(shown, reader, now=NOW)


def test_follower_sees_bursts_opened_since_the_follow() -> None:
    assert reason_for(burst(), viewer()) is None
    assert is_visible(burst(), viewer(), now=NOW)


def test_retraction_wins_over_every_other_reason() -> None:
    stranger = viewer(follows={}, blocked=(ADA,), volume=Volume.OFF)
    assert hidden_reason(burst(count=0), stranger, now=NOW) is HiddenReason.RETRACTED
    assert reason_for(burst(), stranger) is HiddenReason.NOT_FOLLOWED


@pytest.mark.parametrize(
    ("age", "reason"), [(RETENTION - timedelta(milliseconds=1), None), (RETENTION, HiddenReason.EXPIRED)]
)
def test_burst_is_visible_for_90_days(age: timedelta, reason: HiddenReason | None) -> None:
    follower = viewer(follows={OF_NOVA: NOON - 2 * RETENTION})
    assert reason_for(burst(opened_at=NOW - age), follower) is reason


@pytest.mark.parametrize(
    ("since", "reason"), [(NOON, None), (NOON + timedelta(milliseconds=1), HiddenReason.BEFORE_FOLLOW)]
)
def test_burst_opened_at_the_time_of_the_follow_is_visible(since: datetime, reason: HiddenReason | None) -> None:
    assert reason_for(burst(), viewer(follows={OF_NOVA: since})) is reason


def test_restricted_burst_is_visible_to_followers_of_the_author_only() -> None:
    both = viewer(follows={OF_NOVA: NOON, OF_EVE: NOW})
    assert reason_for(BY_EVE, viewer()) is HiddenReason.RESTRICTED
    assert reason_for(BY_EVE, both) is None
    assert reason_for(BY_EVE, viewer(user=EVE)) is HiddenReason.RESTRICTED
    assert reason_for(BY_EVE, viewer(follows={OF_EVE: NOON})) is HiddenReason.NOT_FOLLOWED


def test_muted_protected_author_still_counts_as_followed() -> None:
    assert reason_for(BY_EVE, viewer(follows={OF_NOVA: NOON, OF_EVE: NEVER})) is None
    assert reason_for(BY_EVE, viewer(follows={OF_NOVA: NEVER, OF_EVE: NEVER})) is HiddenReason.MUTED


def test_temporary_mute_also_hides_bursts_opened_during_it() -> None:
    muted = viewer(follows={OF_NOVA: NOW + HOUR})
    assert reason_for(burst(), muted) is HiddenReason.MUTED
    assert hidden_reason(burst(), muted, now=NOW + HOUR) is HiddenReason.BEFORE_FOLLOW
    assert hidden_reason(burst(opened_at=NOW + HOUR), muted, now=NOW + HOUR) is None


def test_subjects_that_are_permanently_muted_or_off_are_not_queried() -> None:
    assert list(viewer(follows={OF_NOVA: NEVER, OF_EVE: NOW + HOUR}).listed_subjects) == [OF_EVE]
    assert list(viewer(follows={OF_NOVA: NOON, OF_EVE: NOON}, volume=Volume.OFF).listed_subjects) == [OF_EVE]


def test_personal_subject_is_visible_to_its_owner_only() -> None:
    own = burst(subject=SELF_NOVA)
    assert reason_for(own, viewer(user=NOVA, follows={})) is None
    assert reason_for(own, viewer(user=BOB, follows={SELF_NOVA: NOON})) is HiddenReason.NOT_FOLLOWED


def test_mention_by_protected_author_needs_a_follow_by_the_mentioned() -> None:
    own = burst(subject=SELF_NOVA, mentioners=(EVE,), restricted_to=EVE)
    assert reason_for(own, viewer(user=NOVA, follows={})) is HiddenReason.RESTRICTED
    assert reason_for(own, viewer(user=NOVA, follows={OF_EVE: NOON})) is None


def test_burst_is_hidden_when_all_its_mentioners_are_blocked() -> None:
    two = (ADA, EVE)
    assert reason_for(burst(mentioners=two), viewer(blocked=(ADA,))) is None
    assert reason_for(burst(mentioners=two), viewer(blocked=two)) is HiddenReason.BLOCKED
    assert reason_for(burst(mentioners=two, more_mentioners=True), viewer(blocked=two)) is None


def test_block_of_mentioned_account_hides_bursts_despite_follow() -> None:
    assert reason_for(burst(), viewer(blocked=(NOVA,))) is HiddenReason.BLOCKED
    assert reason_for(burst(), viewer(blocked=(NOVA,), follows={OF_NOVA: NEVER})) is HiddenReason.BLOCKED
    assert reason_for(burst(), viewer(blocked=(NOVA,), follows={})) is HiddenReason.NOT_FOLLOWED
    assert not is_alerted(burst(), viewer(blocked=(NOVA,)))


def test_block_of_oneself_does_not_hide_own_mentions() -> None:
    assert reason_for(burst(subject=SELF_NOVA), viewer(user=NOVA, follows={}, blocked=(NOVA,))) is None


@pytest.mark.parametrize(
    ("volume", "first", "reason"),
    [
        (Volume.ALL, False, None),
        (Volume.FIRST, True, None),
        (Volume.FIRST, False, HiddenReason.VOLUME),
        (Volume.DIGEST, True, HiddenReason.VOLUME),
        (Volume.OFF, True, HiddenReason.VOLUME),
    ],
)
def test_volume_decides_visibility(volume: Volume, first: bool, reason: HiddenReason | None) -> None:
    assert reason_for(burst(first_of_day=first), viewer(volume=volume)) is reason


@pytest.mark.parametrize(
    ("mark", "reason"), [(Mark.HIDDEN, HiddenReason.HIDDEN), (Mark.READ, None), (Mark.UNREAD, None), (None, None)]
)
def test_only_a_hidden_mark_hides(mark: Mark | None, reason: HiddenReason | None) -> None:
    marks = Marks(by_burst={burst().key: mark} if mark else {BurstKey(OF_NOVA, 2): Mark.HIDDEN})
    assert reason_for(burst(), viewer(marks=marks)) is reason


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize(
    ("mark", "marked_unread"), [(Mark.UNREAD, True), (Mark.READ, False), (Mark.HIDDEN, False), (None, None)]
)
def test_mark_takes_precedence_over_seen(mark: Mark | None, marked_unread: bool | None, seen: bool) -> None:
    marks = Marks(seen_at=NOON if seen else None, by_burst={burst().key: mark} if mark else {})
    assert is_unread(burst(), viewer(marks=marks)) is (not seen if marked_unread is None else marked_unread)


def is_alerted(shown: Burst, reader: Viewer) -> bool:
    return may_push(shown, reader, now=NOW)


def test_alert_is_sent_for_visible_new_burst() -> None:
    assert is_alerted(burst(), viewer())
    assert not is_alerted(burst(), viewer(follows={OF_NOVA: NOON + timedelta(milliseconds=1)}))
    assert not may_push(burst(count=0), viewer(), now=NOW)


def test_alert_is_suppressed_when_the_opener_is_blocked() -> None:
    joined = burst(mentioners=(ADA, EVE))
    assert reason_for(joined, viewer(blocked=(ADA,))) is None
    assert not is_alerted(joined, viewer(blocked=(ADA,)))
    assert is_alerted(joined, viewer(blocked=(EVE,)))


@pytest.mark.parametrize(
    "marks",
    [
        Marks(seen_at=NOON),
        Marks(also_seen=frozenset({burst().key})),
        *(Marks(by_burst={burst().key: mark}) for mark in Mark),
    ],
)
def test_alert_is_suppressed_for_seen_or_marked_burst(marks: Marks) -> None:
    assert not is_alerted(burst(), viewer(marks=marks))


def test_earlier_visit_does_not_suppress_a_later_alert() -> None:
    earlier = Marks(seen_at=NOON - timedelta(milliseconds=1), by_burst={BurstKey(OF_NOVA, 2): Mark.HIDDEN})
    assert is_alerted(burst(), viewer(marks=earlier))
