"""Ports of the inbox rows, the inbox timeline and the audience snapshots."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.inbox_rows import InboxRow, InboxRows
from notifier.domain.audience.snapshot import AudienceSnapshot, SnapshotCounts, TierSnapshot
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, Subject, UserId


class InboxStore(Protocol):
    def write(self, rows: Sequence[InboxRows], on_progress: Callable[[], None] = lambda: None) -> None:
        """Write the rows. They are durable on return. Idempotent: the same rows again change nothing.

        The write uses short transactions, so that an urgent tier never waits long behind bulk. `on_progress` is called
        between transactions and may raise. Raises StoreUnavailable or Full. After any error some rows may have been
        written.
        """
        ...

    def delete_expired(self, now: datetime, limit: int) -> int:
        """Delete up to about `limit` expired rows and audience snapshots; return how many were deleted.

        Return 0 if nothing expired is left, and always for stores that expire rows themselves.
        """
        ...


# Bursts and inbox rows, as the read path reads them.


@dataclass(frozen=True, slots=True, order=True)
class InboxPosition:
    """A position in a newest-first list: bursts are ordered by opening time, then by key."""

    opened_at: datetime
    burst: BurstKey


class Timeline(Protocol):
    """Asynchronous. Raises StoreUnavailable."""

    async def bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]: ...

    async def older_than(
        self,
        subjects: Collection[Subject],
        position: InboxPosition | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        """Return the newest bursts of these subjects that are older than the position, newest first, without gaps.

        Without `authors`, all bursts count. With `authors`, public bursts and bursts restricted to the followers of
        one of the authors count; all others are skipped as if they did not exist. With `since`, only bursts that
        opened at or after this time count, and the cost grows with their number.

        If it returns fewer than `limit` bursts, there are no others within the retention. Only this method makes a page
        complete.
        """
        ...

    async def rows(
        self, member: Member, subjects: Collection[Subject], after: InboxPosition | None, limit: int
    ) -> Sequence[InboxRow]:
        """Return the newest rows of these subjects that contain the member, after the position `after`, newest first.

        The cost depends on the number of subjects and of their bursts, not on other members in the same partition.
        A missing row proves nothing.
        """
        ...


# Audience snapshots: the audience of each burst in each shard. The first writer wins.


class AudienceSnapshots(Protocol):
    """Durable for a week. Blocking. Raises StoreUnavailable, and Full for writes."""

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, AudienceSnapshot]:
        """Return the snapshots of those shards that have one.

        A large snapshot is 64 KiB: callers that need only a part use the methods below.
        """
        ...

    def read_tier(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, TierSnapshot]: ...

    def read_alerted(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]: ...

    def read_counts(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, SnapshotCounts]: ...

    def insert(self, burst: BurstKey, snapshots: Sequence[AudienceSnapshot]) -> Sequence[AudienceSnapshot]:
        """Store each snapshot if its shard has none yet; return the stored snapshot of each shard, in the same order.

        On a conflict that is the snapshot of the first writer.
        """
        ...
