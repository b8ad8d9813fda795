"""Account preferences: how a change applies, and how they combine with a subject's own."""

from dataclasses import replace
from datetime import datetime, time, timedelta

import pytest

from notifier.domain.audience.tiers_and_member_sets import SetKind
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
from tests.support.domain_examples import HOUR, NOON, NOVA, OF_NOVA, SELF_NOVA, burst, viewer

MEMBER = Member(7)
LATER = NOON + HOUR
NIGHT = QuietHours(start=time(22), end=time(7))
TOKYO = AccountPreferences(quiet=NIGHT, zone="Asia/Tokyo")
"""Local time is 21:00 at noon UTC."""
ALL, FIRST, DIGEST, OFF, DEFAULT = Volume.ALL, Volume.FIRST, Volume.DIGEST, Volume.OFF, Volume.DEFAULT


def changed(before: AccountPreferences, patch: AccountPreferencesPatch, now: datetime = NOON) -> AccountPreferences:
    return before.apply(patch.change_for(MEMBER, before, now))


def own_preference(volume: Volume = DEFAULT, visible_from: datetime = ALWAYS) -> SubjectPreference:
    return SubjectPreference(subject=OF_NOVA, member=MEMBER, at=ALWAYS, volume=volume, visible_from=visible_from)


@pytest.mark.parametrize(
    ("account", "subject", "expected"),
    [
        *((OFF, subject, OFF) for subject in Volume),
        *((account, DEFAULT, account) for account in (ALL, FIRST, DIGEST)),
        *((account, subject, subject) for account in (ALL, FIRST, DIGEST) for subject in (ALL, FIRST, DIGEST, OFF)),
    ],
)
def test_own_volume_wins_unless_account_volume_is_off(account: Volume, subject: Volume, expected: Volume) -> None:
    assert effective_volume(account, subject) is expected


def test_patch_changes_only_its_own_fields() -> None:
    first = changed(DEFAULT_ACCOUNT_PREFERENCES, AccountPreferencesPatch(push=False, zone="Asia/Tokyo"))
    assert first == AccountPreferences(at=NOON, push=False, zone="Asia/Tokyo")
    second = changed(first, AccountPreferencesPatch(quiet=NIGHT, push=True, digest_hour=7), LATER)
    assert second == AccountPreferences(at=LATER, push=True, zone="Asia/Tokyo", quiet=NIGHT, digest_hour=7)


def test_change_is_later_than_the_previous_one_despite_slow_clock() -> None:
    before = changed(DEFAULT_ACCOUNT_PREFERENCES, AccountPreferencesPatch(push=False))
    assert AccountPreferencesPatch(push=True).change_for(MEMBER, before, NOON - HOUR).at == NOON + timedelta(
        milliseconds=1
    )


@pytest.mark.parametrize(
    ("before", "after", "hides_past", "hides_default_past"),
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
def test_leaving_off_or_changing_digest_hides_past_bursts(
    before: Volume, after: Volume, hides_past: bool, hides_default_past: bool
) -> None:
    loud = changed(AccountPreferences(volume=before), AccountPreferencesPatch(volume=after))
    assert (loud.visible_from == NOON, loud.default_from == NOON) == (hides_past, hides_default_past)
    silent = changed(AccountPreferences(volume=before), AccountPreferencesPatch(push=False))
    assert (silent.visible_from, silent.default_from) == (ALWAYS, ALWAYS)


def visible_since(account_wide: AccountPreferences, preference: SubjectPreference | None) -> datetime:
    preferences = {} if preference is None else {OF_NOVA: preference}
    return visible_from({OF_NOVA: NOON - HOUR}, preferences, account_wide)[OF_NOVA]


def test_silenced_bursts_stay_hidden_after_off_and_digest() -> None:
    account_wide = AccountPreferences(visible_from=NOON, default_from=LATER)
    assert visible_since(DEFAULT_ACCOUNT_PREFERENCES, None) == NOON - HOUR
    assert (
        visible_since(account_wide, None),
        visible_since(account_wide, own_preference()),
        visible_since(account_wide, own_preference(ALL)),
    ) == (
        LATER,
        LATER,
        NOON,
    )
    assert visible_since(account_wide, own_preference(visible_from=LATER + HOUR)) == LATER + HOUR
    assert visible_since(account_wide, own_preference(ALL, NEVER)) == NEVER


def test_first_own_volume_keeps_silenced_bursts_hidden() -> None:
    for volume in (ALL, FIRST):
        # Leaves the digest.
        assert PreferencePatch(volume=volume).change_for(own_preference(), LATER, DIGEST).visible_from == LATER
        # The digest was left account-wide before.
        assert PreferencePatch(volume=volume).change_for(own_preference(), LATER, ALL, NOON).visible_from == NOON
    assert PreferencePatch(volume=ALL).change_for(own_preference(FIRST), LATER, ALL, NOON).visible_from is None
    assert PreferencePatch(muted_until=NEVER).change_for(own_preference(), NOON, ALL, NOON).visible_from == NEVER


def test_removed_own_volume_restores_the_account_volume() -> None:
    assert PreferencePatch(volume=DEFAULT).change_for(own_preference(OFF), LATER).visible_from == LATER
    assert (
        PreferencePatch(volume=DEFAULT).change_for(own_preference(OFF), LATER, DIGEST).visible_from == LATER
    )  # enters the digest
    assert PreferencePatch(volume=DEFAULT).change_for(own_preference(OFF), LATER, OFF).visible_from is None
    assert own_preference(DEFAULT).member_sets == []


@pytest.mark.parametrize(
    ("account_wide", "kinds"),
    [
        (DEFAULT_ACCOUNT_PREFERENCES, []),
        (AccountPreferences(volume=OFF), [SetKind.OVERALL_OFF]),
        (AccountPreferences(volume=FIRST, push=False), [SetKind.OVERALL_FIRST, SetKind.NO_PUSH]),
        (AccountPreferences(volume=DIGEST), [SetKind.OVERALL_DIGEST]),
        (AccountPreferences(push=True), [SetKind.PUSH_OPT_IN]),
        (AccountPreferences(quiet=NIGHT), []),
    ],
)
def test_member_sets_follow_account_preferences(account_wide: AccountPreferences, kinds: list[SetKind]) -> None:
    assert [*account_wide.member_sets] == kinds


def test_account_volume_off_hides_all_but_own_mentions() -> None:
    silent = replace(viewer(), account_preferences=AccountPreferences(volume=OFF, visible_from=LATER))
    assert hidden_reason(burst(), silent, now=LATER) is HiddenReason.VOLUME
    assert list(silent.listed_subjects) == []
    owner = replace(viewer(user=NOVA), account_preferences=silent.account_preferences)
    assert hidden_reason(burst(subject=SELF_NOVA), owner, now=LATER) is None


def test_alerts_are_on_by_default_without_being_asked_for() -> None:
    assert [
        account_wide.allows_alerts
        for account_wide in (DEFAULT_ACCOUNT_PREFERENCES, AccountPreferences(push=True), AccountPreferences(push=False))
    ] == [
        True,
        True,
        False,
    ]
    asked = changed(DEFAULT_ACCOUNT_PREFERENCES, AccountPreferencesPatch(push=True))
    assert SetKind.PUSH_OPT_IN in asked.member_sets
    assert SetKind.PUSH_OPT_IN in changed(asked, AccountPreferencesPatch(quiet=NIGHT)).member_sets
    assert [*changed(asked, AccountPreferencesPatch(push=False)).member_sets] == [SetKind.NO_PUSH]


@pytest.mark.parametrize(
    ("account_wide", "now", "suppression"),
    [
        (TOKYO, NOON, None),
        (TOKYO, LATER, AlertDeferred(until=NOON + 10 * HOUR)),
        (AccountPreferences(push=False), NOON, AlertSuppressed()),
        (replace(TOKYO, push=False), LATER, AlertSuppressed()),
        (replace(TOKYO, volume=OFF), LATER, AlertSuppressed()),
    ],
)
def test_unwanted_alerts_are_dropped_and_quiet_hours_defer_them(
    account_wide: AccountPreferences, now: datetime, suppression: AlertSuppressed | AlertDeferred | None
) -> None:
    recipient = replace(viewer(), account_preferences=account_wide)
    assert suppression_of(account_wide, DEFAULT, burst(), now) == suppression
    assert may_push(burst(), recipient, now=now) is (suppression is None)
    assert may_push_after_quiet_hours(burst(), recipient, now=now) is (suppression != AlertSuppressed())


@pytest.mark.parametrize(
    ("quiet", "after_opening", "at"),
    [
        (QuietHours(start=time(9), end=time(12, 40)), 0, 45),
        (QuietHours(start=time(9), end=time(12, 45)), 0, 45),
        # Awake for only five minutes a day, between two quarter hours.
        (QuietHours(start=time(12, 35), end=time(12, 30)), 0, 30),
        (QuietHours(start=time(12, 37), end=time(12, 32)), 0, 32),
        # The alert expires at 12:43.
        (QuietHours(start=time(9), end=time(12, 40)), 24 * 60 - 43, 40),
        (QuietHours(start=time(9), end=time(12, 40)), 24 * 60 - 46, 45),
    ],
)
def test_wake_time_is_a_quarter_hour_while_awake_and_not_expired(
    quiet: QuietHours, after_opening: int, at: int
) -> None:
    deferred = burst(opened_at=NOON - timedelta(minutes=after_opening))
    assert AccountPreferences(quiet=quiet).alert_time_after_quiet(deferred, NOON) == NOON + timedelta(minutes=at)


def test_user_outside_quiet_hours_has_no_wake_time() -> None:
    assert AccountPreferences(quiet=NIGHT).alert_time_after_quiet(burst(), NOON) is None


def test_alert_preferences_do_not_change_the_inbox() -> None:
    for account_wide in (AccountPreferences(push=False), TOKYO):
        assert hidden_reason(burst(), replace(viewer(), account_preferences=account_wide), now=LATER) is None
