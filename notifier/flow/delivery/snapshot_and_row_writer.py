"""Row writer: takes a slice's audience snapshots, and writes its inbox rows."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from notifier.domain.audience.bitmap import count
from notifier.domain.audience.inbox_rows import cut_inbox_rows
from notifier.domain.audience.snapshot import DEFAULT_PUSHED_TIERS, AudienceSnapshot, TierSnapshot, take_snapshot
from notifier.domain.audience.tiers_and_member_sets import Tier, TierRule, by_activity
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.slice_and_pool import Slice
from notifier.domain.errors import RuleFailed
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.flow.indexing.bitmap_updates_and_repair import SelfRepairingSets
from notifier.metrics import Metrics
from notifier.ports.audience import AudienceSnapshots
from notifier.ports.inbox import InboxStore
from notifier.ports.leases_queues_throttles_clock import Clock

SHARDS_PER_WRITE = 64
"""Maximum number of shards per write. A large P1 or P2 slice takes one write of about 160 ms.

SQLite splits a write into transactions, each of a few shards of one database file. The more shards a write has, the
more are in each transaction, and the less a shard costs. The worker renews its claim between the transactions.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWriter:
    """Writes the inbox rows of slices. Idempotent: a retry writes the same rows."""

    sets: SelfRepairingSets
    audience_snapshots: AudienceSnapshots
    inbox: InboxStore
    clock: Clock
    metrics: Metrics
    rule: TierRule = by_activity
    pushed_tiers: Collection[Tier] = DEFAULT_PUSHED_TIERS
    """Tiers whose members get alerts without having asked for them."""

    def __call__(self, burst: Burst, slice_: Slice, lease: SliceLease) -> LedgerEntry:
        is_on_time = self.clock.now() < burst.opened_at + slice_.pool_timing.expires_after
        people = row_count = alert_count = 0
        for snapshots in self.read_snapshots(burst, slice_.shards, slice_.tier, lease):
            people += sum(count(snapshot.members) for snapshot in snapshots)
            alert_count += sum(snapshot.alert_count for snapshot in snapshots)
            if is_on_time:
                row_count += self._write(burst, slice_, snapshots, lease)
                # Advance the checkpoint after the write: a crash before this line only repeats the write. If the slice
                # has expired, the checkpoint stays: a worker whose clock is behind may still write the rows.
                lease.advance(max(lease.claim.checkpoint, snapshots[-1].shard + 1))
        now = self.clock.now()
        if is_on_time:
            self.metrics.deliveries.labels(slice_.tier).inc(people)
            self.metrics.delivery_latency.labels(slice_.tier).observe((now - burst.accepted_at).total_seconds())
        # The snapshots of an expired slice are taken, too: the totals of the burst count their members as pulled.
        fact = Fact.DONE if is_on_time else Fact.PULLED
        return LedgerEntry(slice=slice_, fact=fact, at=now, people=people, row_count=row_count, alert_count=alert_count)

    def read_snapshots(
        self, burst: Burst, shards: Sequence[int], tier: Tier, lease: SliceLease
    ) -> Iterator[Sequence[TierSnapshot]]:
        """Yield the tier's part of each shard's audience snapshot, up to SHARDS_PER_WRITE shards at a time.

        A missing snapshot is taken from the live sets and stored. The first stored snapshot wins.
        """
        for start in range(0, len(shards), SHARDS_PER_WRITE):
            group = shards[start : start + SHARDS_PER_WRITE]
            lease.renew_or_hand_back()
            snapshots = dict(self.audience_snapshots.read_tier(burst.key, group, tier))
            if missing := [shard for shard in group if shard not in snapshots]:
                for snapshot in self.audience_snapshots.insert(burst.key, self._take_snapshots(burst, missing)):
                    snapshots[snapshot.shard] = snapshot.for_tier(tier)
            yield [snapshots[shard] for shard in group]

    def _take_snapshots(self, burst: Burst, shards: Sequence[int]) -> Sequence[AudienceSnapshot]:
        try:
            sets_by_shard = self.sets.live(burst.key.subject, shards, burst.restricted_to)
            return [
                take_snapshot(burst, shard, sets, self.rule, self.pushed_tiers)
                for shard, sets in zip(shards, sets_by_shard, strict=True)
            ]
        except RuleFailed:
            # There is no fallback to the built-in rule. If the retries fail, too, the slice becomes a dead letter, and
            # its followers see the burst by the pull path.
            self.metrics.tier_rule_failures.inc()
            raise

    def _write(self, burst: Burst, slice_: Slice, snapshots: Sequence[TierSnapshot], lease: SliceLease) -> int:
        """Write the rows of the shards from the checkpoint on. Return the row count of all shards in `snapshots`."""
        rows = [
            cut_inbox_rows(
                snapshot.members,
                burst=burst.key,
                opened_at=snapshot.opened_at,
                tier=slice_.tier,
                shard=snapshot.shard,
            )
            for snapshot in snapshots
        ]
        self.inbox.write(
            [shard_rows for shard_rows in rows if shard_rows.shard >= lease.claim.checkpoint], lease.renew_if_due
        )
        row_count = sum(shard_rows.row_count for shard_rows in rows)
        self.metrics.rows.labels(slice_.tier).inc(row_count)
        return row_count
