"""Stores audience snapshots.

Each writer stores its snapshots under a name of its own. A compare-and-set then chooses, for each shard, the name whose
snapshot counts.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, groupby
from operator import itemgetter
from typing import Any
from uuid import uuid4

from notifier.adapters.cassandra.driver.batching import Row
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import shard_group_of
from notifier.codec import SnapshotFacts, pack, unpack
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.bitmap import Bits, decode, encode, no_members
from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR, AudienceSnapshot, SnapshotCounts, TierSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.ports.leases_queues_throttles_clock import Clock

SHARDS_PER_CHOICE_PARTITION = 64
"""Shards whose chosen names share a partition and a Paxos round. A worker takes snapshots of no more shards at a time.

The number of the choice partition is stored as `shard_run`.
"""

_PUT_SNAPSHOT = load_statement("put_audience_snapshot")
_CHOOSE_SNAPSHOT = load_statement("choose_audience_snapshot")
_SELECT_CHOICES = """
    SELECT shard, snapshot_name, chosen_at FROM snapshot_choices
    WHERE subject = ? AND seq = ? AND shard_run = ? AND shard IN ?
"""
_FROM_SHARD_GROUP = (
    "FROM audience_snapshots WHERE subject = ? AND seq = ? AND shard_group = ? AND snapshot_name = ? AND shard IN ?"
)
_SELECT_SNAPSHOTS = f"SELECT shard, p0, p1, p2, push, facts {_FROM_SHARD_GROUP}"
_SELECT_FACTS = f"SELECT shard, facts {_FROM_SHARD_GROUP}"
_SELECT_TIER = {tier: f"SELECT shard, facts, {tier} AS members {_FROM_SHARD_GROUP}" for tier in TIERS}
_SELECT_TO_ALERT = {tier: f"SELECT shard, push, {tier} AS members {_FROM_SHARD_GROUP}" for tier in TIERS}
_SELECT_DORMANT = f"SELECT shard, push, p0, p1, p2 {_FROM_SHARD_GROUP}"
_TTL_SECONDS = SNAPSHOT_KEPT_FOR // timedelta(seconds=1)

SnapshotName = str


class CassandraAudienceSnapshots:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, AudienceSnapshot]:
        return read_snapshots(self._cluster, burst, self._chosen_snapshot_names(burst, shards))

    def read_tier(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, TierSnapshot]:
        rows = _read_rows(self._cluster, _SELECT_TIER[tier], burst, self._chosen_snapshot_names(burst, shards))
        return {row.shard: _tier_snapshot(row, tier) for row in rows}

    def read_to_alert(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]:
        names = self._chosen_snapshot_names(burst, shards)
        facts = {
            row.shard: unpack(SnapshotFacts, row.facts)
            for row in _read_rows(self._cluster, _SELECT_FACTS, burst, names)
        }
        # Read bitmaps only of shards that may have members to alert. In P2 and DORMANT these are few.
        alerting_names = {
            shard: names[shard] for shard, snapshot_facts in facts.items() if snapshot_facts.may_alert(tier)
        }
        if tier is Tier.DORMANT:
            to_alert = {
                row.shard: _dormant_to_alert(row)
                for row in _read_rows(self._cluster, _SELECT_DORMANT, burst, alerting_names)
            }
        else:
            rows = _read_rows(self._cluster, _SELECT_TO_ALERT[tier], burst, alerting_names)
            to_alert = {row.shard: decode(row.members) & decode(row.push) for row in rows}
        return dict.fromkeys(facts.keys() - alerting_names.keys(), no_members()) | to_alert

    def read_counts(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, SnapshotCounts]:
        rows = _read_rows(self._cluster, _SELECT_FACTS, burst, self._chosen_snapshot_names(burst, shards))
        return {row.shard: unpack(SnapshotFacts, row.facts).counts(row.shard) for row in rows}

    def insert(self, burst: BurstKey, snapshots: Sequence[AudienceSnapshot]) -> Sequence[AudienceSnapshot]:
        # Write the snapshots before their name is chosen. After a crash in between they are never read, and expire.
        name, now = uuid4().hex, to_ms(self._clock.now())
        self._cluster.query_each(_PUT_SNAPSHOT, [_row(burst, name, snapshot) for snapshot in snapshots])
        chosen_elsewhere = self._choose(burst, [snapshot.shard for snapshot in snapshots], name, now)
        existing = read_snapshots(self._cluster, burst, chosen_elsewhere)
        if chosen_elsewhere.keys() - existing.keys():
            raise StoreUnavailable(f"Audience snapshots of {burst} can't be read yet.")
        return [existing.get(snapshot.shard, snapshot) for snapshot in snapshots]

    def _chosen_snapshot_names(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, SnapshotName]:
        # Ignore choices that are too old by our own clock, because their TTL runs on the node's clock.
        return chosen_snapshot_names(self._cluster, burst, shards, self._clock.now() - SNAPSHOT_KEPT_FOR)

    def _choose(
        self, burst: BurstKey, shards: Collection[int], name: SnapshotName, now: int
    ) -> Mapping[int, SnapshotName]:
        """Choose our name for each shard that has none. Return the names of the shards that had one already.

        Raises StoreUnavailable after a lost response: a writer must know which snapshots count before it uses any.
        """
        key = str(burst.subject), burst.seq
        chosen_elsewhere: dict[int, SnapshotName] = {}
        remaining = shards
        while remaining:
            shards_by_partition = _shards_by_choice_partition(remaining)
            groups = [
                [(*key, partition, shard, name, now, _TTL_SECONDS) for shard in group]
                for partition, group in shards_by_partition
            ]
            applied = self._cluster.compare_and_set_batches(_CHOOSE_SNAPSHOT, groups)
            if None in applied:
                raise StoreUnavailable(f"Unknown which audience snapshots of {burst} were chosen.")
            refused_shards = [
                shard
                for (_, group), was_applied in zip(shards_by_partition, applied, strict=True)
                if not was_applied
                for shard in group
            ]
            if not refused_shards:
                break
            names = chosen_snapshot_names(self._cluster, burst, refused_shards)
            if not names:
                raise StoreUnavailable(f"Unknown which audience snapshots of {burst} were chosen.")
            chosen_elsewhere |= names
            # A group is refused as a whole if one of its shards has a name already. Choose again for the other shards.
            remaining = set(refused_shards) - names.keys()
        return chosen_elsewhere


def _shards_by_choice_partition(shards: Collection[int]) -> list[tuple[int, list[int]]]:
    groups = groupby(sorted(shards), lambda shard: shard // SHARDS_PER_CHOICE_PARTITION)
    return [(partition, list(group)) for partition, group in groups]


def chosen_snapshot_names(
    cluster: Cluster, burst: BurstKey, shards: Collection[int], since: datetime | None = None
) -> Mapping[int, SnapshotName]:
    """Return the chosen name of each shard that has one. With `since`, only names chosen after that time.

    A read at a quorum is enough. It may miss a name that another writer has just chosen, but then our own
    compare-and-set is refused.
    """
    results = cluster.query_each(
        _SELECT_CHOICES,
        [(str(burst.subject), burst.seq, partition, group) for partition, group in _shards_by_choice_partition(shards)],
    )
    return {
        row.shard: row.snapshot_name
        for rows in results
        for row in rows
        if since is None or from_ms(row.chosen_at) > since
    }


def read_snapshots(
    cluster: Cluster, burst: BurstKey, names: Mapping[int, SnapshotName]
) -> Mapping[int, AudienceSnapshot]:
    return {row.shard: _snapshot(row) for row in _read_rows(cluster, _SELECT_SNAPSHOTS, burst, names)}


def _read_rows(cluster: Cluster, select: str, burst: BurstKey, names: Mapping[int, SnapshotName]) -> Iterator[Any]:
    """Return the rows of the named snapshots, with one query for each shard group and name."""
    sorted_shards = sorted((shard_group_of(shard), name, shard) for shard, name in names.items())
    key = str(burst.subject), burst.seq
    queries = [
        (*key, shard_group, name, [shard for _, _, shard in group])
        for (shard_group, name), group in groupby(sorted_shards, itemgetter(0, 1))
    ]
    return chain.from_iterable(cluster.query_each(select, queries))


def _row(burst: BurstKey, name: SnapshotName, snapshot: AudienceSnapshot) -> Row:
    bitmaps = (*(encode(snapshot.tiers[tier]) for tier in TIERS), encode(snapshot.to_alert))
    return (
        str(burst.subject),
        burst.seq,
        shard_group_of(snapshot.shard),
        name,
        snapshot.shard,
        *bitmaps,
        pack(SnapshotFacts.of_snapshot(snapshot)),
    )


def _snapshot(row: Any) -> AudienceSnapshot:
    facts = unpack(SnapshotFacts, row.facts)
    return AudienceSnapshot(
        shard=row.shard,
        opened_at=facts.opened_at,
        tiers={tier: decode(getattr(row, tier)) for tier in TIERS},
        to_alert=decode(row.push),
        dormant_count=facts.dormant_count,
        suppressed_counts=facts.suppressed_counts,
    )


def _tier_snapshot(row: Any, tier: Tier) -> TierSnapshot:
    facts = unpack(SnapshotFacts, row.facts)
    return TierSnapshot(
        shard=row.shard, opened_at=facts.opened_at, members=decode(row.members), alert_count=facts.alert_count(tier)
    )


def _dormant_to_alert(row: Any) -> Bits:
    push = decode(row.push)
    if not push.any():
        return push
    dormant: Bits = push & ~(decode(row.p0) | decode(row.p1) | decode(row.p2))
    return dormant
