"""Rows of an import: what a platform knows of its accounts, and of what people want, before anybody says it here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from notifier.domain.audience.account_flags import Flag, Flagged
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import Overall, OverallWish, OverallWord
from notifier.domain.users.quiet_hours import Hours
from notifier.domain.users.subject_preferences import ALWAYS, Volume, Want, Wish, Word

IMPORTED = 0
"""The sequence of what an import says: before every word of whoever keeps the accounts, and the graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    user: UserId
    said: Mapping[Flag, bool]
    """Nothing of those that aren't named."""

    def flagged(self, member: Member) -> Iterable[Flagged]:
        return [Flagged(flag=flag, member=member, on=on, sequence=IMPORTED) for flag, on in self.said.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceRow:
    """What isn't said is None."""

    user: UserId
    account: UserId | None
    """None of everything."""
    volume: Volume | None = None
    visible_from: datetime | None = None
    """Of an account that is muted: for good, or until then."""
    push: bool | None = None
    quiet: Hours | None = None
    zone: str | None = None

    def word(self, member: Member) -> Word | None:
        """Of the account, said before all that a person ever says. None where nothing is said of one."""
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
        """The same of everything."""
        said = OverallWord(
            member=member, at=ALWAYS, volume=self.volume, push=self.push, quiet=self.quiet, zone=self.zone
        )
        return None if self.account is not None or said == OverallWord(member=member, at=ALWAYS) else said


def as_if_said(word: Word, before: Want, overall: Overall, now: datetime) -> Word:
    """With the moment that is moved for who says it now: a digest repeats nothing that was shown, and what one has
    gathered isn't shown singly. Nothing is moved for who has spoken of the account, nor twice by two imports."""
    if word.volume is None or before.at > ALWAYS or before.volume is not Volume.DEFAULT:
        return word
    since = Wish(volume=word.volume).heard(before, now, overall.volume, overall.default_from).visible_from
    return word if since is None else replace(word, visible_from=max(since, word.visible_from or since))


def as_if_said_of_everything(word: OverallWord, before: Overall, now: datetime) -> OverallWord:
    """The same of everything."""
    if word.volume is None or before.at > ALWAYS or before.volume is not Volume.ALL:
        return word
    heard = OverallWish(volume=word.volume).heard(word.member, before, now)
    return replace(word, visible_from=heard.visible_from, default_from=heard.default_from)
