"""Variants of the Cassandra benchmarks do equal work: rows, pages and known mentions."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from typing import Any

import pytest

from benchmarks.cassandra.generated_history_and_bursts import InboxHistory, SyntheticBursts, first
from benchmarks.cassandra.inbox_table_layouts import PEOPLE, fill, layouts
from benchmarks.cassandra.lean_cql_client import FrameConnection
from benchmarks.cassandra.range_widths import WIDTHS, RangeWidth, page
from benchmarks.cassandra.sequencing_coordinator import LaneRecords, coordinator
from benchmarks.cassandra.writers import Batches, DriverDefaults, LeanestWriter, ProductWriter, Singles, values
from notifier.adapters.cassandra import CassandraInbox, Cluster
from notifier.adapters.cassandra.bulk.writer import BulkWriter
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.codec import unpack
from notifier.domain.audience.inbox_rows import window_of
from notifier.domain.bursts.events_and_mentions import Mention
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Kind, Lane, Member, Subject, UserId
from tests.support.cassandra_keyspace import ON_ENGINES, cluster, patient_queries, shared_cluster

__all__ = ["cluster", "shared_cluster"]

pytestmark = [pytest.mark.prove, *ON_ENGINES]

NOW = SystemClock().now() - timedelta(minutes=1)
_ALL = "SELECT member_range, inbox_window, opened_at, subject, tier, members FROM inbox WHERE seq = ? ALLOW FILTERING"
_OF_MEMBERS = "SELECT member, seq FROM one_per_partition"


@pytest.fixture
def driver_defaults(cluster: Cluster) -> Iterator[DriverDefaults]:
    with closing(DriverDefaults(cluster.access)) as driver_defaults:
        yield driver_defaults
        for table in ("one_per_partition", "member_rows"):
            driver_defaults.session.execute(f"DROP TABLE IF EXISTS {table}")


def stored_rows(cluster: Cluster, seq: int) -> set[Any]:
    return {tuple(row) for row in cluster.query(_ALL, (seq,))}


@pytest.mark.parametrize("share", [0.001, 0.25], ids=["lists", "bitmaps"])
def test_lean_writer_writes_the_rows_of_the_adapter(cluster: Cluster, share: float) -> None:
    query_id, (host,) = BulkWriter(cluster).query_id(), cluster.access.hosts
    lean_bursts, adapter_bursts = (SyntheticBursts(shards=range(1), share=share) for _ in range(2))
    adapter_bursts.rows(NOW)  # A first burst here, so that the next one has another number; its members differ, too.
    lean_bursts.rows(NOW)
    with closing(FrameConnection(host, cluster.access.port, 32)) as frames:
        rows, adapter_rows = lean_bursts.rows(NOW), adapter_bursts.rows(NOW)
        LeanestWriter(frames, query_id).ready(rows)()
        lean = stored_rows(cluster, 2)
        cluster.change_schema("TRUNCATE inbox")
        ProductWriter(CassandraInbox(cluster, SystemClock())).ready(adapter_rows)()
    assert len(lean) == rows[0].row_count
    assert stored_rows(cluster, 2) == lean


def test_driver_writers_write_one_row_per_member(cluster: Cluster, driver_defaults: DriverDefaults) -> None:
    bursts = SyntheticBursts(shards=range(1), share=0.005)
    single, batched = first(bursts.rows(NOW), 70), first(bursts.rows(NOW), 130)
    Singles(driver_defaults).ready(single)()
    Batches(driver_defaults).ready(batched)()
    expected = [(row[0], row[4]) for row in values([*single, *batched])]
    assert sorted(tuple(row) for row in driver_defaults.session.execute(_OF_MEMBERS)) == sorted(expected)
    assert len(expected) >= 200


@pytest.mark.usefixtures("driver_defaults")
def test_page_is_the_same_in_every_layout(cluster: Cluster) -> None:
    readers = (0, 1_023, 1_024, 2_047)
    history = InboxHistory.made(PEOPLE, most=2, readers=readers)
    fill(cluster, history, 2, lambda _: None)

    async def pages(member: int) -> list[list[object]]:
        page_layouts = layouts(cluster, patient_queries(cluster), history, 2)
        return [list(await layout.read(Member(member))) for layout in page_layouts]

    for reader in readers:
        expected, *other_pages = asyncio.run(pages(reader))
        assert len(expected) == 20
        assert other_pages == [expected, expected]


def test_every_mention_of_a_batch_is_known_afterwards(cluster: Cluster) -> None:
    subjects = [Subject(Kind.MENTION, UserId(f"star{number}")) for number in range(3)]
    stage = coordinator(cluster)
    records = LaneRecords(subjects=subjects, lane=Lane.CELEBRITY).batch(30)
    with suppress(StoreUnavailable):  # On a busy machine; the pump would try again, too.
        stage(records)
    stage(records)
    for subject in subjects:
        events = {m.event for m in (unpack(Mention, record.record.value) for record in records) if m.subject == subject}
        assert len(events) == 10
        assert stage.bursts.known_events({subject: events}) == {subject: events}


def test_ranges_of_every_width_give_reader_the_same_rows(cluster: Cluster) -> None:
    people, readers, newest = 32_768, (0, 4_095, 4_096, 32_767), window_of(NOW)
    history = InboxHistory.made(people, most=2, readers=readers)
    widths = [RangeWidth(members=members, first=number * people) for number, members in enumerate(WIDTHS)]
    bursts = [burst for opened in history.windows(NOW, 2) for burst in opened]
    for width in widths:
        rows = [rows for burst in bursts for rows in burst.rows(width.members, width.first)]
        CassandraInbox(cluster, SystemClock()).write(rows)
    for reader in readers:
        subjects = [str(subject) for subject in history.subjects(Member(reader))]
        expected = sum(reader in members for burst in bursts for members in burst.tiers.values())
        windows = range(newest, newest - 3, -1)
        counts = {page(cluster, width, reader, subjects, windows=windows, limit=None) for width in widths}
        assert counts == {expected}
