"""What the core flow owes to Cassandra alone: answers that are lost, contenders, crashes between two writes."""

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
from notifier.adapters.cassandra.schema.partitioning import PARTS
from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.bursts.sequencer import Head, Sequenced
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.flow.inbox.burst_walk import place_of
from notifier.ports.inbox import InboxPosition
from tests.support.contract_examples import EVENT, NOVA, ORION, burst, mention, piece
from tests.support.fakes.clock import START, ManualClock
from tests.support.lossy_cassandra import LOST, ON_ENGINES, Losing, clock, cluster, made

__all__ = ["clock", "cluster", "made"]

pytestmark = ON_ENGINES

KEY = BurstKey(NOVA, 1)
TERM = timedelta(seconds=4)
FIRST = Head(subject=NOVA, version=1, nonce="one", applied={}, outbox=(burst(),))


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_swap_that_was_done_though_its_answer_was_lost_is_known_by_its_nonce(
    cluster: Cluster, error: Exception
) -> None:
    heads = CassandraHeads(cluster)
    assert CassandraHeads(Losing(cluster, error, done=True)).swap([FIRST]) == [True]
    second = replace(FIRST, version=2, nonce="two")
    orion = replace(FIRST, subject=ORION, nonce="o")
    assert CassandraHeads(Losing(cluster, error, done=True, times=2)).swap([second, orion]) == [True, True]
    assert heads.load([NOVA, ORION]) == {NOVA: second, ORION: orion}


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_swap_that_may_still_come_is_neither_won_nor_lost(cluster: Cluster, error: Exception) -> None:
    losing = CassandraHeads(Losing(cluster, error, done=False))
    with pytest.raises(StoreUnavailable):
        losing.swap([FIRST])
    assert CassandraHeads(cluster).load([NOVA]) == {NOVA: Head.fresh(NOVA)}
    assert losing.swap([FIRST]) == [True]


def test_a_swap_without_an_answer_is_lost_once_another_has_its_version(cluster: Cluster) -> None:
    heads = CassandraHeads(cluster)
    heads.swap([FIRST])
    late = replace(FIRST, nonce="late", seq=9)
    assert CassandraHeads(Losing(cluster, LOST[0], done=True)).swap([late]) == [False]
    assert heads.load([NOVA]) == {NOVA: FIRST}
    heads.swap([replace(FIRST, version=2, nonce="two")])
    assert CassandraHeads(Losing(cluster, LOST[0], done=False)).swap([FIRST]) == [False]


def test_of_sixteen_contenders_one_wins_each_version(cluster: Cluster) -> None:
    heads, versions = CassandraHeads(cluster), 12

    def contend(who: int) -> list[int]:
        won: list[int] = []
        while (head := heads.load([NOVA])[NOVA]).version < versions:
            mine = replace(head, version=head.version + 1, nonce=f"{who}/{head.version}")
            try:
                swapped = heads.swap([mine])
            except StoreUnavailable:  # not known yet, so it may be won: what the head says in the end decides
                swapped = [False]
            won += [mine.version] if swapped == [True] else []
        return won

    with ThreadPoolExecutor(16) as threads:
        won = sorted(version for each in threads.map(contend, range(16)) for version in each)
    assert len(won) == len(set(won))
    assert set(won) <= set(range(1, versions + 1))
    assert len(won) > versions // 2
    assert heads.load([NOVA])[NOVA].version == versions


def test_an_unfinished_head_is_found_without_its_name(cluster: Cluster) -> None:
    heads = CassandraHeads(cluster)
    heads.swap([replace(FIRST, subject=Subject(Kind.MENTION, UserId(f"s{n}"))) for n in range(300)])
    found = heads.unpublished(100)
    assert len(set(found)) == 100
    heads.swap([replace(FIRST, subject=s, version=2, nonce="two", outbox=()) for s in found])
    assert set(heads.unpublished(300)).isdisjoint(found)


@pytest.mark.parametrize("done", [True, False])
def test_a_claim_whose_answer_was_lost_is_ours_if_it_stands(cluster: Cluster, done: bool) -> None:
    claims, losing = CassandraClaims(cluster), CassandraClaims(Losing(cluster, LOST[1], done=done))
    if done:
        mine = losing.claim(piece(KEY), "one", START, START + TERM)
        assert mine is not None
        assert claims.renew(mine, START + 2 * TERM) is not None
    else:
        with pytest.raises(StoreUnavailable):
            losing.claim(piece(KEY), "one", START, START + TERM)
        assert claims.claim(piece(KEY), "two", START, START + TERM) is not None


@pytest.mark.parametrize("done", [True, False])
def test_a_renewal_whose_answer_was_lost_holds_only_if_it_stands(cluster: Cluster, done: bool) -> None:
    claims, losing = CassandraClaims(cluster), CassandraClaims(Losing(cluster, LOST[0], done=done))
    mine = claims.claim(piece(KEY), "one", START, START + TERM)
    assert mine is not None
    if done:
        assert losing.renew(mine, START + 2 * TERM) == replace(mine, until=START + 2 * TERM)
    else:
        with pytest.raises(StoreUnavailable):
            losing.renew(mine, START + 2 * TERM)
    after = claims.claim(piece(KEY), "two", START + TERM, START + 3 * TERM)
    assert (after is None) == done


def test_a_renewal_without_an_answer_is_lost_once_another_has_the_slice(cluster: Cluster) -> None:
    claims = CassandraClaims(cluster)
    mine = claims.claim(piece(KEY), "one", START, START + TERM)
    assert mine is not None
    claims.claim(piece(KEY), "two", START + TERM, START + 2 * TERM)
    assert CassandraClaims(Losing(cluster, LOST[0], done=True)).renew(mine, START + 3 * TERM) is None


def test_whoever_claims_a_slice_goes_on_where_its_holder_had_reached_to_the_last_moment(cluster: Cluster) -> None:
    claims, end = CassandraClaims(cluster), START + TERM
    held = claims.claim(piece(KEY), "one", START, end)
    assert held is not None

    def hand_back() -> None:
        claims.release(replace(held, reached=17), end)

    losing = CassandraClaims(Losing(cluster, LOST[0], at=" IF attempt", done=True, meanwhile=hand_back))
    with pytest.raises(StoreUnavailable):
        losing.claim(piece(KEY), "two", end, end)
    last = claims.claim(piece(KEY), "three", end, end + TERM)
    assert last is not None
    assert (last.attempt, last.reached) == (2, 17)


def test_of_sixteen_workers_one_gets_the_slice(cluster: Cluster) -> None:
    claims = CassandraClaims(cluster)

    def claim(who: int) -> bool | None:
        try:
            return claims.claim(piece(KEY), f"w{who}", START, START + TERM) is not None
        except StoreUnavailable:
            return None

    with ThreadPoolExecutor(16) as threads:
        told = list(threads.map(claim, range(16)))
    assert told.count(True) <= 1
    assert told.count(True) == 1 or None in told
    assert claims.claim(piece(KEY), "late", START, START + TERM) is None


def test_a_mention_is_known_only_once_its_burst_is_readable(cluster: Cluster, clock: ManualClock) -> None:
    bursts, sequenced = CassandraBursts(cluster, clock), [Sequenced(mention=mention(), seq=1)]
    for table in ("burst_runs (", "bursts_of_hour (", "mentions (", "bursts ("):
        with pytest.raises(StoreUnavailable):
            CassandraBursts(Losing(cluster, LOST[0], done=False, at=f"INTO {table}"), clock).write([burst()], sequenced)
        assert bursts.known({NOVA: [EVENT]}) == {NOVA: set()}
        assert bursts.read([KEY]) == {}
        assert CassandraRecentBursts(cluster, clock).since(START, None, 9) == []
    with pytest.raises(StoreUnavailable):
        CassandraBursts(Losing(cluster, LOST[0], done=False, at="INTO mention_ids ("), clock).write(
            [burst()], sequenced
        )
    assert bursts.known({NOVA: [EVENT]}) == {NOVA: set()}
    assert bursts.read([KEY]) == {KEY: burst()}
    bursts.write([burst()], sequenced)
    assert bursts.known({NOVA: [EVENT]}) == {NOVA: {EVENT}}


def test_a_burst_that_grows_is_not_placed_again_but_one_that_moves_or_was_not_placed_is(
    cluster: Cluster, clock: ManualClock
) -> None:
    for table in ("burst_runs (", "bursts_of_hour ("):
        losing = Losing(cluster, LOST[0], done=False, at=f"INTO {table}")
        bursts, grown = CassandraBursts(losing, clock), burst(version=2, text="grown")
        for _ in range(2):  # whoever was cut off in the middle has placed nothing
            losing.times = 1
            with pytest.raises(StoreUnavailable):
                bursts.write([burst()], [])
        bursts.write([burst()], [])
        losing.times = 1
        bursts.write([grown], [])
        assert bursts.read([KEY]) == {KEY: grown}
        with pytest.raises(StoreUnavailable):
            bursts.write([burst(version=3, opened_at=START + timedelta(seconds=1))], [])


def test_an_event_keeps_its_first_burst_though_the_second_was_written_before(
    cluster: Cluster, clock: ManualClock
) -> None:
    bursts = CassandraBursts(cluster, clock)
    for seq in (2, 1, 3):
        bursts.write([burst(seq=seq)], [Sequenced(mention=mention(), seq=seq)])
    assert [outcome.burst for outcome in bursts.outcomes(None, EVENT.id)] == [KEY]


def test_a_run_never_begins_after_any_of_its_bursts(cluster: Cluster, clock: ManualClock) -> None:
    bursts, second = CassandraBursts(cluster, clock), timedelta(seconds=1)
    bursts.write([burst(seq=1, opened_at=START), burst(seq=1_024, opened_at=START + 3 * second)], [])
    bursts.write([burst(seq=2, opened_at=START + second), burst(seq=1, version=2, opened_at=START + 2 * second)], [])
    found = cluster.execute("SELECT run, opened_at FROM burst_runs WHERE subject = %s", (str(NOVA),))
    start = int(START.timestamp() * 1_000)
    assert [tuple(row) for row in found] == [(1, start + 3_000), (0, start)]


def test_recent_bursts_of_many_subjects_come_in_order_over_hours_and_pages(
    cluster: Cluster, clock: ManualClock
) -> None:
    clock.advance(timedelta(hours=5))
    bursts, recent = CassandraBursts(cluster, clock), CassandraRecentBursts(cluster, clock)
    owners = [Subject(Kind.MENTION, UserId(f"s{n % 40}")) for n in range(400)]
    written = [burst(owner, n, opened_at=START + n * timedelta(seconds=40)) for n, owner in enumerate(owners)]
    bursts.write(written, [])
    moved = replace(written[200], version=2, opened_at=START + timedelta(hours=4.9))
    bursts.write([moved], [])
    expected = [moved, *(b for b in reversed(written) if b.key != moved.key)]
    for limit in (7, 64, 1_000):
        found: list[Burst] = []
        behind: InboxPosition | None = None
        while page := recent.since(START, behind, limit):
            assert len(page) <= limit
            found += page
            behind = place_of(page[-1])
        assert found == expected


def test_what_is_older_than_the_retention_is_not_written(cluster: Cluster, clock: ManualClock) -> None:
    bursts = CassandraBursts(cluster, clock)
    bursts.write([burst(opened_at=START - RETENTION), burst(ORION, opened_at=START - RETENTION + TERM)], [])
    assert set(bursts.read([KEY, BurstKey(ORION, 1)])) == {BurstKey(ORION, 1)}


def test_a_mention_lies_in_one_of_its_parts(cluster: Cluster, clock: ManualClock) -> None:
    many = [Sequenced(mention=replace(mention(), event=replace(EVENT, id=f"e{n}")), seq=1) for n in range(200)]
    CassandraBursts(cluster, clock).write([burst()], many)
    found = cluster.execute("SELECT part, id FROM mentions")
    assert len(found) == 200
    assert {part for part, _ in found} == set(range(PARTS))
