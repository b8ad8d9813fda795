"""Stores audience snapshots.

Each is written under its writer's name. A run of shards then chooses, in one round, which writer's snapshots apply.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, groupby
from operator import itemgetter
from typing import Any
from uuid import uuid4

from notifier.adapters.cassandra.driver.batching import Row
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.driver.statements import statement
from notifier.adapters.cassandra.schema.partitioning import shard_group_of
from notifier.codec import SnapshotFacts, pack, unpack
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import Bits, decode, encode, no_members
from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR, AudienceSnapshot, SnapshotCounts, TierSnapshot
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.ports.coordination import Clock

SHARD_RUN = 64
"""Shards chosen in one Paxos round: as many as a worker snapshots at a time."""

_PUT = statement("put_snapshot")
_CHOOSE = statement("choose_snapshot")
_CHOSEN = """
    SELECT shard, snapshot_name, chosen_at FROM snapshot_choices
    WHERE subject = ? AND seq = ? AND shard_run = ? AND shard IN ?
"""
_OF_GROUP = (
    "FROM audience_snapshots WHERE subject = ? AND seq = ? AND shard_group = ? AND snapshot_name = ? AND shard IN ?"
)
_ALL = f"SELECT shard, p0, p1, p2, push, facts {_OF_GROUP}"
_FACTS = f"SELECT shard, facts {_OF_GROUP}"
_TIER = {tier: f"SELECT shard, facts, {tier} AS members {_OF_GROUP}" for tier in TIERS}
_ALERTED = {tier: f"SELECT shard, push, {tier} AS members {_OF_GROUP}" for tier in TIERS}
_DORMANT = f"SELECT shard, push, p0, p1, p2 {_OF_GROUP}"
_LIFE = SNAPSHOT_KEPT_FOR // timedelta(seconds=1)

SnapshotName = str
"""Unique name under which a writer stores its snapshots."""


class CassandraAudienceSnapshots:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, AudienceSnapshot]:
        return read_snapshots(self._cluster, burst, self._chosen_names(burst, shards))

    def read_tier(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, TierSnapshot]:
        rows = _rows(self._cluster, _TIER[tier], burst, self._chosen_names(burst, shards))
        return {row.shard: _tier(row, tier) for row in rows}

    def read_alerted(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]:
        names = self._chosen_names(burst, shards)
        facts = {row.shard: unpack(SnapshotFacts, row.facts) for row in _rows(self._cluster, _FACTS, burst, names)}
        # Mostly no user is to be alerted, and then no bitmap is read.
        alerting = {shard: names[shard] for shard, snapshot_facts in facts.items() if snapshot_facts.may_alert(tier)}
        if tier is Tier.DORMANT:
            alerted = {row.shard: _dormant(row) for row in _rows(self._cluster, _DORMANT, burst, alerting)}
        else:
            rows = _rows(self._cluster, _ALERTED[tier], burst, alerting)
            alerted = {row.shard: decode(row.members) & decode(row.push) for row in rows}
        return dict.fromkeys(facts.keys() - alerting.keys(), no_members()) | alerted

    def read_counts(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, SnapshotCounts]:
        rows = _rows(self._cluster, _FACTS, burst, self._chosen_names(burst, shards))
        return {row.shard: unpack(SnapshotFacts, row.facts).counts(row.shard) for row in rows}

    def insert(self, burst: BurstKey, snapshots: Sequence[AudienceSnapshot]) -> Sequence[AudienceSnapshot]:
        # Snapshots are written before their name is chosen. After an interruption they are never read, and expire.
        name, now = uuid4().hex, to_ms(self._clock.now())
        self._cluster.query_each(_PUT, [_row(burst, name, snapshot) for snapshot in snapshots])
        winners = dict(self._lost_shards(burst, [snapshot.shard for snapshot in snapshots], name, now))
        existing = read_snapshots(self._cluster, burst, winners)
        if winners.keys() - existing.keys():
            raise StoreUnavailable(f"Audience snapshots of {burst} can't be read yet.")
        return [existing.get(snapshot.shard, snapshot) for snapshot in snapshots]

    def _chosen_names(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, SnapshotName]:
        # The node counts the week by its own clock. Whether a burst may still act is decided by ours.
        return chosen_names(self._cluster, burst, shards, self._clock.now() - SNAPSHOT_KEPT_FOR)

    def _lost_shards(
        self, burst: BurstKey, shards: Iterable[int], name: SnapshotName, now: int
    ) -> Iterator[tuple[int, SnapshotName]]:
        """Choose our name for the shards. Yield the shards that chose another name before, with that name.

        Raises StoreUnavailable after a lost answer. The next attempt finds the snapshots that apply, our own or another
        writer's. No snapshot is used before its writer knows that it applies.
        """
        runs = [(run, list(group)) for run, group in groupby(sorted(shards), lambda shard: shard // SHARD_RUN)]
        key = str(burst.subject), burst.seq
        groups = [[(*key, run, shard, name, now, _LIFE) for shard in group] for run, group in runs]
        applied = self._cluster.compare_and_set_batches(_CHOOSE, groups)
        if None in applied:
            raise StoreUnavailable(f"Unknown which audience snapshots of {burst} were chosen.")
        if remaining := [shard for (_, group), won in zip(runs, applied, strict=True) if not won for shard in group]:
            named = chosen_names(self._cluster, burst, remaining)
            if not named:
                raise StoreUnavailable(f"Unknown which audience snapshots of {burst} were chosen.")
            yield from named.items()
            yield from self._lost_shards(burst, set(remaining) - named.keys(), name, now)


def chosen_names(
    cluster: Cluster, burst: BurstKey, shards: Collection[int], since: datetime | None = None
) -> Mapping[int, SnapshotName]:
    """Return the chosen name of each shard.

    A quorum is enough: what it shows is decided, and a reader that misses a choice loses its own.
    """
    runs = groupby(sorted(shards), lambda shard: shard // SHARD_RUN)
    answers = cluster.query_each(_CHOSEN, [(str(burst.subject), burst.seq, run, list(group)) for run, group in runs])
    return {
        row.shard: row.snapshot_name
        for rows in answers
        for row in rows
        if since is None or from_ms(row.chosen_at) > since
    }


def read_snapshots(
    cluster: Cluster, burst: BurstKey, names: Mapping[int, SnapshotName]
) -> Mapping[int, AudienceSnapshot]:
    return {row.shard: _snapshot(row) for row in _rows(cluster, _ALL, burst, names)}


def _rows(cluster: Cluster, read: str, burst: BurstKey, names: Mapping[int, SnapshotName]) -> Iterator[Any]:
    """Read neighboring shards with one writer together."""
    kept = groupby(sorted((shard_group_of(shard), name, shard) for shard, name in names.items()), itemgetter(0, 1))
    key = str(burst.subject), burst.seq
    queries = [(*key, number, name, [shard for _, _, shard in group]) for (number, name), group in kept]
    return chain.from_iterable(cluster.query_each(read, queries))


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
        dormant=facts.dormant,
        suppressed=facts.suppressed,
    )


def _tier(row: Any, tier: Tier) -> TierSnapshot:
    facts = unpack(SnapshotFacts, row.facts)
    return TierSnapshot(
        shard=row.shard, opened_at=facts.opened_at, members=decode(row.members), alert_count=facts.alert_count(tier)
    )


def _dormant(row: Any) -> Bits:
    push = decode(row.push)
    if not push.any():
        return push
    dormant: Bits = push & ~(decode(row.p0) | decode(row.p1) | decode(row.p2))
    return dormant
