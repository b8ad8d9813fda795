"""Inbox rows on a real node: bytes equal to the driver's, batch limits, and TTLs."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

import pytest
from cassandra import ConsistencyLevel
from cassandra.protocol import (
    BatchMessage,
    ProtocolHandler,
)
from cassandra.query import BatchStatement, BatchType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.adapters.cassandra import (
    CassandraAudienceSnapshots,
    CassandraInbox,
    Cluster,
)
from notifier.adapters.cassandra.bulk.encoding import PreencodedBatch, PreencodedBatchProtocol, divide_into_messages
from notifier.adapters.cassandra.bulk.writer import BulkWriter
from notifier.adapters.cassandra.driver.session import PROTOCOL_VERSION
from notifier.codec import pack_snapshot
from notifier.codec.messagepack import to_ms
from notifier.devkit.engines.maven import missing_tools
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.inbox_rows import RANGE_BYTES, InboxRows, window_of
from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from tests.services.inbox_rows_and_replaced_answers import KEY, MIXED, handler_with, rows, stored_row_count
from tests.support.contract_examples import NOVA, audience_snapshot
from tests.support.fakes.clock_and_nonces import ManualClock

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing_tools()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing_tools())}"
    ),
]

TTLS = "SELECT ttl(members) FROM inbox"


def bound_values(rows: InboxRows, ttl: int) -> list[tuple[object, ...]]:
    """Return the values that bind each row by hand."""
    burst_values = str(rows.burst.subject), to_ms(rows.opened_at), rows.burst.seq, str(rows.tier)
    pairs = zip(rows.ranges, rows.members, strict=True)
    return [(member_range, window_of(rows.opened_at), *burst_values, members, ttl) for member_range, members in pairs]


def encode(handler: type[ProtocolHandler], batch: BatchStatement) -> bytes:
    message = BatchMessage(
        batch.batch_type, batch._statements_and_parameters, ConsistencyLevel.LOCAL_QUORUM, ConsistencyLevel.SERIAL, 7
    )
    frame: bytes = handler.encode_message(
        message, 3, PROTOCOL_VERSION, compressor=None, allow_beta_protocol_version=False
    )
    return frame


SHAPES = st.fixed_dictionaries(
    {
        "share": st.sampled_from([0.0, 0.00005, 0.002, 0.02, 0.05, MIXED, 0.4, 1.0]),
        "key": st.builds(
            BurstKey,
            st.builds(Subject, st.sampled_from(Kind), st.text(min_size=1, max_size=40).map(UserId)),
            st.integers(1, 2**53),
        ),
        "shard": st.integers(0, 2_000),
    }
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=SHAPES, ttl=st.integers(1, 7_776_000))
def test_message_has_the_bytes_of_the_driver(shared_cluster: Cluster, shape: dict[str, Any], ttl: int) -> None:
    inbox_rows = rows(**shape)
    expected = bound_values(inbox_rows, ttl)
    for message in divide_into_messages(inbox_rows, ttl, BulkWriter(shared_cluster).query_id()):
        driver_batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        for values in expected[: len(message)]:
            driver_batch.add(shared_cluster.prepare(message.statement), values)
        del expected[: len(message)]
        preencoded = PreencodedBatch(message)
        assert encode(PreencodedBatchProtocol, preencoded) == encode(ProtocolHandler, driver_batch)
        assert preencoded.routing_key == driver_batch.routing_key
    assert not expected


@pytest.mark.parametrize("share", [0.001, 0.01, 0.02, 0.04, 0.06, MIXED, 0.9])
@pytest.mark.parametrize("owner", ["n", "nova", "a_name_of_thirty_letters_or_so"])
def test_node_logs_no_warning_about_messages(cluster: Cluster, share: float, owner: str) -> None:
    handler = handler_with(warned=set())
    bulk, key = BulkWriter(cluster, handler=handler), BurstKey(Subject(Kind.MENTION, UserId(owner)), 1)
    inbox_rows = rows(share, key=key)
    bulk.send(divide_into_messages(inbox_rows, 60, bulk.query_id()))
    assert handler.warned == set()
    assert stored_row_count(cluster) == inbox_rows.row_count


def test_row_has_ttl_and_expired_row_is_not_written(cluster: Cluster) -> None:
    clock = ManualClock()
    inbox, inbox_rows = CassandraInbox(cluster, clock), rows(MIXED)
    assert {len(members) == RANGE_BYTES for members in inbox_rows.members} == {True, False}
    clock.advance(timedelta(days=30))
    inbox.write([inbox_rows])
    ttl = int((RETENTION - timedelta(days=30)).total_seconds())
    assert all(ttl - 60 < row_ttl <= ttl for (row_ttl,) in cluster.execute(TTLS))
    assert stored_row_count(cluster) == inbox_rows.row_count
    clock.advance(RETENTION - timedelta(days=30) - timedelta(milliseconds=999))
    inbox.write([replace(inbox_rows, burst=BurstKey(NOVA, 2))])
    assert stored_row_count(cluster) == inbox_rows.row_count


@pytest.mark.thorough
def test_rows_expire(cluster: Cluster) -> None:
    clock = ManualClock()
    clock.advance(RETENTION - timedelta(seconds=8))  # enough for the write and the check on a busy machine
    CassandraInbox(cluster, clock).write([rows(MIXED)])
    assert stored_row_count(cluster)
    wait_for_expiry(cluster)


def test_snapshot_lives_a_week_by_node_and_by_our_clock(cluster: Cluster) -> None:
    clock = ManualClock()
    snapshots = CassandraAudienceSnapshots(cluster, clock)
    snapshots.insert(KEY, [audience_snapshot(3)])
    [(ttl,)] = cluster.execute("SELECT ttl(snapshot_name) FROM snapshot_choices")
    assert SNAPSHOT_KEPT_FOR - timedelta(minutes=1) < timedelta(seconds=ttl) <= SNAPSHOT_KEPT_FOR
    [(ttl,)] = cluster.execute("SELECT ttl(facts) FROM audience_snapshots")
    assert SNAPSHOT_KEPT_FOR < timedelta(seconds=ttl) <= SNAPSHOT_KEPT_FOR + timedelta(hours=1)
    clock.advance(SNAPSHOT_KEPT_FOR - timedelta(milliseconds=1))
    assert list(snapshots.read(KEY, [3])) == [3]
    clock.advance(timedelta(milliseconds=1))
    assert snapshots.read(KEY, [3]) == {}
    assert [snapshot.shard for snapshot in snapshots.insert(KEY, [audience_snapshot(3)])] == [3]


class InterruptedCluster(Cluster):
    """Fails before or after each decision, so that the caller never learns the result."""

    after = False

    def compare_and_set_batches(
        self, statement: str, groups: Iterable[Sequence[Sequence[object]]]
    ) -> list[bool | None]:
        return [None for _ in (super().compare_and_set_batches(statement, groups) if self.after else groups)]


@pytest.mark.parametrize("decided", [False, True], ids=["before the decision", "after the decision"])
def test_crash_while_snapshotting_leaves_all_or_nothing(cluster: Cluster, decided: bool) -> None:
    first_snapshot, second_snapshot = (
        audience_snapshot(3, p0=from_offsets([1])),
        audience_snapshot(3, p0=from_offsets([2])),
    )
    with closing(InterruptedCluster(cluster.access)) as interrupted:
        interrupted.after = decided
        with pytest.raises(StoreUnavailable):
            CassandraAudienceSnapshots(interrupted, ManualClock()).insert(KEY, [first_snapshot])
    snapshots = CassandraAudienceSnapshots(cluster, ManualClock())
    assert list(snapshots.read(KEY, [3])) == ([3] if decided else [])
    [stored_snapshot] = snapshots.insert(KEY, [second_snapshot])
    assert pack_snapshot(stored_snapshot) == pack_snapshot(first_snapshot if decided else second_snapshot)
    assert pack_snapshot(snapshots.read(KEY, [3])[3]) == pack_snapshot(stored_snapshot)


def test_unreadable_snapshot_is_never_replaced(cluster: Cluster) -> None:
    snapshots = CassandraAudienceSnapshots(cluster, ManualClock())
    snapshots.insert(KEY, [audience_snapshot(3)])
    cluster.execute("TRUNCATE audience_snapshots")
    with pytest.raises(StoreUnavailable):
        snapshots.insert(KEY, [audience_snapshot(3)])


def wait_for_expiry(cluster: Cluster) -> None:
    deadline = monotonic() + 30
    while stored_row_count(cluster):
        assert monotonic() < deadline
        sleep(0.1)
