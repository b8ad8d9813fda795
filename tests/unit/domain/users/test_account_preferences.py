"""What a person says of everything: how a wish changes it, and how it goes with what is said of one subject."""

from dataclasses import replace
from datetime import datetime, time, timedelta

import pytest

from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member
from notifier.domain.users.account_preferences import (
    NOTHING_SAID,
    Asleep,
    Overall,
    OverallWish,
    Unwanted,
    spares,
    visible_from,
)
from notifier.domain.users.quiet_hours import Hours
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, Volume, Want, Wish, combined
from notifier.domain.users.visibility import HiddenReason, denied, pushable, pushable_awake
from tests.support.examples import HOUR, NOON, NOVA, OF_NOVA, SELF_NOVA, burst, viewer

MEMBER = Member(7)
LATER = NOON + HOUR
NIGHT = Hours(start=time(22), end=time(7))
TOKYO = Overall(quiet=NIGHT, zone="Asia/Tokyo")
"""There it is 21:00 at noon."""
ALL, FIRST, DIGEST, OFF, DEFAULT = Volume.ALL, Volume.FIRST, Volume.DIGEST, Volume.OFF, Volume.DEFAULT


def then(before: Overall, wish: OverallWish, now: datetime = NOON) -> Overall:
    return before.after(wish.heard(MEMBER, before, now))


def own(volume: Volume = DEFAULT, visible_from: datetime = ALWAYS) -> Want:
    return Want(subject=OF_NOVA, member=MEMBER, at=ALWAYS, volume=volume, visible_from=visible_from)


@pytest.mark.parametrize(
    ("overall", "own", "found"),
    [
        *((OFF, own, OFF) for own in Volume),
        *((overall, DEFAULT, overall) for overall in (ALL, FIRST, DIGEST)),
        *((overall, own, own) for overall in (ALL, FIRST, DIGEST) for own in (ALL, FIRST, DIGEST, OFF)),
    ],
)
def test_the_subject_s_own_word_goes_first_and_off_of_everything_silences_all(
    overall: Volume, own: Volume, found: Volume
) -> None:
    assert combined(overall, own) is found


def test_a_wish_changes_what_it_names_and_nothing_else() -> None:
    said = then(NOTHING_SAID, OverallWish(push=False, zone="Asia/Tokyo"))
    assert said == Overall(at=NOON, push=False, zone="Asia/Tokyo")
    again = then(said, OverallWish(quiet=NIGHT, push=True, digest_hour=7), LATER)
    assert again == Overall(at=LATER, push=True, zone="Asia/Tokyo", quiet=NIGHT, digest_hour=7)


def test_every_word_is_later_than_the_one_before_though_the_clock_is_not() -> None:
    before = then(NOTHING_SAID, OverallWish(push=False))
    assert OverallWish(push=True).heard(MEMBER, before, NOON - HOUR).at == NOON + timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("before", "after", "left_off", "digests"),
    [
        (OFF, ALL, True, False),
        (OFF, FIRST, True, False),
        (OFF, DIGEST, True, True),
        (ALL, DIGEST, False, True),
        (FIRST, DIGEST, False, True),
        (DIGEST, DIGEST, False, False),
        (OFF, OFF, False, False),
        (DIGEST, ALL, False, True),
        (DIGEST, FIRST, False, True),
        (DIGEST, OFF, False, False),
        (FIRST, ALL, False, False),
        (ALL, OFF, False, False),
    ],
)
def test_who_leaves_off_or_begins_or_leaves_a_digest_is_told_what_opens_from_then_on(
    before: Volume, after: Volume, left_off: bool, digests: bool
) -> None:
    said = then(Overall(volume=before), OverallWish(volume=after))
    assert (said.visible_from == NOON, said.default_from == NOON) == (left_off, digests)
    silent = then(Overall(volume=before), OverallWish(push=False))
    assert (silent.visible_from, silent.default_from) == (ALWAYS, ALWAYS)


def since(overall: Overall, want: Want | None) -> datetime:
    wants = {} if want is None else {OF_NOVA: want}
    return visible_from({OF_NOVA: NOON - HOUR}, wants, overall)[OF_NOVA]


def test_what_off_silenced_stays_gone_everywhere_and_what_digest_did_where_nothing_else_was_said() -> None:
    left = Overall(visible_from=NOON, default_from=LATER)
    assert since(NOTHING_SAID, None) == NOON - HOUR
    assert (since(left, None), since(left, own()), since(left, own(ALL))) == (LATER, LATER, NOON)
    assert since(left, own(visible_from=LATER + HOUR)) == LATER + HOUR
    assert since(left, own(ALL, NEVER)) == NEVER


def test_the_first_word_of_a_subject_brings_nothing_back_that_everything_s_had_silenced() -> None:
    for volume in (ALL, FIRST):
        assert Wish(volume=volume).heard(own(), LATER, DIGEST).visible_from == LATER  # it leaves the digest
        assert Wish(volume=volume).heard(own(), LATER, ALL, NOON).visible_from == NOON  # it was left for all before
    assert Wish(volume=ALL).heard(own(FIRST), LATER, ALL, NOON).visible_from is None
    assert Wish(muted_until=NEVER).heard(own(), NOON, ALL, NOON).visible_from == NEVER


def test_a_word_that_is_taken_back_leaves_a_subject_as_everything_is() -> None:
    assert Wish(volume=DEFAULT).heard(own(OFF), LATER).visible_from == LATER
    assert Wish(volume=DEFAULT).heard(own(OFF), LATER, DIGEST).visible_from == LATER  # it enters the digest
    assert Wish(volume=DEFAULT).heard(own(OFF), LATER, OFF).visible_from is None
    assert own(DEFAULT).sets == []


@pytest.mark.parametrize(
    ("overall", "kinds"),
    [
        (NOTHING_SAID, []),
        (Overall(volume=OFF), [SetKind.OVERALL_OFF]),
        (Overall(volume=FIRST, push=False), [SetKind.OVERALL_FIRST, SetKind.NO_PUSH]),
        (Overall(volume=DIGEST), [SetKind.OVERALL_DIGEST]),
        (Overall(push=True), [SetKind.ASKED]),
        (Overall(quiet=NIGHT), []),
    ],
)
def test_the_sets_that_fan_out_goes_by(overall: Overall, kinds: list[SetKind]) -> None:
    assert [*overall.sets] == kinds


def test_nothing_of_everything_is_nothing_but_what_is_about_oneself() -> None:
    nothing = replace(viewer(), overall=Overall(volume=OFF, visible_from=LATER))
    assert denied(burst(), nothing, now=LATER) is HiddenReason.VOLUME
    assert list(nothing.heard) == []
    oneself = replace(viewer(user=NOVA), overall=nothing.overall)
    assert denied(burst(subject=SELF_NOVA), oneself, now=LATER) is None


def test_who_said_nothing_of_alerts_gets_them_and_has_not_asked_for_them() -> None:
    assert [overall.alerts for overall in (NOTHING_SAID, Overall(push=True), Overall(push=False))] == [
        True,
        True,
        False,
    ]
    asked = then(NOTHING_SAID, OverallWish(push=True))
    assert SetKind.ASKED in asked.sets
    assert SetKind.ASKED in then(asked, OverallWish(quiet=NIGHT)).sets
    assert [*then(asked, OverallWish(push=False)).sets] == [SetKind.NO_PUSH]


@pytest.mark.parametrize(
    ("overall", "now", "how"),
    [
        (TOKYO, NOON, None),
        (TOKYO, LATER, Asleep(until=NOON + 10 * HOUR)),
        (Overall(push=False), NOON, Unwanted()),
        (replace(TOKYO, push=False), LATER, Unwanted()),
        (replace(TOKYO, volume=OFF), LATER, Unwanted()),
    ],
)
def test_no_phone_rings_of_who_wants_no_alerts_and_of_who_sleeps_once_the_night_is_over(
    overall: Overall, now: datetime, how: Unwanted | Asleep | None
) -> None:
    to = replace(viewer(), overall=overall)
    assert spares(overall, DEFAULT, burst(), now) == how
    assert pushable(burst(), to, now=now) is (how is None)
    assert pushable_awake(burst(), to, now=now) is (how != Unwanted())


@pytest.mark.parametrize(
    ("quiet", "after_opening", "at"),
    [
        (Hours(start=time(9), end=time(12, 40)), 0, 45),
        (Hours(start=time(9), end=time(12, 45)), 0, 45),
        # Awake for five minutes a day, and between two quarters.
        (Hours(start=time(12, 35), end=time(12, 30)), 0, 30),
        (Hours(start=time(12, 37), end=time(12, 32)), 0, 32),
        # Its day is over at 12:43.
        (Hours(start=time(9), end=time(12, 40)), 24 * 60 - 43, 40),
        (Hours(start=time(9), end=time(12, 40)), 24 * 60 - 46, 45),
    ],
)
def test_who_sleeps_is_looked_for_at_a_quarter_where_the_alert_is_worth_one_then_and_nobody_sleeps_again(
    quiet: Hours, after_opening: int, at: int
) -> None:
    of = burst(opened_at=NOON - timedelta(minutes=after_opening))
    assert Overall(quiet=quiet).looked_for_at(of, NOON) == NOON + timedelta(minutes=at)


def test_who_is_awake_is_not_looked_for_later() -> None:
    assert Overall(quiet=NIGHT).looked_for_at(burst(), NOON) is None


def test_the_list_is_the_same_whatever_is_said_of_alerts() -> None:
    for overall in (Overall(push=False), TOKYO):
        assert denied(burst(), replace(viewer(), overall=overall), now=LATER) is None
