"""What a person wants of a subject: how a wish changes it, and in which sets it puts the person."""

from datetime import datetime, timedelta

import pytest

from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, Volume, Want, Wish, spares
from tests.support.examples import HOUR, NOON, OF_NOVA, burst

EVERYTHING = Want(subject=OF_NOVA, member=Member(7), at=ALWAYS)
LATER = NOON + HOUR


def heard(*wishes: Wish, now: datetime = NOON) -> Want:
    want = EVERYTHING
    for wish in wishes:
        want = want.after(wish.heard(want, now))
    return want


def then(before: Want, wish: Wish, now: datetime = NOON) -> Want:
    return before.after(wish.heard(before, now))


def test_a_wish_changes_what_it_names_and_nothing_else() -> None:
    said = heard(Wish(volume=Volume.FIRST))
    assert (said.volume, said.visible_from, said.at) == (Volume.FIRST, ALWAYS, NOON)
    muted = then(said, Wish(muted_until=LATER), NOON + timedelta(minutes=1))
    assert (muted.volume, muted.visible_from, muted.at) == (Volume.FIRST, LATER, NOON + timedelta(minutes=1))


def test_a_word_says_no_more_than_the_wish() -> None:
    before = heard(Wish(volume=Volume.FIRST), Wish(muted_until=NEVER))
    assert Wish(volume=Volume.OFF).heard(before, LATER).visible_from is None
    assert Wish(muted_until=LATER).heard(before, NOON).volume is None
    assert Wish(muted_until=ALWAYS).heard(heard(), NOON).visible_from is None


def test_every_word_is_later_than_the_one_before_though_the_clock_is_not() -> None:
    first = heard(Wish(volume=Volume.OFF))
    second = Wish(volume=Volume.ALL).heard(first, NOON - HOUR)
    assert second.at == NOON + timedelta(milliseconds=1)


def test_who_leaves_off_or_digest_sees_what_opens_from_then_on() -> None:
    for silent in (Volume.OFF, Volume.DIGEST):
        assert then(heard(Wish(volume=silent)), Wish(volume=Volume.FIRST), LATER).visible_from == LATER
        assert then(heard(Wish(volume=silent)), Wish(volume=Volume.OFF), LATER).visible_from <= NOON
    assert then(heard(Wish(volume=Volume.FIRST)), Wish(volume=Volume.ALL), LATER).visible_from == ALWAYS


@pytest.mark.parametrize("before", [Volume.DEFAULT, Volume.ALL, Volume.FIRST, Volume.OFF])
def test_a_digest_tells_what_opens_once_it_is_wanted_and_nothing_that_was_shown_or_silent_before(
    before: Volume,
) -> None:
    assert then(heard(Wish(volume=before)), Wish(volume=Volume.DIGEST), LATER).visible_from == LATER
    again = heard(Wish(volume=before), Wish(volume=Volume.DIGEST))
    assert then(again, Wish(volume=Volume.DIGEST), LATER).visible_from == NOON
    muted = heard(Wish(volume=before), Wish(muted_until=NEVER))
    assert then(muted, Wish(volume=Volume.DIGEST), LATER).visible_from == NEVER


def test_who_leaves_off_while_it_is_muted_has_not_unmuted() -> None:
    assert heard(Wish(volume=Volume.OFF), Wish(muted_until=NEVER), Wish(volume=Volume.ALL)).visible_from == NEVER


def test_a_mute_ends_when_it_is_taken_back_or_by_itself() -> None:
    for until in (LATER, NEVER):
        muted = heard(Wish(muted_until=until))
        assert muted.muted(NOON)
        unmuted = then(muted, Wish(muted_until=ALWAYS))
        assert (unmuted.muted(NOON), unmuted.visible_from) == (False, NOON)
    assert not heard(Wish(muted_until=LATER)).muted(LATER)
    assert heard(Wish(muted_until=ALWAYS)).visible_from == ALWAYS


def test_a_shorter_mute_takes_the_place_of_a_longer_one() -> None:
    assert heard(Wish(muted_until=NEVER), Wish(muted_until=LATER)).visible_from == LATER


@pytest.mark.parametrize(
    ("wishes", "kinds"),
    [
        ((), []),
        ((Wish(volume=Volume.OFF),), [SetKind.OFF]),
        ((Wish(muted_until=NEVER), Wish(volume=Volume.FIRST)), [SetKind.MUTED, SetKind.FIRST]),
        ((Wish(muted_until=LATER),), []),
        ((Wish(muted_until=NEVER), Wish(muted_until=ALWAYS)), []),
    ],
)
def test_the_sets_that_fan_out_goes_by(wishes: tuple[Wish, ...], kinds: list[SetKind]) -> None:
    assert [*heard(*wishes).sets] == kinds


def test_a_phone_is_spared_what_opened_before_and_what_the_volume_leaves_out() -> None:
    assert not spares(Volume.ALL, NOON, burst())
    assert spares(Volume.ALL, NOON + timedelta(milliseconds=1), burst())
    assert spares(Volume.FIRST, ALWAYS, burst(first_of_day=False))
    assert not spares(Volume.FIRST, ALWAYS, burst(first_of_day=True))
