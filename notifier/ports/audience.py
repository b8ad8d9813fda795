"""Who was around, by hour: told by whoever saw it, read by the roll-up, and forgotten within hours or at any moment."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.follows import BlockFollows, Follow, Place
from notifier.domain.audience.tiers import SetKind, ShardSets
from notifier.domain.delivery.plan import SetHead
from notifier.domain.fencing import Stamp
from notifier.domain.ids import Member, Subject, UserId

KEPT = timedelta(hours=8)
"""For so long an hour can be read after it was told of: a roll-up that is away for longer loses what was between.

25 MB an hour where all of 200 million people look in every hour, and up to 49 MB as a server keeps strings that grow.
"""


class Activity(Protocol):
    """Asynchronous: the read path tells. Raises CacheUnavailable."""

    async def touch(self, members: Collection[Member], hour: int) -> None:
        """In one round trip; twice is once, and of two who tell at the same time neither loses the other's."""
        ...


class ActiveHours(Protocol):
    """Raises CacheUnavailable."""

    def touch(self, members: Collection[Member], hour: int) -> None:
        """As the read path does: of all who tell at the same time none loses another's."""
        ...

    def read(self, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        """Who was touched in that hour, in those of the shards where it is anybody; in one round trip."""
        ...

    def rolled_up(self, at: datetime, lasting: timedelta) -> None:
        """The roll-up's word: what was told until then is in the sets. Forgotten after `lasting`."""
        ...

    def last_rolled_up(self) -> datetime | None:
        """None when nothing was said lately, or the cache was emptied since."""
        ...


# The stays: who is in which set of the active, and until when. What the sets that workers read are made of.


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    kind: SetKind
    until: int
    """The last hour, since 1970; FOREVER for what never ends."""
    shard: int
    bits: Bits


class Stays(Protocol):
    """Durable. Raises StoreUnavailable or Full, and Poison where a stored bitmap can't be read."""

    def standing(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        """All who stay in the set in this hour: together, whatever hour each of them ends in; by shard."""
        ...

    def until(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        """Those whose stay ends with this hour, as they were put."""
        ...

    def put(self, stays: Iterable[Stay], stamp: Stamp | None = None) -> None:
        """Replaces each, unless a later stamp stands there. What is put without one is an import's, which is before
        every stamp."""
        ...

    def forget(self, hour: int) -> None:
        """Those that ended before this hour. A store that forgets by itself does so two days later, or more."""
        ...


# Who follows whom since when: the rows from which the bitmaps of followers are made, and can be made again.

Pair = tuple[Subject, Member]


class Follows(Protocol):
    """Durable. Everything raises StoreUnavailable; whoever writes again writes the same."""

    def write(self, follows: Collection[Follow]) -> None:
        """Each, unless what stands of its pair has the higher sequence. In any order, and any number of times."""
        ...

    def write_blocks(self, follows: Iterable[BlockFollows]) -> None:
        """Each in place of what stands of its subject and block. Of any size: what it takes from is read as it goes."""
        ...

    def settle_blocks(self, follows: Collection[BlockFollows]) -> Mapping[Place, BlockFollows]:
        """Each where nothing stands of its subject and block; elsewhere, what stands stays, and is told.

        Of two who settle one place at once the same row stands for both.
        """
        ...

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, bool]:
        """Whether each follows, by what stands now: the member's own word, or else the block's."""
        ...

    def followers(self, subject: Subject, shard: int) -> Bits:
        """Everybody who follows, by the same rows."""
        ...


# The member sets: followers, mutes, activity and the like, as bitmaps by shard.


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardBlob:
    kind: SetKind
    owner: Subject | None
    """None for the sets of everybody."""
    shard: int
    bits: Bits


class MemberSets(Protocol):
    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        """The sets that decide who the subject's audience is in each of these shards, as they stand now.

        Raises StoreUnavailable, or Poison where a stored bitmap can't be read.
        """
        ...

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Mapping[int, Bits]:
        """One set in those of the shards in which it is stored. Raises as `live` does."""
        ...

    def head(self, subject: Subject) -> SetHead:
        """The follower counts; all zero for a subject that nobody follows."""
        ...

    def put(self, blobs: Iterable[ShardBlob], stamp: Stamp | None = None) -> None:
        """Replaces each named shard of each named set, unless a later stamp stands there.

        What is put without one is an import's, which is before every stamp.
        """
        ...

    def put_heads(self, heads: Mapping[Subject, SetHead], stamp: Stamp | None = None) -> None:
        """The same of the counts."""
        ...
