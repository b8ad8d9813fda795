"""People on Cassandra: what no other store can get wrong. Lives, late writes, pages, and a node that hangs."""

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
    CassandraAccess,
    CassandraDirectory,
    CassandraMemberSets,
    CassandraPeople,
    CassandraReader,
    CassandraSpared,
    Cluster,
)
from notifier.adapters.cassandra.driver.session import AT_ONCE
from notifier.adapters.cassandra.stores.follows import CassandraFollows
from notifier.codec.storage import to_ms
from notifier.devkit.engines.engine import Engine, free_port
from notifier.devkit.engines.maven import missing
from notifier.domain.audience.bitmap import BLOCK_BYTES, SHARD_BLOCKS, SHARD_MEMBERS, everybody, members, nobody
from notifier.domain.audience.follows import BlockFollows
from notifier.domain.audience.tiers import SetKind
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.visibility import Mark, Viewer
from notifier.ports.audience import ShardBlob
from notifier.ports.directory import DirectoryEntry
from tests.support.contract_examples import NOVA, burst
from tests.support.fakes.clock import START, ManualClock
from tests.support.keyspace import emptied, keyspace, patient_reader

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        bool(missing()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing())}"
    ),
]

ADA = DirectoryEntry(user=UserId("ada"), member=Member(1_024 * 200 + 9))
KEY, OTHER = BurstKey(NOVA, 1), BurstKey(NOVA, 2)
DAY = 86_400
SOON = timedelta(milliseconds=500)


@pytest.fixture(scope="module")
def contracts(cassandra: CassandraAccess) -> Iterator[Cluster]:
    with keyspace(cassandra) as cluster:
        yield cluster


@pytest.fixture
def cluster(contracts: Cluster) -> Cluster:
    return emptied(contracts)


@pytest.fixture
def people(cluster: Cluster) -> CassandraPeople:
    CassandraDirectory(cluster).enrol([ADA])
    return CassandraPeople(patient_reader(cluster), ManualClock())


def viewer(people: CassandraPeople) -> Viewer:
    return run(people.viewer(ADA.user, ADA.member))


def opened(cluster: Cluster, key: BurstKey, age: timedelta) -> None:
    cluster.ask(
        "INSERT INTO bursts (subject, run, seq, opened_at) VALUES (?, ?, ?, ?)",
        (str(key.subject), key.seq // 1_024, key.seq, to_ms(START - age)),
    )


def lives(cluster: Cluster, table: str) -> list[int | None]:
    """Of each mark or showing, in the order of their bursts."""
    rows = cluster.execute(f"SELECT seq, ttl(mark) AS of_mark, ttl(shown) AS of_shown FROM {table}")
    return [row.of_mark if row.of_mark is not None else row.of_shown for row in sorted(rows)]


@pytest.mark.parametrize("deed", ["mark", "see"])
def test_a_mark_lives_as_long_as_its_burst_and_never_for_ever(
    cluster: Cluster, people: CassandraPeople, deed: str
) -> None:
    half, gone, unknown = (BurstKey(NOVA, seq) for seq in (5_000, 5_001, 5_002))
    opened(cluster, half, RETENTION / 2)
    opened(cluster, gone, RETENTION)
    keys = [half, gone, unknown]
    run(people.mark(ADA.member, keys, Mark.READ) if deed == "mark" else people.see(ADA.member, START, keys))
    of_half, of_unknown = lives(cluster, "marks")
    assert of_half is not None
    assert of_unknown is not None
    assert 44 * DAY < of_half <= 45 * DAY
    assert 90 * DAY < of_unknown <= 91 * DAY
    assert all(ttl is not None and 7 * DAY < ttl <= 8 * DAY for ttl in lives(cluster, "marks_of_burst"))


def test_a_mark_and_a_showing_of_one_burst_keep_each_other(people: CassandraPeople) -> None:
    run(people.see(ADA.member, START, [KEY]))
    run(people.mark(ADA.member, [KEY], Mark.READ))
    run(people.see(ADA.member, START, [KEY, OTHER]))
    marks = viewer(people).marks
    assert marks.also_seen == {KEY, OTHER}
    assert marks.by_burst == {KEY: Mark.READ}


def test_a_late_write_of_an_earlier_look_changes_nothing_for_the_tab_or_for_the_phone(
    cluster: Cluster, people: CassandraPeople
) -> None:
    run(people.see(ADA.member, START + timedelta(hours=1), []))
    again = CassandraPeople(patient_reader(cluster), ManualClock())
    run(again.see(ADA.member, START - timedelta(hours=1), []))
    assert viewer(people).marks.seen_at == START + timedelta(hours=1)
    assert members(CassandraSpared(cluster).read(burst(), [1], START)[1].never, 1) == [ADA.member]
    assert cluster.execute("SELECT seen_at, writetime(seen_at) AS at FROM seen") == [
        (to_ms(START + timedelta(hours=1)), to_ms(START + timedelta(hours=1)) * 1_000)
    ]


def test_who_follows_and_marks_more_than_a_page_of_the_driver_is_known_whole(
    cluster: Cluster, people: CassandraPeople
) -> None:
    subjects = [Subject(Kind.MENTION, UserId(f"star{n}")) for n in range(3_000)]
    bitmap = b"\xff" * BLOCK_BYTES
    CassandraFollows(cluster).write_blocks(
        BlockFollows(subject=subject, block=200, visible_from=START, members=bitmap) for subject in subjects
    )
    cluster.ask_each(
        "INSERT INTO follows (block, slot, subject, visible_from) VALUES (200, 9, ?, ?)",
        [(f"mention:own{n}", to_ms(START)) for n in range(3_000)],
    )
    cluster.ask_each(
        "INSERT INTO marks (block, member, subject, seq, mark) VALUES (200, ?, 'mention:nova', ?, 'read')",
        [(ADA.member, seq) for seq in range(5_500)],
    )
    found = viewer(people)
    assert len(found.follows) == 6_000
    assert set(subjects) < set(found.follows)
    assert len(found.marks.by_burst) == 5_500


def test_an_import_of_many_shards_and_blocks_is_there_on_both_sides(cluster: Cluster, people: CassandraPeople) -> None:
    sets, shards = CassandraMemberSets(cluster), range(40)
    sets.put(ShardBlob(kind=SetKind.FOLLOWERS, owner=NOVA, shard=shard, bits=everybody()) for shard in shards)
    bitmap = b"\xff" * BLOCK_BYTES
    blocks = range(len(shards) * SHARD_BLOCKS)
    CassandraFollows(cluster).write_blocks(
        BlockFollows(subject=NOVA, block=block, visible_from=START, members=bitmap) for block in reversed(blocks)
    )
    for table in ("follows", "follows_of_subject"):
        rows = cluster.execute(f"SELECT block FROM {table} WHERE slot = 1024 ALLOW FILTERING")
        assert sorted(row.block for row in rows) == list(blocks)
    assert viewer(people).follows == {NOVA: START}
    before = burst(opened_at=START - timedelta(milliseconds=1))
    assert [
        int(np.bitwise_count(CassandraSpared(cluster).read(b, [39], START)[39].never).sum()) for b in (before, burst())
    ] == [
        SHARD_MEMBERS,
        0,
    ]


def test_a_stored_bitmap_that_can_not_be_read_is_poison(cluster: Cluster) -> None:
    insert = "INSERT INTO member_sets (owner, neighbours, shard, kind, blob) VALUES (%s, 0, 0, 'followers', 0x78)"
    cluster.execute(insert, [str(NOVA)])
    with pytest.raises(Poison):
        CassandraMemberSets(cluster).live(NOVA, [0])


class Told(Cluster):
    """Remembers what it is asked side by side, and doesn't answer the first few times."""

    def __init__(self, access: CassandraAccess, *, silent: int = 0) -> None:
        super().__init__(access)
        self.asked: list[list[tuple[str, tuple[object, ...]]]] = []
        self._silent = silent

    def ask_all(
        self,
        questions: Iterable[tuple[str, Sequence[object]]],
        *,
        profile: object = EXEC_PROFILE_DEFAULT,
        at_once: int = AT_ONCE,
    ) -> list[list[Any]]:
        self.asked.append([(statement, tuple(values)) for statement, values in questions])
        if len(self.asked) <= self._silent:
            raise StoreUnavailable("on purpose")
        return super().ask_all(self.asked[-1], profile=profile, at_once=at_once)


def test_newcomers_leave_no_tombstones_among_the_deleted(cluster: Cluster) -> None:
    directory = CassandraDirectory(cluster)
    gone = replace(ADA, user=UserId("gone"), member=Member(1))
    directory.enrol([ADA, replace(gone, deleted=True)])
    with closing(Told(cluster.access)) as told:
        CassandraDirectory(told).enrol([ADA, gone])
    assert [values for some in told.asked for cql, values in some if cql.startswith("DELETE")] == [(0, 1)]
    assert np.array_equal(CassandraSpared(cluster).read(burst(), [0], START)[0].never, nobody())


def test_sealing_reads_two_partitions_of_neighbours_at_once_and_the_authors_where_it_is_restricted(
    cluster: Cluster,
) -> None:
    with closing(Told(cluster.access)) as told:
        CassandraMemberSets(told).live(NOVA, [5])
        CassandraMemberSets(told).live(NOVA, [5, 7, 8], restricted_to=ADA.user)
    assert [[values[:3] for _, values in some] for some in told.asked] == [
        [("mention:nova", 0, [5]), ("", 0, [5])],
        [(owner, *some) for owner in ("mention:nova", "", "mention:ada") for some in ((0, [5, 7]), (1, [8]))],
    ]


def test_an_import_outlasts_a_node_that_is_late_and_says_so_when_it_stays_away(
    cluster: Cluster, people: CassandraPeople
) -> None:
    follow = BlockFollows(subject=NOVA, block=200, visible_from=START, members=b"\xff" * BLOCK_BYTES)
    with closing(Told(cluster.access, silent=3)) as away, pytest.raises(StoreUnavailable):
        CassandraFollows(away).write_blocks([follow])
    with closing(Told(cluster.access, silent=2)) as late:
        CassandraFollows(late).write_blocks([follow])
    assert viewer(people).follows == {NOVA: START}


WAY = """
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
def freezable(access: CassandraAccess, folder: Path) -> Iterator[tuple[Engine, Cluster]]:
    """A way to the node that may be frozen: whoever waits at its end can't tell it from a node that hangs."""
    port = free_port()
    command = [sys.executable, "-c", WAY, str(port), access.hosts[0], str(access.port)]
    way = Engine(name="way", command=command, folder=folder, host="127.0.0.1", port=port)
    cluster = Cluster(replace(access, hosts=[way.host], port=port))
    way.start()
    try:
        way.ready()
        yield way, cluster
    finally:
        way.wake()
        cluster.close()
        way.kill()


def test_a_node_that_hangs_is_an_outage_after_the_deadline_and_holds_up_nobody_else(
    cluster: Cluster, tmp_path: Path
) -> None:
    async def looks(people: CassandraPeople) -> tuple[list[object], float]:
        """What three at once are told, and for how long the loop stood still at most."""
        asked = asyncio.gather(
            people.viewer(ADA.user, ADA.member),
            people.member(ADA.user),
            people.see(ADA.member, START, []),
            return_exceptions=True,
        )
        stood = [monotonic()]
        while not asked.done():
            await asyncio.sleep(0.01)
            stood.append(monotonic())
        return list(await asked), max(np.diff(stood))

    with freezable(cluster.access, tmp_path) as (way, hanging):
        people = CassandraPeople(CassandraReader(hanging, deadline=SOON), ManualClock())
        patient = CassandraPeople(CassandraReader(hanging, deadline=timedelta(seconds=30)), ManualClock())
        assert not any(isinstance(one, Exception) for one in run(looks(patient))[0])
        way.freeze()
        began = monotonic()
        told, stood = run(looks(people))
        took = monotonic() - began
        way.wake()
        assert [type(one) for one in told] == [StoreUnavailable] * 3
        # Whoever waited in the loop would stand for as long as the driver waits, 5 s.
        assert SOON.total_seconds() <= took < 4
        assert stood < 2
        assert viewer(patient).marks.seen_at == START
