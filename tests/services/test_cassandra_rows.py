"""Rows in bulk on a real node: the driver's own bytes, the node's limits, again where it is busy, and forgetful."""

import logging
from asyncio import run
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any, ClassVar

import numpy as np
import pytest
from cassandra import ConsistencyLevel, ProtocolVersion, WriteType
from cassandra.protocol import (
    RESULT_KIND_VOID,
    BatchMessage,
    ErrorMessage,
    OverloadedErrorMessage,
    PreparedQueryNotFound,
    ProtocolHandler,
    ResultMessage,
    WriteFailureMessage,
    WriteTimeoutErrorMessage,
)
from cassandra.query import BatchStatement, BatchType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.adapters.cassandra import (
    Access,
    CassandraInbox,
    CassandraSeals,
    CassandraTimeline,
    Cluster,
    Phase,
    migrate,
)
from notifier.adapters.cassandra.bodies import (
    BLOCK_ROW,
    MEMBER_ROW,
    MESSAGE_BYTES,
    MUTATION_ROWS,
    PARTITIONS,
    UNCOUNTED,
    Message,
    messages,
)
from notifier.adapters.cassandra.bulk import Bulk
from notifier.adapters.cassandra.migrate import FOLDER
from notifier.adapters.cassandra.pace import BEGINS, LEAST, MOST, Pace
from notifier.adapters.cassandra.premade import Premade, Splicing
from notifier.adapters.cassandra.reader import Reader
from notifier.codec.moments import to_ms
from notifier.config import Settings
from notifier.domain.audience import Tier
from notifier.domain.bits import BLOCK_MEMBERS, SHARD_MEMBERS, from_flags
from notifier.domain.block import BLOCK_SLOT, Row, Rows, cut, window_of
from notifier.domain.burst import RETENTION
from notifier.domain.errors import StoreUnavailable
from notifier.domain.seal import KEPT_FOR
from notifier.domain.subject import BurstKey, Kind, Member, Subject, UserId
from notifier.testing.memory.clock import START, ManualClock
from services.cassandra.node import node
from services.engine import Engine, free_port
from services.jars import missing
from tests.contracts.keyspace import emptied, keyspace
from tests.contracts.made import NOVA, seal

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing())}"
    ),
]

KEY = BurstKey(NOVA, 1)
SAID = "This cassandra-driver takes no premade messages: rows go in its own batches, slowly."
LIVES = "SELECT ttl(members) FROM inbox WHERE slot = 1024 ALLOW FILTERING"
STORED = "SELECT count(*) FROM inbox"


@pytest.fixture(scope="module")
def kept(cassandra: Access) -> Iterator[Cluster]:
    with keyspace(cassandra) as cluster:
        yield cluster


@pytest.fixture
def cluster(kept: Cluster) -> Iterator[Cluster]:
    """With a session of its own, which nobody has told how to encode."""
    emptied(kept)
    own = Cluster(kept.access)
    yield own
    own.close()


def rows(share: float, *, threshold: int = 32, key: BurstKey = KEY, shard: int = 0) -> Rows:
    chance = np.random.default_rng(key.seq)
    bits = from_flags(chance.random(SHARD_MEMBERS) < share)
    return cut(bits, burst=key, opened_at=START, tier=Tier.P1, shard=shard, threshold=threshold)


def bound(rows: Rows, ttl: int) -> list[tuple[object, ...]]:
    """Each row as one would bind it by hand."""
    window, at = window_of(rows.opened_at), to_ms(rows.opened_at)
    of = at, str(rows.burst.subject), rows.burst.seq, str(rows.tier)
    shared = [(block, window, BLOCK_SLOT, *of, rows.bitmap(n), ttl) for n, block in enumerate(rows.blocks.tolist())]
    single = [(*divmod(member, BLOCK_MEMBERS), *of, ttl) for member in rows.members.tolist()]
    return [*shared, *((block, window, slot, *rest) for block, slot, *rest in single)]


def encoded(handler: type[ProtocolHandler], batch: BatchStatement) -> bytes:
    message = BatchMessage(
        batch.batch_type, batch._statements_and_parameters, ConsistencyLevel.LOCAL_QUORUM, ConsistencyLevel.SERIAL, 7
    )
    frame: bytes = handler.encode_message(
        message, 3, ProtocolVersion.V5, compressor=None, allow_beta_protocol_version=False
    )
    return frame


SHAPES = st.fixed_dictionaries(
    {
        "share": st.sampled_from([0.0, 0.00005, 0.002, 0.02, 0.031, 0.05, 0.4, 1.0]),
        "threshold": st.sampled_from([1, 32, 2_000]),
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
def test_a_message_is_to_the_byte_what_the_driver_makes_of_its_rows(
    kept: Cluster, shape: dict[str, Any], ttl: int
) -> None:
    made = rows(**shape)
    expected = bound(made, ttl)
    for message in messages(made, ttl, Bulk(kept).prepared()):
        own = BatchStatement(batch_type=BatchType.UNLOGGED)
        for values in expected[: len(message)]:
            own.add(kept.prepared(message.statement), values)
        del expected[: len(message)]
        ours = Premade(message)
        assert encoded(Splicing, ours) == encoded(ProtocolHandler, own)
        assert ours.routing_key == own.routing_key
        assert (message.statement == BLOCK_ROW) == (int(message.rows["slot"][0]) == BLOCK_SLOT)
    assert not expected


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=SHAPES)
def test_a_message_stays_within_what_a_node_takes_without_a_word(kept: Cluster, shape: dict[str, Any]) -> None:
    for message in messages(rows(**shape), 9, Bulk(kept).prepared()):
        blocks, each = np.unique(message.rows["block"], return_counts=True)
        assert len(blocks) <= PARTITIONS
        assert each.max() <= MUTATION_ROWS
        if message.statement == MEMBER_ROW and len(blocks) > 1:
            assert len(message) * (message.rows.itemsize - UNCOUNTED) <= MESSAGE_BYTES


@pytest.mark.parametrize("share", [0.001, 0.005, 0.01, 0.015, 0.02, 0.03, 0.9])
@pytest.mark.parametrize("owner", ["n", "nova", "a_name_of_thirty_letters_or_so"])
def test_the_node_warns_of_no_message(cluster: Cluster, share: float, owner: str) -> None:
    handler = answering(warned=set())
    bulk, key = Bulk(cluster, handler=handler), BurstKey(Subject(Kind.MENTION, UserId(owner)), 1)
    for threshold in (32, 2_000):
        bulk.send(messages(rows(share, threshold=threshold, key=key), 60, bulk.prepared()))
    assert handler.warned == set()


def test_every_row_has_a_time_to_live_and_one_without_time_is_not_written(cluster: Cluster) -> None:
    clock = ManualClock()
    inbox, made = CassandraInbox(cluster, clock), rows(0.031)
    assert len(made.blocks)
    assert len(made.members)
    clock.advance(timedelta(days=30))
    inbox.write([made])
    most = int((RETENTION - timedelta(days=30)).total_seconds())
    assert all(most - 60 < life <= most for (life,) in cluster.execute(LIVES))
    assert stored(cluster) == made.written
    clock.advance(RETENTION - timedelta(days=30) - timedelta(milliseconds=999))
    inbox.write([replace(made, burst=BurstKey(NOVA, 2))])
    assert stored(cluster) == made.written


def test_rows_of_both_kinds_end_when_their_time_has_come(cluster: Cluster) -> None:
    """A member row has no cell whose time to live could be asked for."""
    clock = ManualClock()
    clock.advance(RETENTION - timedelta(seconds=3))
    CassandraInbox(cluster, clock).write([rows(0.031)])
    assert stored(cluster)
    await_none(cluster)


def test_a_seal_lives_a_week_by_the_node_and_by_our_clock(cluster: Cluster) -> None:
    clock = ManualClock()
    seals = CassandraSeals(cluster, clock)
    seals.insert(KEY, [seal(3)])
    [(life,)] = cluster.execute("SELECT ttl(blob) FROM seals")
    assert KEPT_FOR - timedelta(minutes=1) < timedelta(seconds=life) <= KEPT_FOR
    clock.advance(KEPT_FOR - timedelta(milliseconds=1))
    assert list(seals.read(KEY, [3])) == [3]
    clock.advance(timedelta(milliseconds=1))
    assert seals.read(KEY, [3]) == {}
    assert [one.shard for one in seals.insert(KEY, [seal(3)])] == [3]


BUSY = [
    OverloadedErrorMessage(code=0x1001, message="on purpose", info=None),
    WriteTimeoutErrorMessage(
        code=0x1100,
        message="on purpose",
        info={
            "consistency": ConsistencyLevel.LOCAL_QUORUM,
            "received_responses": 0,
            "required_responses": 1,
            "write_type": WriteType.UNLOGGED_BATCH,
        },
    ),
]


class Answers(Splicing):
    """What the node has answered to writes, some of it replaced; a subclass for each test."""

    error: ErrorMessage
    refusals = 0
    """How many answers are still to be replaced."""
    forgotten = 0
    """How often the node didn't know a statement."""
    warned: ClassVar[set[str]] = set()

    @classmethod
    def decode_message(cls, *args: Any, **options: Any) -> Any:
        answer = super().decode_message(*args, **options)
        cls.forgotten += isinstance(answer, PreparedQueryNotFound)
        cls.warned.update(answer.warnings or ())
        if cls.refusals and isinstance(answer, ResultMessage) and answer.kind == RESULT_KIND_VOID:
            cls.refusals -= 1
            error = type(cls.error)(cls.error.code, cls.error.message, cls.error.info)
            error.stream_id, error.trace_id, error.custom_payload = answer.stream_id, None, None
            error.warnings = None
            return error
        return answer


def answering(**facts: object) -> type[Answers]:
    return type("Some", (Answers,), facts)


@pytest.mark.parametrize("error", BUSY, ids=["overloaded", "write timeout"])
def test_what_a_busy_node_refuses_is_written_again_until_it_stands(cluster: Cluster, error: ErrorMessage) -> None:
    handler = answering(error=error, refusals=20)
    inbox = CassandraInbox(cluster, ManualClock(), Bulk(cluster, handler=handler))
    made = [rows(0.031, shard=shard) for shard in range(3)]
    inbox.write(made)
    assert handler.refusals == 0
    assert stored(cluster) == sum(one.written for one in made)


@pytest.mark.parametrize("error", BUSY, ids=["overloaded", "write timeout"])
def test_a_node_that_stays_busy_is_unavailable(cluster: Cluster, error: ErrorMessage) -> None:
    bulk = Bulk(cluster, handler=answering(error=error, refusals=1_000_000), patience=0.2)
    with pytest.raises(StoreUnavailable, match=r"Rows were not written"):
        CassandraInbox(cluster, ManualClock(), bulk).write([rows(0.031)])


def test_what_is_wrong_is_not_tried_again(cluster: Cluster) -> None:
    failed = WriteFailureMessage(code=0x1500, message="on purpose", info={**BUSY[1].info, "failures": 1})
    handler = answering(error=failed, refusals=1)
    with pytest.raises(StoreUnavailable):
        CassandraInbox(cluster, ManualClock(), Bulk(cluster, handler=handler)).write([rows(0.0001)])
    assert handler.refusals == 0


def test_callers_side_by_side_all_have_their_rows(cluster: Cluster) -> None:
    inbox = CassandraInbox(cluster, ManualClock(), Bulk(cluster, handler=answering(error=BUSY[0], refusals=30)))
    made = [rows(0.031, shard=shard) for shard in range(8)]
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda one: inbox.write([one]), made))
    assert stored(cluster) == sum(one.written for one in made)


class Moved(ProtocolHandler):  # type: ignore[misc]  # the driver ships no types
    """A driver that has become another: it would refuse what we give it."""

    @classmethod
    def encode_message(cls, msg: Any, *args: Any, **options: Any) -> bytes:
        if isinstance(getattr(msg, "queries", None), Message):
            raise AttributeError("queries")
        encoded: bytes = super().encode_message(msg, *args, **options)
        return encoded


@pytest.mark.parametrize("handler", [ProtocolHandler, Moved])
def test_a_driver_that_has_changed_inside_is_said_once_and_its_own_batches_are_sent(
    cluster: Cluster, handler: type[ProtocolHandler], caplog: pytest.LogCaptureFixture
) -> None:
    bulk, made = Bulk(cluster, handler=handler), rows(0.031)
    with caplog.at_level(logging.WARNING, logger="notifier.adapters.cassandra.bulk"):
        bulk.send(messages(made, 60, bulk.prepared()))
        bulk.send(messages(made, 60, bulk.prepared()))
    assert [record.message for record in caplog.records if record.name.startswith("notifier")] == [SAID]
    assert stored(cluster) == made.written
    assert [(row.members is None, row.slot) for row in newest(cluster, int(made.members[0]))] == [
        (True, made.members[0] % BLOCK_MEMBERS)
    ]
    assert newest(cluster, int(made.blocks[0]) * BLOCK_MEMBERS + first_in(made))


def test_the_pace_halves_when_it_is_refused_and_grows_while_answers_come_soon() -> None:
    pace = Pace()
    assert pace.wait(BEGINS, 0.0) == 0.0
    pace.sent(BEGINS)
    assert pace.wait(1, 0.0) is None
    pace.refused(BEGINS, 0.0, 1.0)
    assert pace.allowed == BEGINS / 2
    assert pace.wait(1, 1.0) == pytest.approx(0.01)
    pace.sent(1_000)
    pace.refused(1_000, 0.5, 1.1)  # sent before the last one was refused: nothing new
    assert pace.allowed == BEGINS / 2
    for n in range(20):
        pace.sent(1_000)
        pace.refused(1_000, 2.0 + n, 2.0 + n)
    assert (pace.allowed, pace.pause) == (LEAST, 1.0)
    for n in range(2_000):
        pace.sent(int(pace.allowed))
        pace.answered(int(pace.allowed), 100.0 + n, 100.01 + n)
    assert (pace.allowed, pace.pause) == (MOST, 0.0)
    pace.sent(1_000)
    pace.answered(1_000, 9_000.0, 9_000.5)
    assert pace.allowed == pytest.approx(MOST * 0.8)


def test_a_node_that_forgot_its_statements_is_told_them_again(tmp_path: Path) -> None:
    """After its table was altered, and after all that it had was lost; while it is silent nothing waits for ever."""
    engine = own_node(tmp_path / "first")
    with running(engine):
        cluster = migrated(engine, inbox_alone(tmp_path))
        handler = answering()
        inbox = CassandraInbox(cluster, ManualClock(), Bulk(cluster, handler=handler))
        made = [rows(0.031, key=BurstKey(NOVA, seq)) for seq in range(1, 5)]
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
    """Of the schema: an engine of one's own is slow enough to start."""
    for phase in Phase:
        (folder / phase).mkdir()
    (folder / "pre" / "0001_inbox.cql").write_text((FOLDER / "pre" / "0003_inbox.cql").read_text())
    return folder


def migrated(engine: Engine, folder: Path) -> Cluster:
    cluster = Cluster(Access(hosts=[engine.host], port=engine.port, keyspace="rows"))
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


def await_none(cluster: Cluster) -> None:
    deadline = monotonic() + 30
    while stored(cluster):
        assert monotonic() < deadline
        sleep(0.1)


def stored(cluster: Cluster) -> int:
    return int(cluster.execute(STORED)[0][0])


def newest(cluster: Cluster, member: int) -> Sequence[Row]:
    return run(CassandraTimeline(Reader(cluster), ManualClock()).rows(Member(member), None, 5))


def first_in(made: Rows) -> int:
    """The place of the first member in the first block row."""
    return int(np.flatnonzero(np.unpackbits(np.frombuffer(made.bitmap(0), dtype=np.uint8), bitorder="little"))[0])
