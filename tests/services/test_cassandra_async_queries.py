"""Queries to Cassandra from asyncio: concurrent, complete, and bounded in time."""

import gc
from asyncio import gather, run
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from time import monotonic, sleep
from uuid import uuid4

import pytest
from cassandra import InvalidRequest
from cassandra.cluster import ResponseFuture

from notifier.adapters.cassandra import CassandraInbox, Cluster, Phase, migrate, require_schema
from notifier.adapters.cassandra.driver.async_queries import MAX_IN_FLIGHT_PER_CALL, AsyncQueries
from notifier.devkit.engines.maven import missing_tools
from notifier.domain.audience.inbox_rows import SHARD_RANGES
from notifier.domain.errors import SchemaOlder, StoreUnavailable
from tests.services.inbox_rows_and_replaced_answers import MIXED, rows
from tests.support.cassandra_keyspace import TIMEOUT_SECONDS, patient_queries
from tests.support.fakes.clock_and_nonces import ManualClock

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing_tools()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing_tools())}"
    ),
]

RANGES = "SELECT member_range FROM inbox"
OF_RANGE = "SELECT members FROM inbox WHERE member_range = ? AND inbox_window = ?"


def test_all_pages_of_result_are_read(cluster: Cluster) -> None:
    row_sets = [rows(0.01, shard=shard) for shard in range(160)]
    CassandraInbox(cluster, ManualClock()).write(row_sets)
    result = run(patient_queries(cluster)(RANGES))
    assert len(result) == sum(shard_rows.row_count for shard_rows in row_sets) > 5_000  # the size of a page
    assert {row.member_range for row in result} == {
        member_range for shard_rows in row_sets for member_range in shard_rows.ranges
    }


def test_results_have_the_order_of_the_queries(cluster: Cluster) -> None:
    row_sets = [rows(MIXED, shard=shard) for shard in range(4)]
    CassandraInbox(cluster, ManualClock()).write(row_sets)
    window = cluster.execute("SELECT inbox_window FROM inbox LIMIT 1")[0][0]
    ranges = range(4 * SHARD_RANGES + 1, -1, -1)
    answers = run(patient_queries(cluster).query_each(OF_RANGE, [(member_range, window) for member_range in ranges]))
    assert [members for [(members,)] in answers[:1:-1]] == [
        members for shard_rows in row_sets for members in shard_rows.members
    ]
    assert answers[:2] == [[], []]


def test_timeout_is_an_outage(cluster: Cluster) -> None:
    cluster.prepare(RANGES)
    with pytest.raises(StoreUnavailable, match="No answer within"):
        run(AsyncQueries(cluster, deadline=timedelta(microseconds=1))(RANGES))


def test_query_beyond_queue_limit_is_refused_at_once(cluster: Cluster) -> None:
    reader = AsyncQueries(cluster, max_in_flight=2, deadline=timedelta(seconds=TIMEOUT_SECONDS))

    async def ask_three() -> list[object]:
        return list(await gather(*(reader(RANGES) for _ in range(3)), return_exceptions=True))

    assert [type(answer) for answer in run(ask_three())] == [list, list, StoreUnavailable]
    assert run(reader(RANGES)) == []


def test_more_queries_than_slots_are_answered(cluster: Cluster) -> None:
    reader = AsyncQueries(cluster, max_in_flight=MAX_IN_FLIGHT_PER_CALL + 1, deadline=timedelta(seconds=30))
    answers = run(
        reader.query_each(OF_RANGE, [(member_range, 0) for member_range in range(4 * MAX_IN_FLIGHT_PER_CALL)])
    )
    assert answers == [[]] * (4 * MAX_IN_FLIGHT_PER_CALL)
    assert run(reader.query_all([])) == []


def test_deadline_covers_all_queries_of_its_block(cluster: Cluster) -> None:
    async def ask_for_ever(reader: AsyncQueries) -> None:
        async with reader.deadline():
            while True:
                await reader(RANGES)

    with pytest.raises(StoreUnavailable, match="No answer within"):
        run(ask_for_ever(AsyncQueries(cluster, deadline=timedelta(milliseconds=100))))


def test_invalid_query_is_not_an_outage(cluster: Cluster) -> None:
    with pytest.raises(InvalidRequest):
        run(patient_queries(cluster)("SELECT nothing FROM inbox"))


def test_query_before_migration_reports_missing_schema(cluster: Cluster) -> None:
    """A process that started while the store was down waits, and dead-letters none of its records."""
    with closing(Cluster(replace(cluster.access, keyspace=f"early_{uuid4().hex[:12]}"), require_schema)) as early:
        early.create_keyspace()
        with pytest.raises(SchemaOlder, match="The keyspace has no tables of this software"):
            early.prepare("SELECT subject FROM sequence_heads")
        migrate(early, Phase.PRE)
        assert early.query("SELECT subject FROM sequence_heads") == []
        with pytest.raises(InvalidRequest):  # an invalid query stays an error
            early.prepare("SELECT nothing FROM sequence_heads")


def test_result_is_freed_after_it_is_read(cluster: Cluster) -> None:
    """A worker reads gigabytes of bitmaps.

    Otherwise each result would stay until the driver's timer of its request expires.
    """
    cluster.query(RANGES)
    gc.collect()
    before = pending_requests()  # requests of other tests that were never answered
    gc.disable()
    try:
        cluster.query_each(OF_RANGE, [(member_range, 0) for member_range in range(100)])
        run(AsyncQueries(cluster).query_each(OF_RANGE, [(member_range, 0) for member_range in range(100)]))
        deadline = monotonic() + 10  # the driver's thread may still hold the last one
        while [future for future in pending_requests() if future not in before]:
            assert monotonic() < deadline
            sleep(0.05)
    finally:
        gc.enable()


def pending_requests() -> list[ResponseFuture]:
    return [future for future in gc.get_objects() if type(future) is ResponseFuture]
