"""What the benches compare on real engines is the same: rows of every writer, pages of every layout, known mentions."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from notifier.adapters.cassandra import CassandraInbox, CassandraTimeline, Cluster
from notifier.adapters.cassandra.bulk import Bulk
from notifier.adapters.system_clock import SystemClock
from notifier.codec import unpack
from notifier.codec.moments import to_ms
from notifier.domain.bits import SHARD_MEMBERS
from notifier.domain.block import window_of
from notifier.domain.errors import StoreUnavailable
from notifier.domain.mention import Mention
from notifier.domain.subject import Kind, Lane, Member, Subject, UserId
from notifier.testing.bench.cql.bursts import NO_BLOCKS, Bursts, first
from notifier.testing.bench.cql.frames import Frames
from notifier.testing.bench.cql.history import OF_BLOCKS, OF_MEMBERS, fill
from notifier.testing.bench.cql.mentions import Arrivals, coordinator
from notifier.testing.bench.cql.sizes import SHARES, VARIANTS, Variant, page, send
from notifier.testing.bench.cql.writers import Batches, Lean, Ours, Singles, Stock
from tests.contracts.keyspace import patient_reader
from tests.services.losing import ON_ENGINES, cluster, made

__all__ = ["cluster", "made"]

pytestmark = ON_ENGINES

NOW = SystemClock().now() - timedelta(minutes=1)
_ALL = "SELECT block, inbox_window, slot, opened_at, subject, tier, members FROM inbox WHERE seq = ? ALLOW FILTERING"
_OF_MEMBERS = "SELECT member, seq FROM one_per_partition"


@pytest.fixture
def stock(cluster: Cluster) -> Iterator[Stock]:
    with closing(Stock(cluster.access)) as found:
        yield found
        found.session.execute("DROP TABLE one_per_partition")


def stored(cluster: Cluster, seq: int) -> set[Any]:
    return {tuple(row) for row in cluster.ask(_ALL, (seq,))}


@pytest.mark.parametrize("threshold", [1, NO_BLOCKS], ids=["block rows", "member rows"])
def test_the_leanest_writer_writes_what_the_adapter_writes(cluster: Cluster, threshold: int) -> None:
    prepared, (host,) = Bulk(cluster).prepared(), cluster.access.hosts
    ours, others = (Bursts(shards=range(1), share=0.02, threshold=threshold) for _ in range(2))
    others.rows(NOW)  # so that its next burst has another number; its people are others, too
    ours.rows(NOW)
    with closing(Frames(host, cluster.access.port, 32)) as frames:
        rows, again = ours.rows(NOW), others.rows(NOW)
        Lean(frames, prepared).ready(rows)()
        lean = stored(cluster, 2)
        cluster.change("TRUNCATE inbox")
        Ours(CassandraInbox(cluster, SystemClock())).ready(again)()
    assert len(lean) == rows[0].written
    assert stored(cluster, 2) == lean


def test_the_drivers_own_ways_write_a_row_for_each_member(cluster: Cluster, stock: Stock) -> None:
    bursts = Bursts(shards=range(1), share=0.25, threshold=NO_BLOCKS)
    single, batched = first(bursts.rows(NOW), 70), first(bursts.rows(NOW), 130)
    Singles(stock).ready(single)()
    Batches(stock).ready(batched)()
    wanted = [(member, one.burst.seq) for one in (*single, *batched) for member in one.members.tolist()]
    assert sorted(tuple(row) for row in stock.session.execute(_OF_MEMBERS)) == sorted(wanted)
    assert len(wanted) == 200


@pytest.mark.usefixtures("stock")
def test_a_page_is_the_same_in_every_layout(cluster: Cluster) -> None:
    fill(cluster, 2, lambda _: None, bursts=12)
    own = cluster.ask(_OF_MEMBERS)

    async def page(shard: int, place: int) -> list[int]:
        timeline = CassandraTimeline(patient_reader(cluster), SystemClock())
        rows = await timeline.rows(Member(shard * SHARD_MEMBERS + place), None, 20)
        return [row.burst.seq for row in rows]

    for place in (0, 1_023, 2_047):
        blocks, members = (asyncio.run(page(shard, place)) for shard in (OF_BLOCKS, OF_MEMBERS))
        stock = sorted((row.seq for row in own if row.member == OF_MEMBERS * SHARD_MEMBERS + place), reverse=True)
        assert blocks == members == stock
        assert blocks


def test_every_mention_of_a_batch_is_known_afterwards(cluster: Cluster) -> None:
    subjects = [Subject(Kind.MENTION, UserId(f"star{number}")) for number in range(3)]
    stage = coordinator(cluster)
    records = Arrivals(subjects=subjects, lane=Lane.CELEBRITY).batch(30)
    with suppress(StoreUnavailable):  # a busy machine; the pump would come again, too
        stage(records)
    stage(records)
    for subject in subjects:
        events = {m.event for m in (unpack(Mention, one.record.value) for one in records) if m.subject == subject}
        assert len(events) == 10
        assert stage.bursts.known({subject: events}) == {subject: events}


def test_blocks_of_every_size_give_each_person_the_same_page(cluster: Cluster) -> None:
    variants = [
        Variant(members=members, threshold=threshold, first=number * 1_000)
        for number, (members, threshold) in enumerate(VARIANTS)
    ]
    random, window = np.random.default_rng(1), window_of(NOW)
    told = [random.random(8_192) < share for share in SHARES]
    for variant in variants:
        for seq, flags in enumerate(told):
            send(cluster, list(variant.messages(flags, window, to_ms(NOW) + seq, seq)))
    for member in (0, 1_023, 1_024, 8_191, *np.flatnonzero(told[-1])[:3].tolist()):
        pages = {page(cluster, variant, member, range(window, window - 3, -1), None) for variant in variants}
        assert pages == {sum(int(flags[member]) for flags in told)}
