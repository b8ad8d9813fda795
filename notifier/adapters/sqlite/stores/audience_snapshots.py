"""Stores each audience snapshot in the inbox file of its shard."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.codec import SnapshotFacts, pack, pack_snapshot, unpack, unpack_snapshot, unpack_tier_snapshot
from notifier.codec.messagepack import to_ms
from notifier.domain.audience.bitmap import Bits, no_members
from notifier.domain.audience.snapshot import AudienceSnapshot, SnapshotCounts, TierSnapshot
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.ids import BurstKey
from notifier.ports.leases_queues_throttles_clock import Clock

_FROM_SHARDS_OF_BURST = (
    "FROM audience_snapshots WHERE subject = ? AND seq = ? AND shard IN (SELECT value FROM json_each(?))"
)
_SELECT_SNAPSHOTS = f"SELECT shard, blob {_FROM_SHARDS_OF_BURST}"
_SELECT_FACTS = f"SELECT shard, facts {_FROM_SHARDS_OF_BURST}"
_INSERT_SNAPSHOT = (
    "INSERT OR IGNORE INTO audience_snapshots (subject, seq, shard, facts, blob, taken_at) VALUES (?, ?, ?, ?, ?, ?)"
)


class SqliteAudienceSnapshots:
    def __init__(self, inboxes: Sequence[Database], clock: Clock) -> None:
        self._inboxes = inboxes
        self._clock = clock

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, AudienceSnapshot]:
        return {shard: unpack_snapshot(shard, blob) for shard, blob in self._read_blobs(burst, shards)}

    # Reading a part of the blob would be no faster. Decoding takes most of the time, and is done for one tier only.
    def read_tier(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, TierSnapshot]:
        return {shard: unpack_tier_snapshot(shard, blob, tier) for shard, blob in self._read_blobs(burst, shards)}

    def read_to_alert(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]:
        facts = self._read_facts(burst, shards)
        shards_to_alert = [shard for shard, snapshot_facts in facts.items() if snapshot_facts.may_alert(tier)]
        to_alert = {
            shard: snapshot.members_to_alert(tier) for shard, snapshot in self.read(burst, shards_to_alert).items()
        }
        return dict.fromkeys(facts, no_members()) | to_alert

    def read_counts(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, SnapshotCounts]:
        return {shard: facts.counts(shard) for shard, facts in self._read_facts(burst, shards).items()}

    def insert(self, burst: BurstKey, snapshots: Sequence[AudienceSnapshot]) -> Sequence[AudienceSnapshot]:
        current = {snapshot.shard: snapshot for snapshot in snapshots}
        now = to_ms(self._clock.now())
        for db, shards in self._by_file(current):
            rows = [(str(burst.subject), burst.seq, shard, *_pack(current[shard]), now) for shard in shards]
            with db.write() as c:
                inserted = [c.execute(_INSERT_SNAPSHOT, row).rowcount == 1 for row in rows]
            existing = [shard for shard, is_inserted in zip(shards, inserted, strict=True) if not is_inserted]
            if existing:
                current |= {
                    shard: unpack_snapshot(shard, blob) for shard, blob in _read(db, _SELECT_SNAPSHOTS, burst, existing)
                }
        return [current[snapshot.shard] for snapshot in snapshots]

    def _read_blobs(self, burst: BurstKey, shards: Collection[int]) -> Iterator[tuple[int, bytes]]:
        for db, file_shards in self._by_file(shards):
            yield from _read(db, _SELECT_SNAPSHOTS, burst, file_shards)

    def _read_facts(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, SnapshotFacts]:
        rows = (
            row for db, file_shards in self._by_file(shards) for row in _read(db, _SELECT_FACTS, burst, file_shards)
        )
        return {shard: unpack(SnapshotFacts, facts) for shard, facts in rows}

    def _by_file(self, shards: Iterable[int]) -> Iterable[tuple[Database, list[int]]]:
        files: dict[int, list[int]] = defaultdict(list)
        for shard in sorted(shards):
            files[shard % len(self._inboxes)].append(shard)
        return [(self._inboxes[file], file_shards) for file, file_shards in files.items()]


def _pack(snapshot: AudienceSnapshot) -> tuple[bytes, bytes]:
    facts = SnapshotFacts.of_snapshot(snapshot)
    return pack(facts), pack_snapshot(snapshot, facts)


def _read(db: Database, sql: str, burst: BurstKey, shards: Sequence[int]) -> Sequence[tuple[int, bytes]]:
    with db.read() as c:
        return c.execute(sql, (str(burst.subject), burst.seq, json.dumps(shards))).fetchall()
