"""The predicate, rule by rule."""

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
from tests.support.examples import ADA, BOB, EVE, HOUR, NOON, NOVA, OF_NOVA, SELF_NOVA, burst, viewer

NOW = NOON + HOUR
OF_EVE = Subject(Kind.MENTION, EVE)
BY_EVE = burst(mentioners=(EVE,), restricted_to=EVE, first_of_day=False)


def why(shown: Burst, to: Viewer) -> HiddenReason | None:
    return hidden_reason(shown, to, now=NOW)


def test_a_follower_sees_what_opened_since() -> None:
    assert why(burst(), viewer()) is None
    assert is_visible(burst(), viewer(), now=NOW)


def test_a_retraction_wins_over_every_other_reason() -> None:
    nobody = viewer(follows={}, blocked=(ADA,), volume=Volume.OFF)
    assert hidden_reason(burst(count=0), nobody, now=NOW) is HiddenReason.RETRACTED
    assert why(burst(), nobody) is HiddenReason.NOT_FOLLOWED


@pytest.mark.parametrize(
    ("age", "gone"), [(RETENTION - timedelta(milliseconds=1), None), (RETENTION, HiddenReason.EXPIRED)]
)
def test_a_burst_is_visible_for_90_days(age: timedelta, gone: HiddenReason | None) -> None:
    follower = viewer(follows={OF_NOVA: NOON - 2 * RETENTION})
    assert why(burst(opened_at=NOW - age), follower) is gone


@pytest.mark.parametrize(
    ("since", "reason"), [(NOON, None), (NOON + timedelta(milliseconds=1), HiddenReason.BEFORE_FOLLOW)]
)
def test_the_burst_that_opens_at_the_moment_of_the_follow_belongs_to_the_follower(
    since: datetime, reason: HiddenReason | None
) -> None:
    assert why(burst(), viewer(follows={OF_NOVA: since})) is reason


def test_a_restricted_burst_is_for_the_author_s_followers_alone() -> None:
    both = viewer(follows={OF_NOVA: NOON, OF_EVE: NOW})
    assert why(BY_EVE, viewer()) is HiddenReason.RESTRICTED
    assert why(BY_EVE, both) is None
    assert why(BY_EVE, viewer(user=EVE)) is HiddenReason.RESTRICTED
    assert why(BY_EVE, viewer(follows={OF_EVE: NOON})) is HiddenReason.NOT_FOLLOWED


def test_who_mutes_a_protected_author_is_still_a_follower_of_hers() -> None:
    assert why(BY_EVE, viewer(follows={OF_NOVA: NOON, OF_EVE: NEVER})) is None
    assert why(BY_EVE, viewer(follows={OF_NOVA: NEVER, OF_EVE: NEVER})) is HiddenReason.MUTED


def test_what_is_muted_for_a_while_is_not_seen_and_neither_is_what_opened_in_the_while() -> None:
    until = viewer(follows={OF_NOVA: NOW + HOUR})
    assert why(burst(), until) is HiddenReason.MUTED
    assert hidden_reason(burst(), until, now=NOW + HOUR) is HiddenReason.BEFORE_FOLLOW
    assert hidden_reason(burst(opened_at=NOW + HOUR), until, now=NOW + HOUR) is None


def test_only_what_is_muted_for_good_is_not_even_asked_for() -> None:
    assert list(viewer(follows={OF_NOVA: NEVER, OF_EVE: NOW + HOUR}).listed_subjects) == [OF_EVE]


def test_the_personal_subject_is_its_owner_s_alone() -> None:
    own = burst(subject=SELF_NOVA)
    assert why(own, viewer(user=NOVA, follows={})) is None
    assert why(own, viewer(user=BOB, follows={SELF_NOVA: NOON})) is HiddenReason.NOT_FOLLOWED


def test_a_protected_author_s_mention_reaches_the_mentioned_account_only_if_it_follows() -> None:
    own = burst(subject=SELF_NOVA, mentioners=(EVE,), restricted_to=EVE)
    assert why(own, viewer(user=NOVA, follows={})) is HiddenReason.RESTRICTED
    assert why(own, viewer(user=NOVA, follows={OF_EVE: NOON})) is None


def test_a_burst_is_hidden_when_all_its_mentioners_are_blocked_and_there_are_no_more() -> None:
    two = (ADA, EVE)
    assert why(burst(mentioners=two), viewer(blocked=(ADA,))) is None
    assert why(burst(mentioners=two), viewer(blocked=two)) is HiddenReason.BLOCKED
    assert why(burst(mentioners=two, more_mentioners=True), viewer(blocked=two)) is None


def test_a_block_hides_what_the_account_is_mentioned_by_also_where_its_follow_would_show_it() -> None:
    assert why(burst(), viewer(blocked=(NOVA,))) is HiddenReason.BLOCKED
    assert why(burst(), viewer(blocked=(NOVA,), follows={OF_NOVA: NEVER})) is HiddenReason.BLOCKED
    assert why(burst(), viewer(blocked=(NOVA,), follows={})) is HiddenReason.NOT_FOLLOWED
    assert not rings(burst(), viewer(blocked=(NOVA,)))


def test_a_block_of_oneself_hides_nothing_of_one_s_own() -> None:
    assert why(burst(subject=SELF_NOVA), viewer(user=NOVA, follows={}, blocked=(NOVA,))) is None


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
def test_the_volume_decides_how_much_is_seen(volume: Volume, first: bool, reason: HiddenReason | None) -> None:
    assert why(burst(first_of_day=first), viewer(volume=volume)) is reason


@pytest.mark.parametrize(
    ("mark", "reason"), [(Mark.HIDDEN, HiddenReason.HIDDEN), (Mark.READ, None), (Mark.UNREAD, None), (None, None)]
)
def test_only_a_hidden_mark_hides(mark: Mark | None, reason: HiddenReason | None) -> None:
    marks = Marks(by_burst={burst().key: mark} if mark else {BurstKey(OF_NOVA, 2): Mark.HIDDEN})
    assert why(burst(), viewer(marks=marks)) is reason


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize(
    ("mark", "wins"), [(Mark.UNREAD, True), (Mark.READ, False), (Mark.HIDDEN, False), (None, None)]
)
def test_a_mark_outweighs_what_was_seen(mark: Mark | None, wins: bool | None, seen: bool) -> None:
    marks = Marks(seen_at=NOON if seen else None, by_burst={burst().key: mark} if mark else {})
    assert is_unread(burst(), viewer(marks=marks)) is (not seen if wins is None else wins)


def rings(shown: Burst, to: Viewer) -> bool:
    return may_push(shown, to, now=NOW)


def test_a_phone_rings_for_what_is_visible_and_new() -> None:
    assert rings(burst(), viewer())
    assert not rings(burst(), viewer(follows={OF_NOVA: NOON + timedelta(milliseconds=1)}))
    assert not may_push(burst(count=0), viewer(), now=NOW)


def test_no_phone_rings_for_a_blocked_opener_though_others_joined() -> None:
    joined = burst(mentioners=(ADA, EVE))
    assert why(joined, viewer(blocked=(ADA,))) is None
    assert not rings(joined, viewer(blocked=(ADA,)))
    assert rings(joined, viewer(blocked=(EVE,)))


@pytest.mark.parametrize(
    "marks",
    [
        Marks(seen_at=NOON),
        Marks(also_seen=frozenset({burst().key})),
        *(Marks(by_burst={burst().key: mark}) for mark in Mark),
    ],
)
def test_no_phone_rings_for_what_was_dealt_with(marks: Marks) -> None:
    assert not rings(burst(), viewer(marks=marks))


def test_what_was_seen_before_it_opened_silences_nothing() -> None:
    earlier = Marks(seen_at=NOON - timedelta(milliseconds=1), by_burst={BurstKey(OF_NOVA, 2): Mark.HIDDEN})
    assert rings(burst(), viewer(marks=earlier))
