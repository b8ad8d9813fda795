"""Rows of an import: account flags and preferences known to the platform beforehand."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from notifier.domain.audience.account_flags import Flag, Flagged
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import Overall, OverallWish, OverallWord
from notifier.domain.users.quiet_hours import Hours
from notifier.domain.users.subject_preferences import ALWAYS, Volume, Want, Wish, Word

IMPORTED = 0
"""Sequence number of imported rows: lower than any from the account or graph service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """Imported flags of one account."""

    user: UserId
    said: Mapping[Flag, bool]
    """Values of the flags in the row. Missing flags are unchanged."""

    def flagged(self, member: Member) -> Iterable[Flagged]:
        return [Flagged(flag=flag, member=member, on=on, sequence=IMPORTED) for flag, on in self.said.items()]


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
    quiet: Hours | None = None
    zone: str | None = None

    def word(self, member: Member) -> Word | None:
        """Return the subject preference, older than any change by the user; None if the row has none."""
        if self.account is None or (self.volume is None and self.visible_from is None):
            return None
        return Word(
            subject=Subject(Kind.MENTION, self.account),
            member=member,
            at=ALWAYS,
            volume=self.volume,
            visible_from=self.visible_from,
        )

    def overall(self, member: Member) -> OverallWord | None:
        """Return the account-wide preferences, older than any change by the user; None if the row has none."""
        change = OverallWord(
            member=member, at=ALWAYS, volume=self.volume, push=self.push, quiet=self.quiet, zone=self.zone
        )
        return None if self.account is not None or change == OverallWord(member=member, at=ALWAYS) else change


def as_if_said(word: Word, before: Want, overall: Overall, now: datetime) -> Word:
    """Return the change with the `visible_from` that it would have if the user made it now.

    So a digest repeats nothing that was listed, and bursts from a digest are not listed later. The change is returned
    as it is if the user has already changed preferences for the account, or an earlier import set a volume.
    """
    if word.volume is None or before.at > ALWAYS or before.volume is not Volume.DEFAULT:
        return word
    since = Wish(volume=word.volume).heard(before, now, overall.volume, overall.default_from).visible_from
    return word if since is None else replace(word, visible_from=max(since, word.visible_from or since))


def as_if_said_of_everything(word: OverallWord, before: Overall, now: datetime) -> OverallWord:
    """Like `as_if_said`, for account-wide preferences."""
    if word.volume is None or before.at > ALWAYS or before.volume is not Volume.ALL:
        return word
    change = OverallWish(volume=word.volume).heard(word.member, before, now)
    return replace(word, visible_from=change.visible_from, default_from=change.default_from)
