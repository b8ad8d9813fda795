"""What a person wants of a subject: how a wish changes it, and in which sets it puts the person."""

from datetime import datetime, timedelta

import pytest

from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member
from notifier.domain.users.subject_preferences import (
    ALWAYS,
    NEVER,
    PreferencePatch,
    SubjectPreference,
    Volume,
    suppresses_alert,
)
from tests.support.examples import HOUR, NOON, OF_NOVA, burst

EVERYTHING = SubjectPreference(subject=OF_NOVA, member=Member(7), at=ALWAYS)
LATER = NOON + HOUR


def heard(*wishes: PreferencePatch, now: datetime = NOON) -> SubjectPreference:
    want = EVERYTHING
    for wish in wishes:
        want = want.apply(wish.change_for(want, now))
    return want


def then(before: SubjectPreference, wish: PreferencePatch, now: datetime = NOON) -> SubjectPreference:
    return before.apply(wish.change_for(before, now))


def test_a_wish_changes_what_it_names_and_nothing_else() -> None:
    said = heard(PreferencePatch(volume=Volume.FIRST))
    assert (said.volume, said.visible_from, said.at) == (Volume.FIRST, ALWAYS, NOON)
    muted = then(said, PreferencePatch(muted_until=LATER), NOON + timedelta(minutes=1))
    assert (muted.volume, muted.visible_from, muted.at) == (Volume.FIRST, LATER, NOON + timedelta(minutes=1))


def test_a_word_says_no_more_than_the_wish() -> None:
    before = heard(PreferencePatch(volume=Volume.FIRST), PreferencePatch(muted_until=NEVER))
    assert PreferencePatch(volume=Volume.OFF).change_for(before, LATER).visible_from is None
    assert PreferencePatch(muted_until=LATER).change_for(before, NOON).volume is None
    assert PreferencePatch(muted_until=ALWAYS).change_for(heard(), NOON).visible_from is None


def test_every_word_is_later_than_the_one_before_though_the_clock_is_not() -> None:
    first = heard(PreferencePatch(volume=Volume.OFF))
    second = PreferencePatch(volume=Volume.ALL).change_for(first, NOON - HOUR)
    assert second.at == NOON + timedelta(milliseconds=1)


def test_who_leaves_off_or_digest_sees_what_opens_from_then_on() -> None:
    for silent in (Volume.OFF, Volume.DIGEST):
        assert (
            then(heard(PreferencePatch(volume=silent)), PreferencePatch(volume=Volume.FIRST), LATER).visible_from
            == LATER
        )
        assert (
            then(heard(PreferencePatch(volume=silent)), PreferencePatch(volume=Volume.OFF), LATER).visible_from <= NOON
        )
    assert (
        then(heard(PreferencePatch(volume=Volume.FIRST)), PreferencePatch(volume=Volume.ALL), LATER).visible_from
        == ALWAYS
    )


@pytest.mark.parametrize("before", [Volume.DEFAULT, Volume.ALL, Volume.FIRST, Volume.OFF])
def test_a_digest_tells_what_opens_once_it_is_wanted_and_nothing_that_was_shown_or_silent_before(
    before: Volume,
) -> None:
    assert (
        then(heard(PreferencePatch(volume=before)), PreferencePatch(volume=Volume.DIGEST), LATER).visible_from == LATER
    )
    again = heard(PreferencePatch(volume=before), PreferencePatch(volume=Volume.DIGEST))
    assert then(again, PreferencePatch(volume=Volume.DIGEST), LATER).visible_from == NOON
    muted = heard(PreferencePatch(volume=before), PreferencePatch(muted_until=NEVER))
    assert then(muted, PreferencePatch(volume=Volume.DIGEST), LATER).visible_from == NEVER


def test_who_leaves_off_while_it_is_muted_has_not_unmuted() -> None:
    assert (
        heard(
            PreferencePatch(volume=Volume.OFF), PreferencePatch(muted_until=NEVER), PreferencePatch(volume=Volume.ALL)
        ).visible_from
        == NEVER
    )


def test_a_mute_ends_when_it_is_taken_back_or_by_itself() -> None:
    for until in (LATER, NEVER):
        muted = heard(PreferencePatch(muted_until=until))
        assert muted.is_muted(NOON)
        unmuted = then(muted, PreferencePatch(muted_until=ALWAYS))
        assert (unmuted.is_muted(NOON), unmuted.visible_from) == (False, NOON)
    assert not heard(PreferencePatch(muted_until=LATER)).is_muted(LATER)
    assert heard(PreferencePatch(muted_until=ALWAYS)).visible_from == ALWAYS


def test_a_shorter_mute_takes_the_place_of_a_longer_one() -> None:
    assert heard(PreferencePatch(muted_until=NEVER), PreferencePatch(muted_until=LATER)).visible_from == LATER


@pytest.mark.parametrize(
    ("wishes", "kinds"),
    [
        ((), []),
        ((PreferencePatch(volume=Volume.OFF),), [SetKind.OFF]),
        ((PreferencePatch(muted_until=NEVER), PreferencePatch(volume=Volume.FIRST)), [SetKind.MUTED, SetKind.FIRST]),
        ((PreferencePatch(muted_until=LATER),), []),
        ((PreferencePatch(muted_until=NEVER), PreferencePatch(muted_until=ALWAYS)), []),
    ],
)
def test_the_sets_that_fan_out_goes_by(wishes: tuple[PreferencePatch, ...], kinds: list[SetKind]) -> None:
    assert [*heard(*wishes).member_sets] == kinds


def test_a_phone_is_spared_what_opened_before_and_what_the_volume_leaves_out() -> None:
    assert not suppresses_alert(Volume.ALL, NOON, burst())
    assert suppresses_alert(Volume.ALL, NOON + timedelta(milliseconds=1), burst())
    assert suppresses_alert(Volume.FIRST, ALWAYS, burst(first_of_day=False))
    assert not suppresses_alert(Volume.FIRST, ALWAYS, burst(first_of_day=True))
