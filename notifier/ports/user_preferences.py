"""Who blocks whom: the rows that a person's sight is made of, and by which a phone is spared."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member, Subject
from notifier.domain.users.account_preferences import Overall, OverallWord
from notifier.domain.users.subject_preferences import BlockMute, Want, Word
from notifier.domain.users.user_blocks import Parting


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
