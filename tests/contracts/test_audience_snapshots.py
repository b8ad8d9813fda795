"""Audience snapshots: written once per shard, and the first writer wins."""

from collections.abc import Iterable
from datetime import timedelta

import numpy as np

from notifier.codec import pack_snapshot
from notifier.domain.audience.bitmap import all_members, from_offsets, no_members, offsets
from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR, AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.ids import BurstKey
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, audience_snapshot
from tests.support.fakes.clock_and_nonces import START

KEY = BurstKey(NOVA, 1)


def packed(audience_snapshots: Iterable[AudienceSnapshot]) -> list[tuple[int, bytes]]:
    """Return comparable bytes: bitmaps do not compare as values."""
    return [(snapshot.shard, pack_snapshot(snapshot)) for snapshot in audience_snapshots]


def test_snapshot_is_read_as_written(store: Store) -> None:
    snapshots = [audience_snapshot(shard, p1=all_members()) for shard in (1525, 0, 8, 1)]
    assert packed(store.audience_snapshots.insert(KEY, snapshots)) == packed(snapshots)
    with reopened(store) as other_process:
        stored = other_process.audience_snapshots.read(KEY, [0, 1, 2, 8, 1525])
    assert sorted(stored) == [0, 1, 8, 1525]
    assert packed(stored[snapshot.shard] for snapshot in snapshots) == packed(snapshots)


def test_part_of_snapshot_equals_the_whole(store: Store) -> None:
    snapshots = [audience_snapshot(shard, p1=all_members()) for shard in (1525, 0, 7, 8)]
    snapshots.append(
        audience_snapshot(9, p0=from_offsets([5, 6]), p1=from_offsets([7]), push=from_offsets([6, 7, 8, 1_000]))
    )
    store.audience_snapshots.insert(KEY, snapshots)
    shards = [*range(11), 1525]
    for tier in TIERS:
        parts, alerted = (
            store.audience_snapshots.read_tier(KEY, shards, tier),
            store.audience_snapshots.read_to_alert(KEY, shards, tier),
        )
        assert parts.keys() == alerted.keys() == {snapshot.shard for snapshot in snapshots}
        for snapshot in snapshots:
            part = parts[snapshot.shard]
            assert (part.shard, part.opened_at, part.alert_count) == (
                snapshot.shard,
                snapshot.opened_at,
                snapshot.alert_count(tier),
            )
            assert np.array_equal(part.members, snapshot.tiers[tier])
            assert np.array_equal(alerted[snapshot.shard], snapshot.tiers[tier] & snapshot.to_alert)
    assert store.audience_snapshots.read_counts(KEY, shards) == {
        snapshot.shard: snapshot.counts() for snapshot in snapshots
    }


def test_dormant_alerted_members_belong_to_no_tier(store: Store) -> None:
    push = from_offsets([5, 8, 1_000, 100_000])
    store.audience_snapshots.insert(
        KEY, [audience_snapshot(9, p0=from_offsets([5]), push=push), audience_snapshot(1, push=no_members())]
    )
    alerted = store.audience_snapshots.read_to_alert(KEY, [1, 2, 9], Tier.DORMANT)
    assert {shard: offsets(bits).tolist() for shard, bits in alerted.items()} == {1: [], 9: [8, 100_000]}
    assert [store.audience_snapshots.read_tier(KEY, [9], tier)[9].alert_count for tier in TIERS] == [1, 0, 3]


def test_first_snapshot_of_shard_wins_and_loser_gets_it(store: Store) -> None:
    first, late, new = audience_snapshot(3), audience_snapshot(3, p0=from_offsets([2])), audience_snapshot(11)
    store.audience_snapshots.insert(KEY, [first])
    assert packed(store.audience_snapshots.insert(KEY, [new, late])) == packed([new, first])
    assert packed(store.audience_snapshots.read(KEY, [3]).values()) == packed([first])


def test_opening_time_of_first_snapshot_wins(store: Store) -> None:
    """A burst that moved between two attempts gets a second snapshot with a later time; the first time wins."""
    moved = START + timedelta(seconds=3)
    store.audience_snapshots.insert(KEY, [audience_snapshot(3)])
    [current] = store.audience_snapshots.insert(KEY, [audience_snapshot(3, opened_at=moved)])
    assert current.opened_at == START
    for tier in TIERS:
        assert store.audience_snapshots.read_tier(KEY, [3], tier)[3].opened_at == START


def test_snapshots_of_adjacent_shards_are_both_stored(store: Store) -> None:
    first, second = audience_snapshot(3), audience_snapshot(5, p0=from_offsets([2]))
    store.audience_snapshots.insert(KEY, [first])
    store.audience_snapshots.insert(KEY, [second])
    stored = store.audience_snapshots.read(KEY, [3, 5])
    assert packed([stored[3], stored[5]]) == packed([first, second])
    assert store.audience_snapshots.read_counts(KEY, [3, 5]) == {3: first.counts(), 5: second.counts()}
    for tier in TIERS:
        parts, alerted = (
            store.audience_snapshots.read_tier(KEY, [3, 5], tier),
            store.audience_snapshots.read_to_alert(KEY, [3, 5], tier),
        )
        for snapshot in (first, second):
            assert np.array_equal(parts[snapshot.shard].members, snapshot.tiers[tier])
            assert np.array_equal(alerted[snapshot.shard], snapshot.tiers[tier] & snapshot.to_alert)


def test_each_burst_has_its_own_snapshots(store: Store) -> None:
    store.audience_snapshots.insert(KEY, [audience_snapshot(3)])
    assert store.audience_snapshots.read(BurstKey(NOVA, 2), [3]) == {}
    assert store.audience_snapshots.read(BurstKey(ORION, 1), [3]) == {}


def test_snapshot_expires_after_a_week(store: Store) -> None:
    store.audience_snapshots.insert(KEY, [audience_snapshot(shard) for shard in range(10)])
    store.clock.advance(SNAPSHOT_KEPT_FOR - timedelta(seconds=1))
    store.audience_snapshots.insert(KEY, [audience_snapshot(10)])
    assert store.inbox.delete_expired(store.clock.now(), 100) == 0
    store.clock.advance(timedelta(seconds=1))
    swept = [store.inbox.delete_expired(store.clock.now(), 4) for _ in range(4)]
    assert (sum(swept), swept[-1]) == (0 if store.expires else 10, 0)
    assert list(store.audience_snapshots.read(KEY, range(11))) == [10]
