"""In-memory inbox, audience snapshots and timeline; rows have the same key as in every store."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.inbox_rows import InboxRow, InboxRows, range_of, window_of
from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR, AudienceSnapshot, SnapshotCounts, TierSnapshot
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.ports.inbox import InboxPosition
from notifier.ports.leases_queues_throttles_clock import Clock
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts

# Audience snapshots.


class MemoryAudienceSnapshots:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._audience_snapshots: dict[BurstKey, dict[int, tuple[datetime, AudienceSnapshot]]] = {}

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, AudienceSnapshot]:
        stored = self._audience_snapshots.get(burst, {})
        return {shard: stored[shard][1] for shard in shards if shard in stored}

    def read_tier(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, TierSnapshot]:
        return {shard: snapshot.for_tier(tier) for shard, snapshot in self.read(burst, shards).items()}

    def read_to_alert(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]:
        return {shard: snapshot.members_to_alert(tier) for shard, snapshot in self.read(burst, shards).items()}

    def read_counts(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, SnapshotCounts]:
        return {shard: snapshot.counts() for shard, snapshot in self.read(burst, shards).items()}

    def insert(self, burst: BurstKey, snapshots: Sequence[AudienceSnapshot]) -> Sequence[AudienceSnapshot]:
        now = self._clock.now()
        stored = self._audience_snapshots.setdefault(burst, {})
        return [stored.setdefault(snapshot.shard, (now, snapshot))[1] for snapshot in snapshots]

    def of(self, burst: BurstKey) -> Sequence[AudienceSnapshot]:
        """Return all snapshots of a burst by shard."""
        return [snapshot for _, (_, snapshot) in sorted(self._audience_snapshots.get(burst, {}).items())]

    def sweep(self, now: datetime, limit: int) -> int:
        """Delete old snapshots. The inbox's sweep calls this, because both are swept together."""
        old = [
            (burst, shard)
            for burst, stored in self._audience_snapshots.items()
            for shard, (written_at, _) in stored.items()
            if written_at + SNAPSHOT_KEPT_FOR <= now
        ][:limit]
        for burst, shard in old:
            del self._audience_snapshots[burst][shard]
        return len(old)


Partition = tuple[int, int]
"""A range and an inbox window."""

Key = tuple[BurstKey, Tier]
"""Key within the partition."""


class MemoryInboxStore:
    def __init__(self, audience_snapshots: MemoryAudienceSnapshots) -> None:
        self._audience_snapshots = audience_snapshots
        self._partitions: dict[Partition, dict[Key, InboxRow]] = {}

    def write(self, rows: Sequence[InboxRows], on_progress: Callable[[], None] = lambda: None) -> None:
        for batch in rows:
            on_progress()
            for member_range, members in zip(batch.ranges, batch.members, strict=True):
                row = InboxRow(burst=batch.burst, opened_at=batch.opened_at, tier=batch.tier, members=members)
                partition = self._partitions.setdefault((member_range, window_of(batch.opened_at)), {})
                partition[batch.burst, batch.tier] = row

    def delete_expired(self, now: datetime, limit: int) -> int:
        expired = sorted(p for p in self._partitions if p[1] < window_of(now - RETENTION))
        swept = 0
        while expired and swept < limit:
            swept += len(self._partitions.pop(expired.pop(0)))
        return swept + self._audience_snapshots.sweep(now, limit - swept) if swept < limit else swept

    def in_range(self, member_range: int) -> Iterator[InboxRow]:
        """Iterate over the rows of a range, unordered."""
        for (range_, _), stored in self._partitions.items():
            if range_ == member_range:
                yield from stored.values()

    def stored(self) -> Iterator[tuple[int, InboxRow]]:
        """Iterate over all rows with their ranges."""
        for (member_range, _), stored in sorted(self._partitions.items()):
            yield from ((member_range, stored[key]) for key in sorted(stored))


# Timeline over the in-memory bursts and inbox. Its coroutines never suspend, so the simulator can step them.


class MemoryTimeline:
    def __init__(self, bursts: MemoryBursts, inbox: MemoryInboxStore) -> None:
        self._bursts = bursts
        self._inbox = inbox

    async def bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        return self._bursts.read(keys)

    async def older_than(
        self,
        subjects: Collection[Subject],
        position: InboxPosition | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        admitted = [
            burst
            for burst in self._bursts.by_key.values()
            if burst.key.subject in subjects
            if authors is None or burst.restricted_to is None or burst.restricted_to in authors
            if since is None or burst.opened_at >= since
        ]
        positioned = ((InboxPosition(burst.opened_at, burst.key), burst) for burst in admitted)
        older = [pair for pair in positioned if position is None or pair[0] < position]
        return [burst for _, burst in sorted(older, key=lambda pair: pair[0], reverse=True)[:limit]]

    async def rows(
        self, member: Member, subjects: Collection[Subject], after: InboxPosition | None, limit: int
    ) -> Sequence[InboxRow]:
        of_subjects = (row for row in self._inbox.in_range(range_of(member)) if row.burst.subject in subjects)
        reaching = (row for row in of_subjects if row.contains(member))
        older = [row for row in reaching if after is None or _place(row) < after]
        return sorted(older, key=_place, reverse=True)[:limit]


def _place(row: InboxRow) -> InboxPosition:
    return InboxPosition(row.opened_at, row.burst)
