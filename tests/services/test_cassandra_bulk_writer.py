"""The bulk writer on a node that is busy, silent, or has forgotten its statements."""

import logging
import os
from asyncio import run
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from cassandra.protocol import (
    ErrorMessage,
    ProtocolHandler,
    WriteFailureMessage,
)

from notifier.adapters.cassandra import (
    CassandraAccess,
    CassandraInbox,
    CassandraTimeline,
    Cluster,
    Phase,
    migrate,
)
from notifier.adapters.cassandra.bulk.encoding import RowMessage, divide_into_messages
from notifier.adapters.cassandra.bulk.writer import INITIAL_WINDOW, MAX_WINDOW, MIN_WINDOW, BulkWriter, CongestionWindow
from notifier.adapters.cassandra.schema.migrate import FOLDER, split_statements
from notifier.devkit.engines.maven import missing_tools
from notifier.domain.audience.inbox_rows import RANGE_BYTES, RANGE_MEMBERS, SHARD_RANGES, InboxRow
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Member
from tests.services.inbox_rows_and_replaced_answers import (
    BUSY,
    COUNT_ROWS,
    KEY,
    MIXED,
    handler_with,
    rows,
    stored_row_count,
)
from tests.services.tcp_proxy import tcp_proxy
from tests.support.cassandra_keyspace import patient_queries
from tests.support.contract_examples import NOVA
from tests.support.fakes.clock_and_nonces import ManualClock

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing_tools()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing_tools())}"
    ),
]

WARNING = (
    "this cassandra-driver does not accept pre-encoded messages; rows are written in its own batches, which is slower"
)


@pytest.mark.parametrize("error", BUSY, ids=["overloaded", "write timeout"])
def test_rows_refused_by_busy_node_are_retried(cluster: Cluster, error: ErrorMessage) -> None:
    handler = handler_with(error=error, refusals=20)
    inbox = CassandraInbox(cluster, ManualClock(), BulkWriter(cluster, handler=handler))
    row_sets = [rows(MIXED, shard=shard) for shard in range(20)]
    inbox.write(row_sets)
    assert handler.refusals == 0
    assert stored_row_count(cluster) == sum(shard_rows.row_count for shard_rows in row_sets)


@pytest.mark.parametrize("error", BUSY, ids=["overloaded", "write timeout"])
def test_permanently_busy_node_is_unavailable(cluster: Cluster, error: ErrorMessage) -> None:
    bulk = BulkWriter(cluster, handler=handler_with(error=error, refusals=1_000_000), gives_up_after=0.2)
    with pytest.raises(StoreUnavailable, match=r"Writing rows failed"):
        CassandraInbox(cluster, ManualClock(), bulk).write([rows(MIXED)])


def test_write_failure_is_not_retried(cluster: Cluster) -> None:
    failed = WriteFailureMessage(code=0x1500, message="on purpose", info={**BUSY[1].info, "failures": 1})
    handler = handler_with(error=failed, refusals=1)
    with pytest.raises(StoreUnavailable):
        CassandraInbox(cluster, ManualClock(), BulkWriter(cluster, handler=handler)).write([rows(0.0001)])
    assert handler.refusals == 0


def test_concurrent_callers_write_all_their_rows(cluster: Cluster) -> None:
    inbox = CassandraInbox(
        cluster, ManualClock(), BulkWriter(cluster, handler=handler_with(error=BUSY[0], refusals=30))
    )
    row_sets = [rows(MIXED, shard=shard) for shard in range(64)]
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda first: inbox.write(row_sets[first::8]), range(8)))
    assert stored_row_count(cluster) == sum(shard_rows.row_count for shard_rows in row_sets)


def test_writes_beyond_connection_capacity_wait(cluster: Cluster) -> None:
    """Writes 20 MB at once."""
    bulk, shard_rows = BulkWriter(cluster, window=CongestionWindow(size=1 << 30)), rows(0.9)
    row_sets = [
        replace(shard_rows, shard=shard, ranges=range(shard * SHARD_RANGES, (shard + 1) * SHARD_RANGES))
        for shard in range(1_100)
    ]
    CassandraInbox(cluster, ManualClock(), bulk).write(row_sets)
    assert stored_row_count(cluster) == sum(shard_rows.row_count for shard_rows in row_sets)


class ChangedDriver(ProtocolHandler):  # type: ignore[misc]  # the driver ships no types
    """A changed driver, which refuses pre-encoded messages."""

    @classmethod
    def encode_message(cls, msg: Any, *args: Any, **options: Any) -> bytes:
        if isinstance(getattr(msg, "queries", None), RowMessage):
            raise AttributeError("queries")
        encoded: bytes = super().encode_message(msg, *args, **options)
        return encoded


@pytest.mark.parametrize("handler", [ProtocolHandler, ChangedDriver])
def test_changed_driver_is_logged_once_and_its_batches_are_used(
    cluster: Cluster, handler: type[ProtocolHandler], caplog: pytest.LogCaptureFixture
) -> None:
    bulk, shard_rows = BulkWriter(cluster, handler=handler), rows(MIXED)
    with caplog.at_level(logging.WARNING, logger="notifier.adapters.cassandra.bulk.writer"):
        bulk.send(divide_into_messages(shard_rows, 60, bulk.query_id()))
        bulk.send(divide_into_messages(shard_rows, 60, bulk.query_id()))
    assert [record.message for record in caplog.records if record.name.startswith("notifier")] == [WARNING]
    assert stored_row_count(cluster) == shard_rows.row_count
    is_bitmap = [len(stored_members) == RANGE_BYTES for stored_members in shard_rows.members]
    for index in (is_bitmap.index(True), is_bitmap.index(False)):
        row = InboxRow(
            burst=KEY, opened_at=shard_rows.opened_at, tier=shard_rows.tier, members=shard_rows.members[index]
        )
        members = [shard_rows.ranges[index] * RANGE_MEMBERS + offset for offset in row.offsets().tolist()[:3]]
        assert [newest(cluster, member) for member in members] == [[row]] * 3


def test_congestion_window_halves_on_refusal_and_grows_with_fast_answers() -> None:
    window = CongestionWindow()
    assert window.delay(INITIAL_WINDOW, 0.0) == 0.0
    window.on_sent(INITIAL_WINDOW)
    assert window.delay(1, 0.0) is None
    window.on_rejected(INITIAL_WINDOW, 0.0, 1.0)
    assert window.size == INITIAL_WINDOW / 2
    assert window.delay(1, 1.0) == pytest.approx(0.01)
    window.on_sent(1_000)
    window.on_rejected(1_000, 0.5, 1.1)  # sent before the last one was refused: the window does not shrink again
    assert window.size == INITIAL_WINDOW / 2
    for n in range(20):
        window.on_sent(1_000)
        window.on_rejected(1_000, 2.0 + n, 2.0 + n)
    assert (window.size, window.delay(1, 21.0)) == (MIN_WINDOW, 1.0)
    for n in range(2_000):
        window.on_sent(int(window.size))
        window.on_accepted(int(window.size), 100.0 + n, 100.01 + n)
    assert (window.size, window.consecutive_rejections) == (MAX_WINDOW, 0)
    window.on_sent(1_000)
    window.on_accepted(1_000, 9_000.0, 9_000.5)
    assert window.size == pytest.approx(MAX_WINDOW * 0.8)


def test_forgotten_statements_are_prepared_again(cassandra: CassandraAccess, tmp_path: Path) -> None:
    """The table is altered, and then all its data is lost. While the node is silent, no call waits forever."""
    access = replace(cassandra, keyspace=f"forgotten_{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}")
    migrations = inbox_migration_only(tmp_path)
    with empty_keyspace(access, migrations), tcp_proxy(access.port, access.hosts[0]) as proxy:
        cluster = Cluster(replace(access, hosts=["127.0.0.1"], port=proxy.port))
        handler = handler_with()
        inbox = CassandraInbox(cluster, ManualClock(), BulkWriter(cluster, handler=handler))
        row_sets = [rows(MIXED, key=BurstKey(NOVA, seq)) for seq in range(1, 5)]
        inbox.write(row_sets[:1])
        cluster.change_schema("ALTER TABLE inbox WITH comment = 'another'")
        inbox.write(row_sets[1:2])
        cluster.change_schema("ALTER TABLE inbox ADD another int")
        inbox.write(row_sets[2:3])
        assert stored_row_count(cluster) == sum(shard_rows.row_count for shard_rows in row_sets[:3])
        assert handler.forgotten
        proxy.freeze()
        with pytest.raises(StoreUnavailable):
            inbox.write(row_sets)
        handler.forgotten = 0
        with empty_keyspace(access, migrations):
            proxy.disconnect()
            wait_until_reconnected(cluster)
            inbox.write(row_sets[3:])
            assert handler.forgotten
            assert stored_row_count(cluster) == row_sets[3].row_count
        cluster.close()


@contextmanager
def empty_keyspace(access: CassandraAccess, migrations: Path) -> Iterator[None]:
    """Create the keyspace again, without data. Drop it at the end."""
    cluster = Cluster(replace(access, keyspace="system"))
    drop = f"DROP KEYSPACE IF EXISTS {access.keyspace}"
    try:
        cluster.change_schema(drop)
        migrated = Cluster(access)
        migrate(migrated, Phase.PRE, migrations)
        migrated.close()
        yield
        cluster.change_schema(drop)
    finally:
        cluster.close()


def inbox_migration_only(folder: Path) -> Path:
    """Write only the migration of the inbox table, because a keyspace for one test is created slowly enough."""
    for phase in Phase:
        (folder / phase).mkdir()
    shipped_statements = [
        statement for path in (FOLDER / "pre").glob("*.cql") for statement in split_statements(path.read_text())
    ]
    [inbox] = [
        statement for statement in shipped_statements if statement.startswith("CREATE TABLE IF NOT EXISTS inbox (")
    ]
    (folder / "pre" / "0001_inbox.cql").write_text(f"{inbox};\n")
    return folder


def wait_until_reconnected(cluster: Cluster) -> None:
    """Return when the driver has reconnected to the node."""
    deadline = monotonic() + 60
    while monotonic() < deadline:
        with suppress(StoreUnavailable):
            cluster.execute(COUNT_ROWS)
            return
        sleep(0.1)
    raise AssertionError("the driver never reconnected")


def newest(cluster: Cluster, member: int) -> Sequence[InboxRow]:
    return run(CassandraTimeline(patient_queries(cluster), ManualClock()).rows(Member(member), [NOVA], None, 5))
