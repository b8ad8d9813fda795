"""The bulk writer on a real node: busy, moved, forgetful or silent."""

import logging
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
from notifier.adapters.cassandra.bulk.encoding import RowBatch, messages
from notifier.adapters.cassandra.bulk.writer import BEGINS, LEAST, MOST, Bulk, CongestionWindow
from notifier.adapters.cassandra.schema.migrate import FOLDER, statements
from notifier.config import Settings
from notifier.devkit.engines.cassandra import node
from notifier.devkit.engines.engine import Engine, free_port
from notifier.devkit.engines.maven import missing
from notifier.domain.audience.inbox_rows import RANGE_BYTES, RANGE_MEMBERS, SHARD_RANGES, InboxRow
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Member
from tests.services.rows import BUSY, KEY, MIXED, STORED, answering, rows, stored
from tests.support.contract_examples import NOVA
from tests.support.fakes.clock import ManualClock
from tests.support.keyspace import patient_reader

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing())}"
    ),
]

SAID = "This cassandra-driver takes no premade messages: rows go in its own batches, slowly."


@pytest.mark.parametrize("error", BUSY, ids=["overloaded", "write timeout"])
def test_what_a_busy_node_refuses_is_written_again_until_it_stands(cluster: Cluster, error: ErrorMessage) -> None:
    handler = answering(error=error, refusals=20)
    inbox = CassandraInbox(cluster, ManualClock(), Bulk(cluster, handler=handler))
    made = [rows(MIXED, shard=shard) for shard in range(20)]
    inbox.write(made)
    assert handler.refusals == 0
    assert stored(cluster) == sum(one.written for one in made)


@pytest.mark.parametrize("error", BUSY, ids=["overloaded", "write timeout"])
def test_a_node_that_stays_busy_is_unavailable(cluster: Cluster, error: ErrorMessage) -> None:
    bulk = Bulk(cluster, handler=answering(error=error, refusals=1_000_000), patience=0.2)
    with pytest.raises(StoreUnavailable, match=r"Rows were not written"):
        CassandraInbox(cluster, ManualClock(), bulk).write([rows(MIXED)])


def test_what_is_wrong_is_not_tried_again(cluster: Cluster) -> None:
    failed = WriteFailureMessage(code=0x1500, message="on purpose", info={**BUSY[1].info, "failures": 1})
    handler = answering(error=failed, refusals=1)
    with pytest.raises(StoreUnavailable):
        CassandraInbox(cluster, ManualClock(), Bulk(cluster, handler=handler)).write([rows(0.0001)])
    assert handler.refusals == 0


def test_callers_side_by_side_all_have_their_rows(cluster: Cluster) -> None:
    inbox = CassandraInbox(cluster, ManualClock(), Bulk(cluster, handler=answering(error=BUSY[0], refusals=30)))
    made = [rows(MIXED, shard=shard) for shard in range(64)]
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda first: inbox.write(made[first::8]), range(8)))
    assert stored(cluster) == sum(one.written for one in made)


def test_more_than_the_connection_takes_waits_for_it(cluster: Cluster) -> None:
    """20 MB at once."""
    bulk, one = Bulk(cluster, window=CongestionWindow(allowed=1 << 30)), rows(0.9)
    made = [
        replace(one, shard=shard, ranges=range(shard * SHARD_RANGES, (shard + 1) * SHARD_RANGES))
        for shard in range(1_100)
    ]
    CassandraInbox(cluster, ManualClock(), bulk).write(made)
    assert stored(cluster) == sum(one.written for one in made)


class Moved(ProtocolHandler):  # type: ignore[misc]  # the driver ships no types
    """A driver that has become another: it would refuse what we give it."""

    @classmethod
    def encode_message(cls, msg: Any, *args: Any, **options: Any) -> bytes:
        if isinstance(getattr(msg, "queries", None), RowBatch):
            raise AttributeError("queries")
        encoded: bytes = super().encode_message(msg, *args, **options)
        return encoded


@pytest.mark.parametrize("handler", [ProtocolHandler, Moved])
def test_a_driver_that_has_changed_inside_is_said_once_and_its_own_batches_are_sent(
    cluster: Cluster, handler: type[ProtocolHandler], caplog: pytest.LogCaptureFixture
) -> None:
    bulk, made = Bulk(cluster, handler=handler), rows(MIXED)
    with caplog.at_level(logging.WARNING, logger="notifier.adapters.cassandra.bulk.writer"):
        bulk.send(messages(made, 60, bulk.query_id()))
        bulk.send(messages(made, 60, bulk.query_id()))
    assert [record.message for record in caplog.records if record.name.startswith("notifier")] == [SAID]
    assert stored(cluster) == made.written
    is_bitmap = [len(members) == RANGE_BYTES for members in made.members]
    for at in (is_bitmap.index(True), is_bitmap.index(False)):
        row = InboxRow(burst=KEY, opened_at=made.opened_at, tier=made.tier, members=made.members[at])
        reached = [made.ranges[at] * RANGE_MEMBERS + place for place in row.places().tolist()[:3]]
        assert [newest(cluster, member) for member in reached] == [[row]] * 3


def test_congestion_window_halves_on_refusal_and_grows_with_fast_answers() -> None:
    window = CongestionWindow()
    assert window.wait(BEGINS, 0.0) == 0.0
    window.sent(BEGINS)
    assert window.wait(1, 0.0) is None
    window.refused(BEGINS, 0.0, 1.0)
    assert window.allowed == BEGINS / 2
    assert window.wait(1, 1.0) == pytest.approx(0.01)
    window.sent(1_000)
    window.refused(1_000, 0.5, 1.1)  # sent before the last one was refused: nothing new
    assert window.allowed == BEGINS / 2
    for n in range(20):
        window.sent(1_000)
        window.refused(1_000, 2.0 + n, 2.0 + n)
    assert (window.allowed, window.wait(1, 21.0)) == (LEAST, 1.0)
    for n in range(2_000):
        window.sent(int(window.allowed))
        window.answered(int(window.allowed), 100.0 + n, 100.01 + n)
    assert (window.allowed, window.refusals) == (MOST, 0)
    window.sent(1_000)
    window.answered(1_000, 9_000.0, 9_000.5)
    assert window.allowed == pytest.approx(MOST * 0.8)


def test_a_node_that_forgot_its_statements_is_told_them_again(tmp_path: Path) -> None:
    """After its table was altered, and after all that it had was lost; while it is silent nothing waits for ever."""
    engine = own_node(tmp_path / "first")
    with running(engine):
        cluster = migrated(engine, inbox_alone(tmp_path))
        handler = answering()
        inbox = CassandraInbox(cluster, ManualClock(), Bulk(cluster, handler=handler))
        made = [rows(MIXED, key=BurstKey(NOVA, seq)) for seq in range(1, 5)]
        inbox.write(made[:1])
        cluster.change("ALTER TABLE inbox WITH comment = 'another'")
        inbox.write(made[1:2])
        cluster.change("ALTER TABLE inbox ADD another int")
        inbox.write(made[2:3])
        assert stored(cluster) == sum(one.written for one in made[:3])
        assert handler.forgotten
        engine.freeze()
        with pytest.raises(StoreUnavailable):
            inbox.write(made)
        engine.kill()
        handler.forgotten = 0
        with running(own_node(tmp_path / "second", port=engine.port)) as other:
            migrated(other, tmp_path).close()
            reached(cluster)
            inbox.write(made[3:])
            assert handler.forgotten
            assert stored(cluster) == made[3].written
        cluster.close()


def own_node(folder: Path, port: int | None = None) -> Engine:
    return node(folder, Settings.read().jars.expanduser(), port=port or free_port())


@contextmanager
def running(engine: Engine) -> Iterator[Engine]:
    engine.start()
    try:
        engine.ready()
        yield engine
    finally:
        engine.kill()


def inbox_alone(folder: Path) -> Path:
    """Write the migration of the inbox table alone: an engine for one test is slow enough to start."""
    for phase in Phase:
        (folder / phase).mkdir()
    shipped = [each for path in (FOLDER / "pre").glob("*.cql") for each in statements(path.read_text())]
    [inbox] = [each for each in shipped if each.startswith("CREATE TABLE IF NOT EXISTS inbox (")]
    (folder / "pre" / "0001_inbox.cql").write_text(f"{inbox};\n")
    return folder


def migrated(engine: Engine, folder: Path) -> Cluster:
    cluster = Cluster(CassandraAccess(hosts=[engine.host], port=engine.port, keyspace="rows"))
    migrate(cluster, Phase.PRE, folder)
    return cluster


def reached(cluster: Cluster) -> None:
    """Returns when the driver has found the node again."""
    deadline = monotonic() + 60
    while monotonic() < deadline:
        with suppress(StoreUnavailable):
            cluster.execute(STORED)
            return
        sleep(0.1)


def newest(cluster: Cluster, member: int) -> Sequence[InboxRow]:
    return run(CassandraTimeline(patient_reader(cluster), ManualClock()).rows(Member(member), [NOVA], None, 5))
