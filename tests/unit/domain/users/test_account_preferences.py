"""What a person says of everything: how a wish changes it, and how it goes with what is said of one subject."""

from dataclasses import replace
from datetime import datetime, time, timedelta

import pytest

from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member
from notifier.domain.users.account_preferences import (
    DEFAULT_ACCOUNT_PREFERENCES,
    AccountPreferences,
    AccountPreferencesPatch,
    AlertDeferred,
    AlertSuppressed,
    suppression_of,
    visible_from,
)
from notifier.domain.users.quiet_hours import QuietHours
from notifier.domain.users.subject_preferences import (
    ALWAYS,
    NEVER,
    PreferencePatch,
    SubjectPreference,
    Volume,
    effective_volume,
)
from notifier.domain.users.visibility import HiddenReason, hidden_reason, may_push, may_push_after_quiet_hours
from tests.support.examples import HOUR, NOON, NOVA, OF_NOVA, SELF_NOVA, burst, viewer

MEMBER = Member(7)
LATER = NOON + HOUR
NIGHT = QuietHours(start=time(22), end=time(7))
TOKYO = AccountPreferences(quiet=NIGHT, zone="Asia/Tokyo")
"""There it is 21:00 at noon."""
ALL, FIRST, DIGEST, OFF, DEFAULT = Volume.ALL, Volume.FIRST, Volume.DIGEST, Volume.OFF, Volume.DEFAULT


def then(before: AccountPreferences, wish: AccountPreferencesPatch, now: datetime = NOON) -> AccountPreferences:
    return before.apply(wish.change_for(MEMBER, before, now))


def own(volume: Volume = DEFAULT, visible_from: datetime = ALWAYS) -> SubjectPreference:
    return SubjectPreference(subject=OF_NOVA, member=MEMBER, at=ALWAYS, volume=volume, visible_from=visible_from)


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
    assert effective_volume(overall, own) is found


def test_a_wish_changes_what_it_names_and_nothing_else() -> None:
    said = then(DEFAULT_ACCOUNT_PREFERENCES, AccountPreferencesPatch(push=False, zone="Asia/Tokyo"))
    assert said == AccountPreferences(at=NOON, push=False, zone="Asia/Tokyo")
    again = then(said, AccountPreferencesPatch(quiet=NIGHT, push=True, digest_hour=7), LATER)
    assert again == AccountPreferences(at=LATER, push=True, zone="Asia/Tokyo", quiet=NIGHT, digest_hour=7)


def test_every_word_is_later_than_the_one_before_though_the_clock_is_not() -> None:
    before = then(DEFAULT_ACCOUNT_PREFERENCES, AccountPreferencesPatch(push=False))
    assert AccountPreferencesPatch(push=True).change_for(MEMBER, before, NOON - HOUR).at == NOON + timedelta(
        milliseconds=1
    )


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
    said = then(AccountPreferences(volume=before), AccountPreferencesPatch(volume=after))
    assert (said.visible_from == NOON, said.default_from == NOON) == (left_off, digests)
    silent = then(AccountPreferences(volume=before), AccountPreferencesPatch(push=False))
    assert (silent.visible_from, silent.default_from) == (ALWAYS, ALWAYS)


def since(overall: AccountPreferences, want: SubjectPreference | None) -> datetime:
    wants = {} if want is None else {OF_NOVA: want}
    return visible_from({OF_NOVA: NOON - HOUR}, wants, overall)[OF_NOVA]


def test_what_off_silenced_stays_gone_everywhere_and_what_digest_did_where_nothing_else_was_said() -> None:
    left = AccountPreferences(visible_from=NOON, default_from=LATER)
    assert since(DEFAULT_ACCOUNT_PREFERENCES, None) == NOON - HOUR
    assert (since(left, None), since(left, own()), since(left, own(ALL))) == (LATER, LATER, NOON)
    assert since(left, own(visible_from=LATER + HOUR)) == LATER + HOUR
    assert since(left, own(ALL, NEVER)) == NEVER


def test_the_first_word_of_a_subject_brings_nothing_back_that_everything_s_had_silenced() -> None:
    for volume in (ALL, FIRST):
        assert (
            PreferencePatch(volume=volume).change_for(own(), LATER, DIGEST).visible_from == LATER
        )  # it leaves the digest
        assert (
            PreferencePatch(volume=volume).change_for(own(), LATER, ALL, NOON).visible_from == NOON
        )  # it was left for all before
    assert PreferencePatch(volume=ALL).change_for(own(FIRST), LATER, ALL, NOON).visible_from is None
    assert PreferencePatch(muted_until=NEVER).change_for(own(), NOON, ALL, NOON).visible_from == NEVER


def test_a_word_that_is_taken_back_leaves_a_subject_as_everything_is() -> None:
    assert PreferencePatch(volume=DEFAULT).change_for(own(OFF), LATER).visible_from == LATER
    assert (
        PreferencePatch(volume=DEFAULT).change_for(own(OFF), LATER, DIGEST).visible_from == LATER
    )  # it enters the digest
    assert PreferencePatch(volume=DEFAULT).change_for(own(OFF), LATER, OFF).visible_from is None
    assert own(DEFAULT).member_sets == []


@pytest.mark.parametrize(
    ("overall", "kinds"),
    [
        (DEFAULT_ACCOUNT_PREFERENCES, []),
        (AccountPreferences(volume=OFF), [SetKind.OVERALL_OFF]),
        (AccountPreferences(volume=FIRST, push=False), [SetKind.OVERALL_FIRST, SetKind.NO_PUSH]),
        (AccountPreferences(volume=DIGEST), [SetKind.OVERALL_DIGEST]),
        (AccountPreferences(push=True), [SetKind.ASKED]),
        (AccountPreferences(quiet=NIGHT), []),
    ],
)
def test_the_sets_that_fan_out_goes_by(overall: AccountPreferences, kinds: list[SetKind]) -> None:
    assert [*overall.member_sets] == kinds


def test_nothing_of_everything_is_nothing_but_what_is_about_oneself() -> None:
    nothing = replace(viewer(), account_preferences=AccountPreferences(volume=OFF, visible_from=LATER))
    assert hidden_reason(burst(), nothing, now=LATER) is HiddenReason.VOLUME
    assert list(nothing.listed_subjects) == []
    oneself = replace(viewer(user=NOVA), account_preferences=nothing.account_preferences)
    assert hidden_reason(burst(subject=SELF_NOVA), oneself, now=LATER) is None


def test_who_said_nothing_of_alerts_gets_them_and_has_not_asked_for_them() -> None:
    assert [
        overall.allows_alerts
        for overall in (DEFAULT_ACCOUNT_PREFERENCES, AccountPreferences(push=True), AccountPreferences(push=False))
    ] == [
        True,
        True,
        False,
    ]
    asked = then(DEFAULT_ACCOUNT_PREFERENCES, AccountPreferencesPatch(push=True))
    assert SetKind.ASKED in asked.member_sets
    assert SetKind.ASKED in then(asked, AccountPreferencesPatch(quiet=NIGHT)).member_sets
    assert [*then(asked, AccountPreferencesPatch(push=False)).member_sets] == [SetKind.NO_PUSH]


@pytest.mark.parametrize(
    ("overall", "now", "how"),
    [
        (TOKYO, NOON, None),
        (TOKYO, LATER, AlertDeferred(until=NOON + 10 * HOUR)),
        (AccountPreferences(push=False), NOON, AlertSuppressed()),
        (replace(TOKYO, push=False), LATER, AlertSuppressed()),
        (replace(TOKYO, volume=OFF), LATER, AlertSuppressed()),
    ],
)
def test_no_phone_rings_of_who_wants_no_alerts_and_of_who_sleeps_once_the_night_is_over(
    overall: AccountPreferences, now: datetime, how: AlertSuppressed | AlertDeferred | None
) -> None:
    to = replace(viewer(), account_preferences=overall)
    assert suppression_of(overall, DEFAULT, burst(), now) == how
    assert may_push(burst(), to, now=now) is (how is None)
    assert may_push_after_quiet_hours(burst(), to, now=now) is (how != AlertSuppressed())


@pytest.mark.parametrize(
    ("quiet", "after_opening", "at"),
    [
        (QuietHours(start=time(9), end=time(12, 40)), 0, 45),
        (QuietHours(start=time(9), end=time(12, 45)), 0, 45),
        # Awake for five minutes a day, and between two quarters.
        (QuietHours(start=time(12, 35), end=time(12, 30)), 0, 30),
        (QuietHours(start=time(12, 37), end=time(12, 32)), 0, 32),
        # Its day is over at 12:43.
        (QuietHours(start=time(9), end=time(12, 40)), 24 * 60 - 43, 40),
        (QuietHours(start=time(9), end=time(12, 40)), 24 * 60 - 46, 45),
    ],
)
def test_who_sleeps_is_looked_for_at_a_quarter_where_the_alert_is_worth_one_then_and_nobody_sleeps_again(
    quiet: QuietHours, after_opening: int, at: int
) -> None:
    of = burst(opened_at=NOON - timedelta(minutes=after_opening))
    assert AccountPreferences(quiet=quiet).alert_time_after_quiet(of, NOON) == NOON + timedelta(minutes=at)


def test_who_is_awake_is_not_looked_for_later() -> None:
    assert AccountPreferences(quiet=NIGHT).alert_time_after_quiet(burst(), NOON) is None


def test_the_list_is_the_same_whatever_is_said_of_alerts() -> None:
    for overall in (AccountPreferences(push=False), TOKYO):
        assert hidden_reason(burst(), replace(viewer(), account_preferences=overall), now=LATER) is None
