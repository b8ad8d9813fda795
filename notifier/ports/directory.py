"""The directory: outside ids and member numbers, both ways."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from notifier.domain.audience.account_flags import Flag, Flagged, Place
from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.id_ranges import IdRange
from notifier.domain.ids import Member, UserId

LEASED = 1_024
"""Numbers that a process takes at a time, at least; those that it hasn't given when it ends are nobody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryEntry:
    user: UserId
    member: Member
    deleted: bool = False
    verified: bool = False


class Directory(Protocol):
    """Durable; a number once given is never given again. Everything raises StoreUnavailable."""

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, DirectoryEntry]:
        """Of those who exist, in one look-up."""
        ...

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        """The way back."""
        ...

    def number(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        """Of everybody, for ever: who has none is given one. The empty name is nobody's.

        Cut off, or done twice at once, all who ask are told the same; a number may be left over, and is in no set.
        """
        ...

    def lease(self, count: int) -> Member:
        """The first of so many numbers, at least one, that are nobody's but whose the caller makes them."""
        ...

    def end(self) -> Member:
        """Beyond all numbers that anybody was given or has leased."""
        ...

    def enrol(self, accounts: Collection[DirectoryEntry]) -> None:
        """Writes what is known of them, replacing what was known before.

        Their numbers are their own, leased by the caller, or beyond all that anybody was given or has leased; these are
        leased by it. Raises NumberTaken where one is somebody else's, or another is their own.
        """
        ...

    def enrol_range(self, ids: IdRange) -> None:
        """One entry, whatever its size, before any of its ids has a number; single accounts within it override it.

        Of its numbers the same is true. Raises NumberTaken where it overlaps with another one.
        """
        ...

    def range_of(self, user: UserId) -> IdRange | None:
        """The one that an id is in, and with it everybody else of that range."""
        ...


# What was said of accounts, flag by flag: the rows from which the VIPs' bitmaps are made, and can be made again.


class Flags(Protocol):
    """Durable. Everything raises StoreUnavailable, and Full where it writes; whoever writes again writes the same."""

    def write(self, flagged: Iterable[Flagged]) -> None:
        """Each, unless what stands of its place ranks higher. In any order, and any number of times."""
        ...

    def standing(self, places: Collection[Place]) -> Mapping[Place, Flagged]:
        """What stands of them; without those of which nothing was ever said."""
        ...

    def members(self, flag: Flag, shard: int) -> Bits:
        """Everybody of the shard for whom it is set, by the same rows."""
        ...
