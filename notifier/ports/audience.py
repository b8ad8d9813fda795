"""Ports of user activity, follows, active sets, member bitmaps and audience snapshots."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.follows import BlockFollows, BlockKey, Follow
from notifier.domain.audience.snapshot import AudienceSnapshot, SnapshotCounts, TierSnapshot
from notifier.domain.audience.tiers_and_member_sets import SetKind, ShardSets, Tier
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.fencing import FencingToken
from notifier.domain.ids import BurstKey, Member, Subject, UserId

ACTIVITY_KEPT_FOR = timedelta(hours=8)
"""How long the activity of an hour is kept. A roll-up that is down for longer misses the hours that expired.

The bitmap of an hour with all of 200 million users has 25 MB. Redis may allocate up to 49 MB for it, because growing
strings get spare room.
"""


class Activity(Protocol):
    """Activity as the read path reports it. Asynchronous. Raises CacheUnavailable."""

    async def touch(self, members: Collection[Member], hour: int) -> None:
        """Record that the members were active in the hour. Idempotent. Concurrent calls all count."""
        ...


class ActiveHours(Protocol):
    """Activity by hour, kept in a cache that may be emptied at any time. Blocking. Raises CacheUnavailable."""

    def touch(self, members: Collection[Member], hour: int) -> None:
        """Record that the members were active in the hour. Idempotent. Concurrent calls all count."""
        ...

    def read(self, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        """Return the members active in that hour, by shard. Empty shards are missing."""
        ...

    def record_roll_up(self, at: datetime, ttl: timedelta) -> None:
        """Record that the active sets contain all activity touched before `at`. The record expires after `ttl`."""
        ...

    def last_roll_up(self) -> datetime | None:
        """Return the time of the last roll-up; None if it is not known."""
        ...


# Active sets: members that were active, in entries that expire. The bitmaps of active members are made from them.


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveSetEntry:
    """Members of one active set and shard that leave the set after the same hour."""

    kind: SetKind
    last_hour: int
    """Last hour in which these members belong to the set, in hours since 1970; FOREVER if they never leave it."""
    shard: int
    bits: Bits


class ActiveSets(Protocol):
    """Active-set entries. Durable. Blocking.

    Raises StoreUnavailable or DiskFull, and Poison if a stored bitmap cannot be read.
    """

    def read_active(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        """Return the members of the set in `hour`, by shard: those with an entry whose last hour is `hour` or later."""
        ...

    def read_expiring(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        """Return the members of the stored entry with the last hour `hour`, by shard."""
        ...

    def put(self, entries: Iterable[ActiveSetEntry], token: FencingToken | None = None) -> None:
        """Replace the stored entries of the same kind, last hour and shard, except those with a higher fencing token.

        A write without a token loses to any write with one.
        """
        ...

    def delete_expired(self, hour: int) -> None:
        """Delete entries whose last hour is before `hour`. A store with TTLs does nothing."""
        ...


# Follows: rows with the start of each follow. The follower bitmaps can be rebuilt from them.

SubjectAndMember = tuple[Subject, Member]


class Follows(Protocol):
    """Follow rows of members and blocks. Durable and idempotent. Blocking.

    Every method raises StoreUnavailable, and DiskFull for writes.
    """

    def write(self, follows: Collection[Follow]) -> None:
        """Store each follow unless the stored one of its pair wins (`Follow.sequence`). Calls may come in any order."""
        ...

    def write_blocks(self, follows: Iterable[BlockFollows]) -> None:
        """Replace the stored row of each subject and block. The input may be of any size and is read lazily."""
        ...

    def insert_blocks(self, follows: Collection[BlockFollows]) -> Mapping[BlockKey, BlockFollows]:
        """Store each row if its subject and block have none yet; return the existing rows, which are kept.

        Of two concurrent callers for one subject and block, one stores its row, and the other gets that row.
        """
        ...

    def read_current(self, pairs: Collection[SubjectAndMember]) -> Mapping[SubjectAndMember, bool]:
        """Return whether each member follows: the member's own row decides, otherwise the block's row."""
        ...

    def followers(self, subject: Subject, shard: int) -> Bits:
        """Return all followers in the shard, according to the rows of members and blocks."""
        ...


# Member sets: followers, mutes, activity and others, as bitmaps by shard.


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardBitmap:
    """Bitmap of one member set in one shard."""

    kind: SetKind
    owner: Subject | None
    """None for account-wide sets, which belong to no subject."""
    shard: int
    bits: Bits


class MemberSets(Protocol):
    """Member sets as bitmaps, and follower counts.

    Durable. Blocking. Raises StoreUnavailable, and DiskFull for writes.
    """

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        """Return for each shard the current sets that decide the subject's audience.

        With `restricted_to`, the sets include the followers of that account. Raises Poison if a stored bitmap cannot be
        read.
        """
        ...

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Mapping[int, Bits]:
        """Return the bitmaps of one set, without shards in which none is stored. Raises Poison like `live`."""
        ...

    def follower_counts(self, subject: Subject) -> FollowerCounts:
        """Return the follower counts; all are zero for a subject without followers."""
        ...

    def put(self, bitmaps: Iterable[ShardBitmap], token: FencingToken | None = None) -> None:
        """Replace the stored bitmap of each set and shard, unless it has a higher fencing token.

        A write without a token loses to any write with one.
        """
        ...

    def put_follower_counts(self, counts: Mapping[Subject, FollowerCounts], token: FencingToken | None = None) -> None:
        """Replace the follower counts, with the same rule for fencing tokens as `put`."""
        ...


# Audience snapshots: the audience of each burst in each shard. The first writer wins.


class AudienceSnapshots(Protocol):
    """Audience snapshots, kept for a week. Blocking.

    Raises StoreUnavailable, DiskFull for writes, and Poison for a damaged snapshot.

    Durable, but on SQLite a power cut may undo the latest snapshots, with all rows that were written from them.
    """

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, AudienceSnapshot]:
        """Return the snapshots of those shards that have one.

        A large snapshot is 64 KiB: callers that need only a part use the methods below.
        """
        ...

    def read_tier(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, TierSnapshot]:
        """Return the tier's part of the shards' snapshots."""
        ...

    def read_to_alert(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]:
        """Return the tier's members to alert, by shard."""
        ...

    def read_counts(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, SnapshotCounts]: ...

    def insert(self, burst: BurstKey, snapshots: Sequence[AudienceSnapshot]) -> Sequence[AudienceSnapshot]:
        """Store each snapshot if its shard has none yet; return each shard's stored snapshot, in the same order."""
        ...
