"""Account-wide preferences, and how they combine with those of single subjects."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, no_members, with_members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.backoff_due_times_alert_ages import PUSH_LIFETIME
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import MentionsAllowed
from notifier.domain.ids import Kind, Member, Subject
from notifier.domain.users.quiet_hours import (
    NO_QUIET_HOURS,
    UTC_ZONE,
    QuietHours,
    quiet_until,
    rounded_up_to_quarter_hour,
)
from notifier.domain.users.subject_preferences import ALWAYS, SubjectPreference, Volume, effective_volume, hides_past

DEFAULT_DIGEST_HOUR = 18

_TICK = timedelta(milliseconds=1)
"""Finest time resolution that every store keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPreferencesChange:
    """One change to a member's account preferences. Fields left as None are unchanged.

    For each field the change with the latest time wins, regardless of arrival order.
    """

    member: Member
    at: datetime
    volume: Volume | None = None
    visible_from: datetime | None = None
    default_from: datetime | None = None
    push: bool | None = None
    quiet: QuietHours | None = None
    zone: str | None = None
    digest_hour: int | None = None
    mentions: MentionsAllowed | None = None


CHANGEABLE_FIELDS = tuple(
    field.name for field in fields(AccountPreferencesChange) if field.name not in ("member", "at")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPreferences:
    """A member's current account preferences, after all changes."""

    at: datetime = ALWAYS
    volume: Volume = Volume.ALL
    visible_from: datetime = ALWAYS
    """When the account-wide volume `off` ended. Bursts opened earlier are hidden, except mentions of the member."""
    default_from: datetime = ALWAYS
    """When the account-wide volume last changed to `digest`, or from `digest` to a volume that lists bursts.

    Bursts opened earlier are hidden, for subjects without their own volume.
    """
    push: bool | None = None
    """None if the member has not chosen: alerts are allowed, but were not asked for."""
    quiet: QuietHours = NO_QUIET_HOURS
    zone: str = UTC_ZONE
    """IANA time zone of the quiet hours and the digest hour."""
    digest_hour: int = DEFAULT_DIGEST_HOUR
    mentions: MentionsAllowed = MentionsAllowed.ALL
    """Authors whose mentions of the member reach the member's followers."""

    def apply(self, change: AccountPreferencesChange) -> "AccountPreferences":
        values = {name: value for name in CHANGEABLE_FIELDS if (value := getattr(change, name)) is not None}
        return replace(self, at=change.at, **values)

    @property
    def member_sets(self) -> Collection[SetKind]:
        """Return the account-wide sets that contain the member because of these preferences.

        There is no set for quiet hours: it would change all day, as the hours of members begin and end.
        """
        volume = [] if self.volume is Volume.ALL else [SetKind(f"overall_{self.volume}")]
        match self.push:
            case None:
                return volume
            case True:
                return [*volume, SetKind.PUSH_OPT_IN]
            case False:
                return [*volume, SetKind.NO_PUSH]

    @property
    def allows_alerts(self) -> bool:
        """Return False if the user switched alerts off."""
        return self.push is not False

    def quiet_until(self, now: datetime) -> datetime | None:
        return quiet_until(self.zone, self.quiet, now)

    def alert_time_after_quiet(self, burst: Burst, now: datetime) -> datetime | None:
        """Return when to send an alert that quiet hours hold back now; None outside quiet hours.

        The time is the end of the quiet hours, rounded up to a quarter hour if the alert can still be sent then.
        """
        quiet_end = self.quiet_until(now)
        if quiet_end is None:
            return None
        quarter_hour = rounded_up_to_quarter_hour(quiet_end)
        is_too_late = quarter_hour >= burst.opened_at + PUSH_LIFETIME or self.quiet_until(quarter_hour)
        return quiet_end if is_too_late else quarter_hour


DEFAULT_ACCOUNT_PREFERENCES = AccountPreferences()

ACCOUNT_PREFERENCE_SETS = (
    *(SetKind.OVERALL_OFF, SetKind.OVERALL_FIRST, SetKind.OVERALL_DIGEST),
    *(SetKind.NO_PUSH, SetKind.PUSH_OPT_IN),
)
"""Member sets that account preferences determine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPreferencesPatch:
    """A user's request to change account preferences. Fields left as None are unchanged."""

    volume: Volume | None = None
    push: bool | None = None
    quiet: QuietHours | None = None
    zone: str | None = None
    digest_hour: int | None = None
    mentions: MentionsAllowed | None = None

    def change_for(self, member: Member, before: AccountPreferences, now: datetime) -> AccountPreferencesChange:
        """Return the change that this request makes to the current preferences.

        The change is newer than the current preferences, even if those were written by a clock that is ahead.
        """
        ends_off = before.volume is Volume.OFF and self.volume not in {None, Volume.OFF}
        concerns_digest = Volume.DIGEST in {before.volume, self.volume}
        hides_opened = concerns_digest and self.volume is not None and hides_past(before.volume, self.volume)
        return AccountPreferencesChange(
            member=member,
            at=max(now, before.at + _TICK),
            volume=self.volume,
            visible_from=now if ends_off else None,
            default_from=now if hides_opened else None,
            push=self.push,
            quiet=self.quiet,
            zone=self.zone,
            digest_hour=self.digest_hour,
            mentions=self.mentions,
        )


def visible_from(
    follows: Mapping[Subject, datetime],
    subject_preferences: Mapping[Subject, SubjectPreference],
    preferences: AccountPreferences,
) -> Mapping[Subject, datetime]:
    """Return `visible_from` of followed subjects.

    It is the latest of the times that the follow, the subject preference and the account preferences set.
    """
    by_account_preferences = _visible_from_by_preferences(preferences, None)
    return {
        subject: max(
            since,
            _visible_from_by_preferences(preferences, subject_preferences[subject])
            if subject in subject_preferences
            else by_account_preferences,
        )
        for subject, since in follows.items()
    }


def _visible_from_by_preferences(
    preferences: AccountPreferences, subject_preference: SubjectPreference | None
) -> datetime:
    if subject_preference is None or subject_preference.volume is Volume.DEFAULT:
        since = max(preferences.visible_from, preferences.default_from)
        return since if subject_preference is None else max(since, subject_preference.visible_from)
    return max(preferences.visible_from, subject_preference.visible_from)


@dataclass(frozen=True, slots=True)
class AlertSuppressed:
    """The alert is suppressed, regardless of quiet hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDeferred:
    """The alert waits for the end of quiet hours."""

    until: datetime
    """When to try again."""


def suppression_of(
    preferences: AccountPreferences, subject_volume: Volume, burst: Burst, now: datetime
) -> AlertSuppressed | AlertDeferred | None:
    """Return whether account preferences suppress or defer the alert; None if it may be sent now."""
    if not preferences.allows_alerts or not _admits(preferences, subject_volume, burst):
        return AlertSuppressed()
    until = preferences.alert_time_after_quiet(burst, now)
    return None if until is None else AlertDeferred(until=until)


def _admits(preferences: AccountPreferences, subject_volume: Volume, burst: Burst) -> bool:
    if burst.key.subject.kind is Kind.SELF:
        return True
    since = (
        max(preferences.visible_from, preferences.default_from)
        if subject_volume is Volume.DEFAULT
        else preferences.visible_from
    )
    return since <= burst.opened_at and effective_volume(preferences.volume, subject_volume).admits(burst)


def account_preference_sets(preferences: Mapping[Member, AccountPreferences]) -> Mapping[SetKind, Bits]:
    """Return the sets of ACCOUNT_PREFERENCE_SETS for one shard, from the current preferences of its members."""
    return {
        kind: with_members(
            no_members(),
            {member % SHARD_MEMBERS: kind in current.member_sets for member, current in preferences.items()},
        )
        for kind in ACCOUNT_PREFERENCE_SETS
    }
