"""Rows of an import: account flags and preferences of users."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from notifier.domain.audience.account_flags import Flag, FlagRow
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import (
    AccountPreferences,
    AccountPreferencesChange,
    AccountPreferencesPatch,
)
from notifier.domain.users.quiet_hours import QuietHours
from notifier.domain.users.subject_preferences import (
    ALWAYS,
    PreferenceChange,
    PreferencePatch,
    SubjectPreference,
    Volume,
)

IMPORT_SEQUENCE = 0
"""Sequence number of imported rows: lower than any from the account or graph service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """Imported flags of one account."""

    user: UserId
    flags: Mapping[Flag, bool]
    """Values of the flags in the row. Missing flags are unchanged."""

    def flag_rows(self, member: Member) -> Iterable[FlagRow]:
        return [
            FlagRow(flag=flag, member=member, is_set=on, sequence=IMPORT_SEQUENCE) for flag, on in self.flags.items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceRow:
    """Imported preferences of one user. Fields left as None are unchanged."""

    user: UserId
    account: UserId | None
    """The account that the preferences are about; None for account-wide preferences."""
    volume: Volume | None = None
    visible_from: datetime | None = None
    """End of a mute of the account; NEVER for a permanent mute."""
    push: bool | None = None
    quiet: QuietHours | None = None
    zone: str | None = None

    def preference_change(self, member: Member) -> PreferenceChange | None:
        """Return a change that any change by the user overrides; None if the row has no subject preference."""
        if self.account is None or (self.volume is None and self.visible_from is None):
            return None
        return PreferenceChange(
            subject=Subject(Kind.MENTION, self.account),
            member=member,
            at=ALWAYS,
            volume=self.volume,
            visible_from=self.visible_from,
        )

    def account_preferences_change(self, member: Member) -> AccountPreferencesChange | None:
        """Return a change that any change by the user overrides; None if the row has no account preference."""
        change = AccountPreferencesChange(
            member=member, at=ALWAYS, volume=self.volume, push=self.push, quiet=self.quiet, zone=self.zone
        )
        return (
            None if self.account is not None or change == AccountPreferencesChange(member=member, at=ALWAYS) else change
        )


def subject_change_as_if_made_now(
    change: PreferenceChange, current: SubjectPreference, preferences: AccountPreferences, now: datetime
) -> PreferenceChange:
    """Return an imported change with the `visible_from` that it would have if the user made it now.

    Otherwise a digest could repeat bursts that were listed, or the list could show bursts that were in a digest.

    A change without a volume is returned as imported. So is a change to a preference that the user has changed, or
    whose volume an earlier import has set.
    """
    if change.volume is None or current.at > ALWAYS or current.volume is not Volume.DEFAULT:
        return change
    since = (
        PreferencePatch(volume=change.volume)
        .change_for(current, now, preferences.volume, preferences.default_from)
        .visible_from
    )
    return change if since is None else replace(change, visible_from=max(since, change.visible_from or since))


def account_change_as_if_made_now(
    imported: AccountPreferencesChange, current: AccountPreferences, now: datetime
) -> AccountPreferencesChange:
    """Return an imported change like `subject_change_as_if_made_now`, for account-wide preferences."""
    if imported.volume is None or current.at > ALWAYS or current.volume is not Volume.ALL:
        return imported
    change = AccountPreferencesPatch(volume=imported.volume).change_for(imported.member, current, now)
    return replace(imported, visible_from=change.visible_from, default_from=change.default_from)
