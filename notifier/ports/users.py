"""One person's durable facts: follows, blocks, volume and marks; the truth that the predicate is asked with."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.domain.users.account_preferences import Overall, OverallWord
from notifier.domain.users.subject_preferences import BlockMute, Want, Word
from notifier.domain.users.user_blocks import Parting
from notifier.domain.users.visibility import Mark, Viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxContext:
    """What an inbox is opened with."""

    member: Member
    viewer: Viewer
    vip: bool
    """Worth remembering for other processes: VIPs open their inboxes often, and are few."""


class People(Protocol):
    """Asynchronous: the read path. Raises StoreUnavailable, and Full where it writes."""

    async def member(self, user: UserId) -> Member | None:
        """None for a user that doesn't exist or was deleted."""
        ...

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        """Everything that decides what the person sees; one's own writes are there at once.

        Of more than MOST_BLOCKERS who block the person, the first by name, and those whom the person follows.
        """
        ...

    async def expected(self, user: UserId) -> Member | None:
        """Return the member that the user's range of ids gives, where this process remembers the range.

        It reads nothing and proves nothing: the account may be deleted, or have a number of its own. `open` tells.
        """
        ...

    async def open(self, user: UserId, expected: Member | None = None) -> InboxContext | None:
        """`member` and then `viewer` in one call. None for a user that doesn't exist or was deleted.

        The answer doesn't depend on `expected`; with the right member the account is read beside everything else.
        """
        ...

    async def see(self, member: Member, seen_at: datetime, newer: Collection[BurstKey]) -> None:
        """Moves `seen_at` forward, never back, and adds the newer bursts that were shown."""
        ...

    async def mark(self, member: Member, bursts: Collection[BurstKey], mark: Mark) -> None: ...


# Who blocks whom: the rows that a person's sight is made of, and by which a phone is spared.


class Partings(Protocol):
    """Durable. Raises StoreUnavailable; whoever writes again writes the same."""

    def write(self, partings: Collection[Parting]) -> None:
        """Each, on both sides, unless what stands of its pair has the higher sequence. In any order, and any number of
        times. Cut off, one of the two may know of it already."""
        ...


# What people want of subjects: the rows from which bitmaps of mutes and volumes are made, and can be made again.

Pair = tuple[Subject, Member]


class Wants(Protocol):
    """Durable. Everything raises StoreUnavailable; whoever writes again writes the same."""

    def write(self, words: Collection[Word]) -> None:
        """Each, unless what stands of its pair and of what it is about was said later. In any order, and any number of
        times."""
        ...

    def write_mutes(self, mutes: Iterable[BlockMute]) -> None:
        """Replaces the block's."""
        ...

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, Want]:
        """What stands by what the members said themselves; without those who said nothing."""
        ...

    def sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        """Everybody who has muted it or wants less, by the same rows; of each of the kinds, also where it is nobody."""
        ...


# What people say of everything: the rows from which everybody's bitmaps of it are made, and can be made again.


class Overalls(Protocol):
    """Durable. Everything raises StoreUnavailable; whoever writes again writes the same."""

    def write(self, words: Collection[OverallWord]) -> None:
        """Each, unless what stands of what it is about was said later. In any order, and any number of times."""
        ...

    def standing(self, members: Collection[Member]) -> Mapping[Member, Overall]:
        """Without those who said nothing."""
        ...

    def sets(self, shard: int) -> Mapping[SetKind, Bits]:
        """Everybody in the shard who wants less of everything, or no alerts, by the same rows; of each of the kinds,
        also where it is nobody."""
        ...


# What one person wants of subjects and of everything, as the person reads and says it; fan-out follows behind it.


class Preferences(Protocol):
    """Asynchronous: people wait. Raises StoreUnavailable, and Full where it writes."""

    async def read(self, member: Member) -> Mapping[Subject, Want]:
        """Of every subject of which the member, or the member's block, said something. One's own words at once."""
        ...

    async def write(self, word: Word) -> None:
        """Unless what stands of what it is about was said later."""
        ...

    async def overall(self, member: Member) -> Overall:
        """What the member says of everything. One's own words at once."""
        ...

    async def say(self, word: OverallWord) -> None:
        """Unless what stands of what it is about was said later."""
        ...
