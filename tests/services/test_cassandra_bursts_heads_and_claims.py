"""Bursts, heads and claims on Cassandra: lost answers, contention, and crashes between writes."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.adapters.cassandra import (
    CassandraBursts,
    CassandraClaims,
    CassandraHeads,
    CassandraRecentBursts,
    Cluster,
)
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import BUCKETS
from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.bursts.sequencer import Head, SequencedMention
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.flow.inbox.burst_walk import position_of
from notifier.ports.inbox import InboxPosition
from tests.support.cassandra_keyspace import ON_ENGINES, clock, cluster, shared_cluster
from tests.support.contract_examples import EVENT, NOVA, ORION, burst, mention, slice_of
from tests.support.fakes.clock_and_nonces import START, ManualClock
from tests.support.lossy_cassandra import LOST, LossyCluster

__all__ = ["clock", "cluster", "shared_cluster"]

pytestmark = ON_ENGINES

KEY = BurstKey(NOVA, 1)
TERM = timedelta(seconds=4)
FIRST = Head(subject=NOVA, version=1, nonce="one", applied={}, outbox=(burst(),))


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_swap_with_lost_answer_is_recognized_by_nonce(cluster: Cluster, error: Exception) -> None:
    heads = CassandraHeads(cluster)
    assert CassandraHeads(LossyCluster(cluster, error, done=True)).compare_and_set([FIRST]) == [True]
    second = replace(FIRST, version=2, nonce="two")
    orion = replace(FIRST, subject=ORION, nonce="o")
    assert CassandraHeads(LossyCluster(cluster, error, done=True, times=2)).compare_and_set([second, orion]) == [
        True,
        True,
    ]
    assert heads.load([NOVA, ORION]) == {NOVA: second, ORION: orion}


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_swap_with_unknown_result_raises(cluster: Cluster, error: Exception) -> None:
    lossy = CassandraHeads(LossyCluster(cluster, error, done=False))
    with pytest.raises(StoreUnavailable):
        lossy.compare_and_set([FIRST])
    assert CassandraHeads(cluster).load([NOVA]) == {NOVA: Head.empty(NOVA)}
    assert lossy.compare_and_set([FIRST]) == [True]


def test_swap_with_lost_answer_loses_to_same_version(cluster: Cluster) -> None:
    heads = CassandraHeads(cluster)
    heads.compare_and_set([FIRST])
    late = replace(FIRST, nonce="late", seq=9)
    assert CassandraHeads(LossyCluster(cluster, LOST[0], done=True)).compare_and_set([late]) == [False]
    assert heads.load([NOVA]) == {NOVA: FIRST}
    heads.compare_and_set([replace(FIRST, version=2, nonce="two")])
    assert CassandraHeads(LossyCluster(cluster, LOST[0], done=False)).compare_and_set([FIRST]) == [False]


def test_at_most_one_of_sixteen_contenders_wins_each_version(cluster: Cluster) -> None:
    heads, versions = CassandraHeads(cluster), 12

    def contend(number: int) -> list[int]:
        won: list[int] = []
        while (head := heads.load([NOVA])[NOVA]).version < versions:
            next_head = replace(head, version=head.version + 1, nonce=f"{number}/{head.version}")
            try:
                swapped = heads.compare_and_set([next_head])
            except StoreUnavailable:  # the result is unknown and may be a success: the head decides in the end
                swapped = [False]
            won += [next_head.version] if swapped == [True] else []
        return won

    with ThreadPoolExecutor(16) as threads:
        won = sorted(version for versions_won in threads.map(contend, range(16)) for version in versions_won)
    assert len(won) == len(set(won))
    assert set(won) <= set(range(1, versions + 1))
    assert len(won) > versions // 2
    assert heads.load([NOVA])[NOVA].version == versions


def test_unpublished_head_is_found_without_its_subject(cluster: Cluster) -> None:
    heads = CassandraHeads(cluster)
    heads.compare_and_set([replace(FIRST, subject=Subject(Kind.MENTION, UserId(f"s{n}"))) for n in range(300)])
    unpublished = heads.unpublished(100)
    assert len(set(unpublished)) == 100
    heads.compare_and_set(
        [replace(FIRST, subject=subject, version=2, nonce="two", outbox=()) for subject in unpublished]
    )
    assert set(heads.unpublished(300)).isdisjoint(unpublished)


@pytest.mark.parametrize("done", [True, False])
def test_claim_with_lost_answer_is_ours_if_it_was_written(cluster: Cluster, done: bool) -> None:
    claims, lossy = CassandraClaims(cluster), CassandraClaims(LossyCluster(cluster, LOST[1], done=done))
    if done:
        claim = lossy.claim(slice_of(KEY), "one", START, START + TERM)
        assert claim is not None
        assert claims.renew(claim, START + 2 * TERM) is not None
    else:
        with pytest.raises(StoreUnavailable):
            lossy.claim(slice_of(KEY), "one", START, START + TERM)
        assert claims.claim(slice_of(KEY), "two", START, START + TERM) is not None


@pytest.mark.parametrize("done", [True, False])
def test_renewal_with_lost_answer_holds_if_it_was_written(cluster: Cluster, done: bool) -> None:
    claims, lossy = CassandraClaims(cluster), CassandraClaims(LossyCluster(cluster, LOST[0], done=done))
    claim = claims.claim(slice_of(KEY), "one", START, START + TERM)
    assert claim is not None
    if done:
        assert lossy.renew(claim, START + 2 * TERM) == replace(claim, until=START + 2 * TERM)
    else:
        with pytest.raises(StoreUnavailable):
            lossy.renew(claim, START + 2 * TERM)
    later_claim = claims.claim(slice_of(KEY), "two", START + TERM, START + 3 * TERM)
    assert (later_claim is None) == done


def test_renewal_with_lost_answer_fails_if_slice_was_claimed(cluster: Cluster) -> None:
    claims = CassandraClaims(cluster)
    claim = claims.claim(slice_of(KEY), "one", START, START + TERM)
    assert claim is not None
    claims.claim(slice_of(KEY), "two", START + TERM, START + 2 * TERM)
    assert CassandraClaims(LossyCluster(cluster, LOST[0], done=True)).renew(claim, START + 3 * TERM) is None


def test_next_claim_continues_from_last_reported_progress(cluster: Cluster) -> None:
    claims, end = CassandraClaims(cluster), START + TERM
    first_claim = claims.claim(slice_of(KEY), "one", START, end)
    assert first_claim is not None

    def hand_back() -> None:
        claims.release(replace(first_claim, checkpoint=17), end)

    lossy = CassandraClaims(LossyCluster(cluster, LOST[0], at=" IF attempt", done=True, meanwhile=hand_back))
    with pytest.raises(StoreUnavailable):
        lossy.claim(slice_of(KEY), "two", end, end)
    next_claim = claims.claim(slice_of(KEY), "three", end, end + TERM)
    assert next_claim is not None
    assert (next_claim.number, next_claim.checkpoint) == (2, 17)


def test_at_most_one_of_sixteen_workers_gets_the_slice(cluster: Cluster) -> None:
    claims = CassandraClaims(cluster)

    def claim(number: int) -> bool | None:
        try:
            return claims.claim(slice_of(KEY), f"w{number}", START, START + TERM) is not None
        except StoreUnavailable:
            return None

    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(claim, range(16)))
    assert results.count(True) <= 1
    assert results.count(True) == 1 or None in results
    assert claims.claim(slice_of(KEY), "late", START, START + TERM) is None


def test_mention_is_known_only_when_its_burst_is_readable(cluster: Cluster, clock: ManualClock) -> None:
    bursts, sequenced = CassandraBursts(cluster, clock), [SequencedMention(mention=mention(), seq=1)]
    for table in ("burst_runs (", "bursts_by_hour (", "mentions (", "bursts ("):
        with pytest.raises(StoreUnavailable):
            CassandraBursts(LossyCluster(cluster, LOST[0], done=False, at=f"INTO {table}"), clock).write(
                [burst()], sequenced
            )
        assert bursts.known_events({NOVA: [EVENT]}) == {NOVA: set()}
        assert bursts.read([KEY]) == {}
        assert CassandraRecentBursts(cluster, clock).opened_since(START, None, 9) == []
    with pytest.raises(StoreUnavailable):
        CassandraBursts(LossyCluster(cluster, LOST[0], done=False, at="INTO mention_ids ("), clock).write(
            [burst()], sequenced
        )
    assert bursts.known_events({NOVA: [EVENT]}) == {NOVA: set()}
    assert bursts.read([KEY]) == {KEY: burst()}
    bursts.write([burst()], sequenced)
    assert bursts.known_events({NOVA: [EVENT]}) == {NOVA: {EVENT}}


def test_only_moved_or_unplaced_burst_is_placed_again(cluster: Cluster, clock: ManualClock) -> None:
    for table in ("burst_runs (", "bursts_by_hour ("):
        lossy = LossyCluster(cluster, LOST[0], done=False, at=f"INTO {table}")
        bursts, grown = CassandraBursts(lossy, clock), burst(version=2, text="grown")
        for _ in range(2):  # a process that crashed halfway has placed nothing
            lossy.times = 1
            with pytest.raises(StoreUnavailable):
                bursts.write([burst()], [])
        bursts.write([burst()], [])
        lossy.times = 1
        bursts.write([grown], [])
        assert bursts.read([KEY]) == {KEY: grown}
        with pytest.raises(StoreUnavailable):
            bursts.write([burst(version=3, opened_at=START + timedelta(seconds=1))], [])


def test_event_keeps_its_lowest_burst_in_any_write_order(cluster: Cluster, clock: ManualClock) -> None:
    bursts = CassandraBursts(cluster, clock)
    for seq in (2, 1, 3):
        bursts.write([burst(seq=seq)], [SequencedMention(mention=mention(), seq=seq)])
    assert [outcome.burst for outcome in bursts.outcomes(None, EVENT.id)] == [KEY]


def test_run_never_starts_after_any_of_its_bursts(cluster: Cluster, clock: ManualClock) -> None:
    bursts, second = CassandraBursts(cluster, clock), timedelta(seconds=1)
    bursts.write([burst(seq=1, opened_at=START), burst(seq=1_024, opened_at=START + 3 * second)], [])
    bursts.write([burst(seq=2, opened_at=START + second), burst(seq=1, version=2, opened_at=START + 2 * second)], [])
    runs = cluster.execute("SELECT run, opened_at FROM burst_runs WHERE subject = %s", (str(NOVA),))
    start = int(START.timestamp() * 1_000)
    assert [tuple(row) for row in runs] == [(1, start + 3_000), (0, start)]


def test_recent_bursts_are_ordered_across_hours_and_pages(cluster: Cluster, clock: ManualClock) -> None:
    clock.advance(timedelta(hours=5))
    bursts, recent = CassandraBursts(cluster, clock), CassandraRecentBursts(cluster, clock)
    owners = [Subject(Kind.MENTION, UserId(f"s{n % 40}")) for n in range(400)]
    written = [burst(owner, n, opened_at=START + n * timedelta(seconds=40)) for n, owner in enumerate(owners)]
    bursts.write(written, [])
    moved = replace(written[200], version=2, opened_at=START + timedelta(hours=4.9))
    bursts.write([moved], [])
    expected = [moved, *(b for b in reversed(written) if b.key != moved.key)]
    for limit in (7, 64, 1_000):
        bursts_read: list[Burst] = []
        position: InboxPosition | None = None
        while page := recent.opened_since(START, position, limit):
            assert len(page) <= limit
            bursts_read += page
            position = position_of(page[-1])
        assert bursts_read == expected


def test_burst_older_than_retention_is_not_written(cluster: Cluster, clock: ManualClock) -> None:
    bursts = CassandraBursts(cluster, clock)
    bursts.write([burst(opened_at=START - RETENTION), burst(ORION, opened_at=START - RETENTION + TERM)], [])
    assert set(bursts.read([KEY, BurstKey(ORION, 1)])) == {BurstKey(ORION, 1)}


def test_mentions_are_spread_over_all_partitions(cluster: Cluster, clock: ManualClock) -> None:
    mentions = [
        SequencedMention(mention=replace(mention(), event=replace(EVENT, id=f"e{n}")), seq=1) for n in range(200)
    ]
    CassandraBursts(cluster, clock).write([burst()], mentions)
    rows = cluster.execute("SELECT bucket, id FROM mentions")
    assert len(rows) == 200
    assert {bucket for bucket, _ in rows} == set(range(BUCKETS))
