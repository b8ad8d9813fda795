"""Rows on a real node: the driver's own bytes, within the node's limits, and none without a time to live."""

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
    CassandraInbox,
    CassandraSeals,
    Cluster,
)
from notifier.adapters.cassandra.bulk.encoding import Premade, Splicing, messages
from notifier.adapters.cassandra.bulk.writer import Bulk
from notifier.adapters.cassandra.driver.session import PROTOCOL
from notifier.codec import pack_seal
from notifier.codec.storage import to_ms
from notifier.devkit.engines.maven import missing
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.inbox_rows import RANGE_BYTES, InboxRows, window_of
from notifier.domain.audience.snapshot import KEPT_FOR
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from tests.services.rows import KEY, MIXED, answering, rows, stored
from tests.support.contract_examples import NOVA, seal
from tests.support.fakes.clock import ManualClock

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing())}"
    ),
]

LIVES = "SELECT ttl(members) FROM inbox"


def bound(rows: InboxRows, ttl: int) -> list[tuple[object, ...]]:
    """Each row as one would bind it by hand."""
    of = str(rows.burst.subject), to_ms(rows.opened_at), rows.burst.seq, str(rows.tier)
    each = zip(rows.ranges, rows.members, strict=True)
    return [(member_range, window_of(rows.opened_at), *of, members, ttl) for member_range, members in each]


def encoded(handler: type[ProtocolHandler], batch: BatchStatement) -> bytes:
    message = BatchMessage(
        batch.batch_type, batch._statements_and_parameters, ConsistencyLevel.LOCAL_QUORUM, ConsistencyLevel.SERIAL, 7
    )
    frame: bytes = handler.encode_message(message, 3, PROTOCOL, compressor=None, allow_beta_protocol_version=False)
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
def test_a_message_is_to_the_byte_what_the_driver_makes_of_its_rows(
    kept: Cluster, shape: dict[str, Any], ttl: int
) -> None:
    made = rows(**shape)
    expected = bound(made, ttl)
    for message in messages(made, ttl, Bulk(kept).query_id()):
        own = BatchStatement(batch_type=BatchType.UNLOGGED)
        for values in expected[: len(message)]:
            own.add(kept.prepared(message.statement), values)
        del expected[: len(message)]
        ours = Premade(message)
        assert encoded(Splicing, ours) == encoded(ProtocolHandler, own)
        assert ours.routing_key == own.routing_key
    assert not expected


@pytest.mark.parametrize("share", [0.001, 0.01, 0.02, 0.04, 0.06, MIXED, 0.9])
@pytest.mark.parametrize("owner", ["n", "nova", "a_name_of_thirty_letters_or_so"])
def test_the_node_warns_of_no_message(cluster: Cluster, share: float, owner: str) -> None:
    handler = answering(warned=set())
    bulk, key = Bulk(cluster, handler=handler), BurstKey(Subject(Kind.MENTION, UserId(owner)), 1)
    made = rows(share, key=key)
    bulk.send(messages(made, 60, bulk.query_id()))
    assert handler.warned == set()
    assert stored(cluster) == made.written


def test_every_row_has_a_time_to_live_and_one_without_time_is_not_written(cluster: Cluster) -> None:
    clock = ManualClock()
    inbox, made = CassandraInbox(cluster, clock), rows(MIXED)
    assert {len(members) == RANGE_BYTES for members in made.members} == {True, False}
    clock.advance(timedelta(days=30))
    inbox.write([made])
    most = int((RETENTION - timedelta(days=30)).total_seconds())
    assert all(most - 60 < life <= most for (life,) in cluster.execute(LIVES))
    assert stored(cluster) == made.written
    clock.advance(RETENTION - timedelta(days=30) - timedelta(milliseconds=999))
    inbox.write([replace(made, burst=BurstKey(NOVA, 2))])
    assert stored(cluster) == made.written


def test_rows_end_when_their_time_has_come(cluster: Cluster) -> None:
    clock = ManualClock()
    clock.advance(RETENTION - timedelta(seconds=3))
    CassandraInbox(cluster, clock).write([rows(MIXED)])
    assert stored(cluster)
    await_none(cluster)


def test_a_seal_lives_a_week_by_the_node_and_by_our_clock(cluster: Cluster) -> None:
    clock = ManualClock()
    seals = CassandraSeals(cluster, clock)
    seals.insert(KEY, [seal(3)])
    [(life,)] = cluster.execute("SELECT ttl(made) FROM sealed")
    assert KEPT_FOR - timedelta(minutes=1) < timedelta(seconds=life) <= KEPT_FOR
    [(life,)] = cluster.execute("SELECT ttl(facts) FROM seals")
    assert KEPT_FOR < timedelta(seconds=life) <= KEPT_FOR + timedelta(hours=1)
    clock.advance(KEPT_FOR - timedelta(milliseconds=1))
    assert list(seals.read(KEY, [3])) == [3]
    clock.advance(timedelta(milliseconds=1))
    assert seals.read(KEY, [3]) == {}
    assert [one.shard for one in seals.insert(KEY, [seal(3)])] == [3]


class CutOff(Cluster):
    """Whoever decides with it learns nothing: it is cut off before the decision, or behind it."""

    behind = False

    def decide_together(self, statement: str, groups: Iterable[Sequence[Sequence[object]]]) -> list[bool | None]:
        return [None for _ in (super().decide_together(statement, groups) if self.behind else groups)]


@pytest.mark.parametrize("behind", [False, True], ids=["before its name is chosen", "behind it"])
def test_who_dies_while_sealing_leaves_all_of_it_or_nothing(cluster: Cluster, behind: bool) -> None:
    first, second = seal(3, p0=from_offsets([1])), seal(3, p0=from_offsets([2]))
    with closing(CutOff(cluster.access)) as dying:
        dying.behind = behind
        with pytest.raises(StoreUnavailable):
            CassandraSeals(dying, ManualClock()).insert(KEY, [first])
    seals = CassandraSeals(cluster, ManualClock())
    assert list(seals.read(KEY, [3])) == ([3] if behind else [])
    [stands] = seals.insert(KEY, [second])
    assert pack_seal(stands) == pack_seal(first if behind else second)
    assert pack_seal(seals.read(KEY, [3])[3]) == pack_seal(stands)


def test_a_seal_that_stands_and_can_not_be_read_is_never_replaced(cluster: Cluster) -> None:
    seals = CassandraSeals(cluster, ManualClock())
    seals.insert(KEY, [seal(3)])
    cluster.execute("TRUNCATE seals")
    with pytest.raises(StoreUnavailable):
        seals.insert(KEY, [seal(3)])


def await_none(cluster: Cluster) -> None:
    deadline = monotonic() + 30
    while stored(cluster):
        assert monotonic() < deadline
        sleep(0.1)
