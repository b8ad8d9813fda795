"""Directory, follows and marks on Cassandra: TTLs, late writes, pages and hung nodes."""

import asyncio
import sys
from asyncio import run
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT

from notifier.adapters.cassandra import (
    AsyncQueries,
    CassandraAccess,
    CassandraDirectory,
    CassandraMemberSets,
    CassandraPeople,
    CassandraPushSuppressions,
    Cluster,
)
from notifier.adapters.cassandra.driver.session import MAX_IN_FLIGHT_PER_CALL
from notifier.adapters.cassandra.stores.follows import CassandraFollows
from notifier.codec.messagepack import to_ms
from notifier.devkit.engines.engine_process import Engine, free_port
from notifier.devkit.engines.maven import missing_tools
from notifier.domain.audience.bitmap import BLOCK_BYTES, SHARD_BLOCKS, SHARD_MEMBERS, all_members, members, no_members
from notifier.domain.audience.follows import BlockFollows
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.visibility import Mark, Viewer
from notifier.ports.audience import ShardBitmap
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.support.cassandra_keyspace import keyspace, patient_queries, truncated
from tests.support.contract_examples import NOVA, burst
from tests.support.fakes.clock_and_nonces import START, ManualClock

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        bool(missing_tools()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing_tools())}"
    ),
]

ADA = DirectoryEntry(user=UserId("ada"), member=Member(1_024 * 200 + 9))
KEY, OTHER_KEY = BurstKey(NOVA, 1), BurstKey(NOVA, 2)
DAY = 86_400
DEADLINE = timedelta(milliseconds=500)


@pytest.fixture(scope="module")
def shared_cluster(cassandra: CassandraAccess) -> Iterator[Cluster]:
    with keyspace(cassandra) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    return truncated(shared_cluster)


@pytest.fixture
def people(cluster: Cluster) -> CassandraPeople:
    CassandraDirectory(cluster).enrol([ADA])
    return CassandraPeople(patient_queries(cluster), ManualClock())


def viewer(people: CassandraPeople) -> Viewer:
    return run(people.viewer(ADA.user, ADA.member))


def insert_burst(cluster: Cluster, key: BurstKey, age: timedelta) -> None:
    cluster.query(
        "INSERT INTO bursts (subject, run, seq, opened_at) VALUES (?, ?, ?, ?)",
        (str(key.subject), key.seq // 1_024, key.seq, to_ms(START - age)),
    )


def ttls(cluster: Cluster, table: str) -> list[int | None]:
    """Return the TTL of each mark, or of each burst seen, in the order of the bursts."""
    rows = cluster.execute(f"SELECT seq, ttl(mark) AS of_mark, ttl(also_seen) AS of_seen FROM {table}")
    return [row.of_mark if row.of_mark is not None else row.of_seen for row in sorted(rows)]


@pytest.mark.parametrize("action", ["mark", "see"])
def test_mark_lives_as_long_as_its_burst(cluster: Cluster, people: CassandraPeople, action: str) -> None:
    half_expired, expired, unknown = (BurstKey(NOVA, seq) for seq in (5_000, 5_001, 5_002))
    insert_burst(cluster, half_expired, RETENTION / 2)
    insert_burst(cluster, expired, RETENTION)
    keys = [half_expired, expired, unknown]
    run(people.mark(ADA.member, keys, Mark.READ) if action == "mark" else people.mark_seen(ADA.member, START, keys))
    half_ttl, unknown_ttl = ttls(cluster, "marks")
    assert half_ttl is not None
    assert unknown_ttl is not None
    assert 44 * DAY < half_ttl <= 45 * DAY
    assert 90 * DAY < unknown_ttl <= 91 * DAY
    assert all(ttl is not None and 7 * DAY < ttl <= 8 * DAY for ttl in ttls(cluster, "marks_by_burst"))


def test_burst_can_be_both_marked_and_seen(people: CassandraPeople) -> None:
    run(people.mark_seen(ADA.member, START, [KEY]))
    run(people.mark(ADA.member, [KEY], Mark.READ))
    run(people.mark_seen(ADA.member, START, [KEY, OTHER_KEY]))
    marks = viewer(people).marks
    assert marks.also_seen == {KEY, OTHER_KEY}
    assert marks.by_burst == {KEY: Mark.READ}


def test_late_write_of_earlier_visit_changes_nothing(cluster: Cluster, people: CassandraPeople) -> None:
    run(people.mark_seen(ADA.member, START + timedelta(hours=1), []))
    other_people = CassandraPeople(patient_queries(cluster), ManualClock())
    run(other_people.mark_seen(ADA.member, START - timedelta(hours=1), []))
    assert viewer(people).marks.seen_at == START + timedelta(hours=1)
    assert members(CassandraPushSuppressions(cluster).read(burst(), [1], START)[1].suppressed, 1) == [ADA.member]
    assert cluster.execute("SELECT seen_at, writetime(seen_at) AS at FROM seen") == [
        (to_ms(START + timedelta(hours=1)), to_ms(START + timedelta(hours=1)) * 1_000)
    ]


def test_viewer_is_read_across_pages_of_the_driver(cluster: Cluster, people: CassandraPeople) -> None:
    subjects = [Subject(Kind.MENTION, UserId(f"star{n}")) for n in range(3_000)]
    bitmap = b"\xff" * BLOCK_BYTES
    CassandraFollows(cluster).write_blocks(
        BlockFollows(subject=subject, block=200, visible_from=START, members=bitmap) for subject in subjects
    )
    cluster.query_each(
        "INSERT INTO follows (block, slot, subject, visible_from) VALUES (200, 9, ?, ?)",
        [(f"mention:own{n}", to_ms(START)) for n in range(3_000)],
    )
    cluster.query_each(
        "INSERT INTO marks (block, member, subject, seq, mark) VALUES (200, ?, 'mention:nova', ?, 'read')",
        [(ADA.member, seq) for seq in range(5_500)],
    )
    loaded = viewer(people)
    assert len(loaded.follows) == 6_000
    assert set(subjects) < set(loaded.follows)
    assert len(loaded.marks.by_burst) == 5_500


def test_import_of_many_shards_is_stored_in_both_tables(cluster: Cluster, people: CassandraPeople) -> None:
    sets, shards = CassandraMemberSets(cluster), range(40)
    sets.put(ShardBitmap(kind=SetKind.FOLLOWERS, owner=NOVA, shard=shard, bits=all_members()) for shard in shards)
    bitmap = b"\xff" * BLOCK_BYTES
    blocks = range(len(shards) * SHARD_BLOCKS)
    CassandraFollows(cluster).write_blocks(
        BlockFollows(subject=NOVA, block=block, visible_from=START, members=bitmap) for block in reversed(blocks)
    )
    for table in ("follows", "follows_by_subject"):
        rows = cluster.execute(f"SELECT block FROM {table} WHERE slot = 1024 ALLOW FILTERING")
        assert sorted(row.block for row in rows) == list(blocks)
    assert viewer(people).follows == {NOVA: START}
    earlier_burst = burst(opened_at=START - timedelta(milliseconds=1))
    assert [
        int(np.bitwise_count(CassandraPushSuppressions(cluster).read(opened_burst, [39], START)[39].suppressed).sum())
        for opened_burst in (earlier_burst, burst())
    ] == [
        SHARD_MEMBERS,
        0,
    ]


def test_unreadable_stored_bitmap_is_poison(cluster: Cluster) -> None:
    insert = "INSERT INTO member_sets (owner, shard_group, shard, kind, blob) VALUES (%s, 0, 0, 'followers', 0x78)"
    cluster.execute(insert, [str(NOVA)])
    with pytest.raises(Poison):
        CassandraMemberSets(cluster).live(NOVA, [0])


class RecordingCluster(Cluster):
    """Records its concurrent queries, and does not answer the first few."""

    def __init__(self, access: CassandraAccess, *, silent: int = 0) -> None:
        super().__init__(access)
        self.sent_queries: list[list[tuple[str, tuple[object, ...]]]] = []
        self._silent = silent

    def query_all(
        self,
        queries: Iterable[tuple[str, Sequence[object]]],
        *,
        profile: object = EXEC_PROFILE_DEFAULT,
        max_in_flight: int = MAX_IN_FLIGHT_PER_CALL,
    ) -> list[list[Any]]:
        self.sent_queries.append([(statement, tuple(values)) for statement, values in queries])
        if len(self.sent_queries) <= self._silent:
            raise StoreUnavailable("on purpose")
        return super().query_all(self.sent_queries[-1], profile=profile, max_in_flight=max_in_flight)


def test_new_accounts_write_no_tombstones_among_the_deleted(cluster: Cluster) -> None:
    directory = CassandraDirectory(cluster)
    deleted = replace(ADA, user=UserId("gone"), member=Member(1))
    directory.enrol([ADA, replace(deleted, deleted=True)])
    with closing(RecordingCluster(cluster.access)) as recording:
        CassandraDirectory(recording).enrol([ADA, deleted])
    assert [values for queries in recording.sent_queries for cql, values in queries if cql.startswith("DELETE")] == [
        (0, 1)
    ]
    assert np.array_equal(CassandraPushSuppressions(cluster).read(burst(), [0], START)[0].suppressed, no_members())


def test_snapshot_reads_neighboring_partitions_at_once(
    cluster: Cluster,
) -> None:
    with closing(RecordingCluster(cluster.access)) as recording:
        CassandraMemberSets(recording).live(NOVA, [5])
        CassandraMemberSets(recording).live(NOVA, [5, 7, 8], restricted_to=ADA.user)
    assert [[values[:3] for _, values in queries] for queries in recording.sent_queries] == [
        [("mention:nova", 0, [5]), ("", 0, [5])],
        [(owner, *shards) for owner in ("mention:nova", "", "mention:ada") for shards in ((0, [5, 7]), (1, [8]))],
    ]


def test_import_outlasts_a_late_node_but_not_a_dead_one(cluster: Cluster, people: CassandraPeople) -> None:
    follow = BlockFollows(subject=NOVA, block=200, visible_from=START, members=b"\xff" * BLOCK_BYTES)
    with closing(RecordingCluster(cluster.access, silent=3)) as dead, pytest.raises(StoreUnavailable):
        CassandraFollows(dead).write_blocks([follow])
    with closing(RecordingCluster(cluster.access, silent=2)) as late:
        CassandraFollows(late).write_blocks([follow])
    assert viewer(people).follows == {NOVA: START}


PROXY = """
import asyncio, sys
async def pump(reader, writer):
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()
async def meet(reader, writer):
    there = await asyncio.open_connection(sys.argv[2], int(sys.argv[3]))
    await asyncio.gather(pump(reader, there[1]), pump(there[0], writer), return_exceptions=True)
async def serve():
    await (await asyncio.start_server(meet, "127.0.0.1", int(sys.argv[1]))).serve_forever()
asyncio.run(serve())
"""


@contextmanager
def freezable_node(access: CassandraAccess, folder: Path) -> Iterator[tuple[Engine, Cluster]]:
    """Yield a proxy to the node that can be frozen: for its clients it behaves like a hung node."""
    port = free_port()
    command = [sys.executable, "-c", PROXY, str(port), access.hosts[0], str(access.port)]
    proxy = Engine(name="way", command=command, folder=folder, host="127.0.0.1", port=port)
    cluster = Cluster(replace(access, hosts=[proxy.host], port=port))
    proxy.start()
    try:
        proxy.wait_until_ready()
        yield proxy, cluster
    finally:
        proxy.resume()
        cluster.close()
        proxy.kill()


def test_hung_node_is_an_outage_and_does_not_block_the_loop(cluster: Cluster, tmp_path: Path) -> None:
    async def three_calls(people: CassandraPeople) -> tuple[list[object], float]:
        """Return the results of three concurrent calls, and the longest time that the event loop was blocked."""
        calls = asyncio.gather(
            people.viewer(ADA.user, ADA.member),
            people.member(ADA.user),
            people.mark_seen(ADA.member, START, []),
            return_exceptions=True,
        )
        ticks = [monotonic()]
        while not calls.done():
            await asyncio.sleep(0.01)
            ticks.append(monotonic())
        return list(await calls), max(np.diff(ticks))

    with freezable_node(cluster.access, tmp_path) as (proxy, hanging):
        people = CassandraPeople(AsyncQueries(hanging, deadline=DEADLINE), ManualClock())
        patient = CassandraPeople(AsyncQueries(hanging, deadline=timedelta(seconds=30)), ManualClock())
        assert not any(isinstance(result, Exception) for result in run(three_calls(patient))[0])
        proxy.freeze()
        began = monotonic()
        results, blocked = run(three_calls(people))
        took = monotonic() - began
        proxy.resume()
        assert [type(result) for result in results] == [StoreUnavailable] * 3
        # A call that blocked the loop would do so for as long as the driver waits, 5 s.
        assert DEADLINE.total_seconds() <= took < 4
        assert blocked < 2
        assert viewer(patient).marks.seen_at == START
