"""Subject preferences: how a patch changes them, and which member sets they imply."""

from datetime import datetime, timedelta

import pytest

from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import Member
from notifier.domain.users.subject_preferences import (
    ALWAYS,
    NEVER,
    PreferencePatch,
    SubjectPreference,
    Volume,
    suppresses_alert,
)
from tests.support.domain_examples import HOUR, NOON, OF_NOVA, burst

DEFAULT_PREFERENCE = SubjectPreference(subject=OF_NOVA, member=Member(7), at=ALWAYS)
LATER = NOON + HOUR


def preference_after(*patches: PreferencePatch, now: datetime = NOON) -> SubjectPreference:
    preference = DEFAULT_PREFERENCE
    for patch in patches:
        preference = preference.apply(patch.change_for(preference, now))
    return preference


def changed(before: SubjectPreference, patch: PreferencePatch, now: datetime = NOON) -> SubjectPreference:
    return before.apply(patch.change_for(before, now))


def test_patch_changes_only_its_own_fields() -> None:
    first_only = preference_after(PreferencePatch(volume=Volume.FIRST))
    assert (first_only.volume, first_only.visible_from, first_only.at) == (Volume.FIRST, ALWAYS, NOON)
    muted = changed(first_only, PreferencePatch(muted_until=LATER), NOON + timedelta(minutes=1))
    assert (muted.volume, muted.visible_from, muted.at) == (Volume.FIRST, LATER, NOON + timedelta(minutes=1))


def test_change_has_only_the_fields_of_its_patch() -> None:
    before = preference_after(PreferencePatch(volume=Volume.FIRST), PreferencePatch(muted_until=NEVER))
    assert PreferencePatch(volume=Volume.OFF).change_for(before, LATER).visible_from is None
    assert PreferencePatch(muted_until=LATER).change_for(before, NOON).volume is None
    assert PreferencePatch(muted_until=ALWAYS).change_for(preference_after(), NOON).visible_from is None


def test_change_is_later_than_the_previous_one_despite_slow_clock() -> None:
    first = preference_after(PreferencePatch(volume=Volume.OFF))
    second = PreferencePatch(volume=Volume.ALL).change_for(first, NOON - HOUR)
    assert second.at == NOON + timedelta(milliseconds=1)


def test_leaving_off_or_digest_hides_past_bursts() -> None:
    for silent in (Volume.OFF, Volume.DIGEST):
        assert (
            changed(
                preference_after(PreferencePatch(volume=silent)), PreferencePatch(volume=Volume.FIRST), LATER
            ).visible_from
            == LATER
        )
        assert (
            changed(
                preference_after(PreferencePatch(volume=silent)), PreferencePatch(volume=Volume.OFF), LATER
            ).visible_from
            <= NOON
        )
    assert (
        changed(
            preference_after(PreferencePatch(volume=Volume.FIRST)), PreferencePatch(volume=Volume.ALL), LATER
        ).visible_from
        == ALWAYS
    )


@pytest.mark.parametrize("before", [Volume.DEFAULT, Volume.ALL, Volume.FIRST, Volume.OFF])
def test_digest_volume_hides_bursts_opened_before(
    before: Volume,
) -> None:
    assert (
        changed(
            preference_after(PreferencePatch(volume=before)), PreferencePatch(volume=Volume.DIGEST), LATER
        ).visible_from
        == LATER
    )
    digest = preference_after(PreferencePatch(volume=before), PreferencePatch(volume=Volume.DIGEST))
    assert changed(digest, PreferencePatch(volume=Volume.DIGEST), LATER).visible_from == NOON
    muted = preference_after(PreferencePatch(volume=before), PreferencePatch(muted_until=NEVER))
    assert changed(muted, PreferencePatch(volume=Volume.DIGEST), LATER).visible_from == NEVER


def test_leaving_off_does_not_end_a_mute() -> None:
    assert (
        preference_after(
            PreferencePatch(volume=Volume.OFF), PreferencePatch(muted_until=NEVER), PreferencePatch(volume=Volume.ALL)
        ).visible_from
        == NEVER
    )


def test_mute_ends_when_removed_or_expired() -> None:
    for until in (LATER, NEVER):
        muted = preference_after(PreferencePatch(muted_until=until))
        assert muted.is_muted(NOON)
        unmuted = changed(muted, PreferencePatch(muted_until=ALWAYS))
        assert (unmuted.is_muted(NOON), unmuted.visible_from) == (False, NOON)
    assert not preference_after(PreferencePatch(muted_until=LATER)).is_muted(LATER)
    assert preference_after(PreferencePatch(muted_until=ALWAYS)).visible_from == ALWAYS


def test_shorter_mute_replaces_a_longer_one() -> None:
    assert (
        preference_after(PreferencePatch(muted_until=NEVER), PreferencePatch(muted_until=LATER)).visible_from == LATER
    )


@pytest.mark.parametrize(
    ("patches", "kinds"),
    [
        ((), []),
        ((PreferencePatch(volume=Volume.OFF),), [SetKind.OFF]),
        ((PreferencePatch(muted_until=NEVER), PreferencePatch(volume=Volume.FIRST)), [SetKind.MUTED, SetKind.FIRST]),
        ((PreferencePatch(muted_until=LATER),), []),
        ((PreferencePatch(muted_until=NEVER), PreferencePatch(muted_until=ALWAYS)), []),
    ],
)
def test_member_sets_follow_subject_preferences(patches: tuple[PreferencePatch, ...], kinds: list[SetKind]) -> None:
    assert [*preference_after(*patches).member_sets] == kinds


def test_alert_is_suppressed_for_hidden_past_and_by_volume() -> None:
    assert not suppresses_alert(Volume.ALL, NOON, burst())
    assert suppresses_alert(Volume.ALL, NOON + timedelta(milliseconds=1), burst())
    assert suppresses_alert(Volume.FIRST, ALWAYS, burst(first_of_day=False))
    assert not suppresses_alert(Volume.FIRST, ALWAYS, burst(first_of_day=True))
