"""Rows of an import: what a platform knows of its accounts, and of what people want, before anybody says it here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from notifier.domain.account import Flag, Flagged
from notifier.domain.overall import OverallWord
from notifier.domain.quiet import Hours
from notifier.domain.subject import Kind, Member, Subject, UserId
from notifier.domain.want import ALWAYS, Volume, Word

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
