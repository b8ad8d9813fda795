"""The directory: outside ids and member numbers, both ways."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from notifier.domain.reach import MentionsAllowed, Verdict
from notifier.domain.subject import Member, UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    user: UserId
    member: Member
    deleted: bool = False
    mentions: MentionsAllowed = MentionsAllowed.ALL
    """Whose mentions this account lets through to its followers."""
    standing: Verdict = Verdict.ALL
    """How far this account's own mentions of others may carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """Sequential numeric outside ids that map to members by one entry: `u0` .. `u199999999`."""

    prefix: str
    first: int
    count: int
    member: Member
    """Of the first."""


class Directory(Protocol):
    """Durable; a number once given is never given again."""

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        """Of those who exist, in one look-up. Raises StoreUnavailable."""
        ...

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        """The way back."""
        ...

    def enrol(self, accounts: Collection[Account]) -> None:
        """Writes them as given, replacing what was known of the same users."""
        ...

    def enrol_range(self, ids: IdRange) -> None:
        """One entry, whatever its size; single accounts within it override it."""
        ...
