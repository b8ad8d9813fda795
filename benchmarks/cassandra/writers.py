"""Writers of the same deliveries: ours, the leanest possible, and the stock driver."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cassandra.cluster import Cluster as Driver
from cassandra.cluster import Session
from cassandra.query import BatchStatement, BatchType, PreparedStatement

from benchmarks.cassandra.generated_history_and_bursts import single
from benchmarks.cassandra.lean_cql_client import FrameConnection, batches
from notifier.adapters.cassandra import CassandraAccess, CassandraInbox
from notifier.adapters.cassandra.bulk.encoding import RowMessage, divide_into_messages
from notifier.codec.messagepack import to_ms
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS, InboxRows, window_of
from notifier.domain.bursts.burst import RETENTION

ROW_TTL_SECONDS = int(RETENTION.total_seconds())
BATCH = 50
"""Rows per batch of the stock driver, a usual size. With 500 it writes as many rows per second."""
SINGLES_AT_ONCE, BATCHES_AT_ONCE = 128, 32
"""Requests in flight. More are not faster."""

TABLE = (Path(__file__).parent / "partition_per_member_table.cql").read_text()
INSERT = (
    "INSERT INTO one_per_partition (member, inbox_window, opened_at, subject, seq, tier) "
    "VALUES (?, ?, ?, ?, ?, ?) USING TTL ?"
)

Values = tuple[object, ...]
Delivery = tuple[int, int, int, str, int, str, int]
"""A row of `one_per_partition`: member, inbox window, opened at, subject, seq, tier, TTL."""


@dataclass(frozen=True, slots=True)
class ProductWriter:
    inbox: CassandraInbox

    def ready(self, rows: Sequence[InboxRows]) -> Callable[[], object]:
        return partial(self.inbox.write, rows)


@dataclass(frozen=True, slots=True)
class LeanestWriter:
    """The same statements in the same messages, encoded before measuring and sent by a socket."""

    frames: FrameConnection
    query_id: bytes

    def ready(self, rows: Sequence[InboxRows]) -> Callable[[], object]:
        made: list[RowMessage] = [
            message for group in rows for message in divide_into_messages(group, ROW_TTL_SECONDS, self.query_id)
        ]
        return partial(self.frames.send, batches(made), len(made))


class DriverDefaults:
    """A session with the driver's defaults, and a table with a partition per member."""

    def __init__(self, access: CassandraAccess) -> None:
        self._driver = Driver(contact_points=list(access.hosts), port=access.port)
        self.session: Session = self._driver.connect(access.keyspace)
        self.session.execute(TABLE)
        self.insert: PreparedStatement = self.session.prepare(INSERT)

    def close(self) -> None:
        self._driver.shutdown()

    def write(self, insert: PreparedStatement, groups: Sequence[Sequence[Values]]) -> None:
        """Write each group as an unlogged batch."""
        answered((self.session.execute_async(_batch(insert, group)) for group in groups), BATCHES_AT_ONCE)


@dataclass(frozen=True, slots=True)
class Singles:
    """One prepared statement per delivery."""

    stock: DriverDefaults

    def ready(self, rows: Sequence[InboxRows]) -> Callable[[], object]:
        return partial(self._write, list(values(rows)))

    def _write(self, deliveries: Sequence[Values]) -> None:
        session, insert = self.stock.session, self.stock.insert
        answered((session.execute_async(insert, delivery) for delivery in deliveries), SINGLES_AT_ONCE)


@dataclass(frozen=True, slots=True)
class Batches:
    """Unlogged batches, as applications use them for speed."""

    stock: DriverDefaults

    def ready(self, rows: Sequence[InboxRows]) -> Callable[[], object]:
        return partial(self.stock.write, self.stock.insert, grouped(list(values(rows)), BATCH))


def values(rows: Sequence[InboxRows]) -> Iterator[Delivery]:
    """Yield a row of `one_per_partition` for each member of each inbox row."""
    for group in rows:
        tail = (
            window_of(group.opened_at),
            to_ms(group.opened_at),
            str(group.burst.subject),
            group.burst.seq,
            str(group.tier),
        )
        for member_range, row in zip(group.ranges, single(group), strict=True):
            for place in row.offsets().tolist():
                yield (member_range * RANGE_MEMBERS + place, *tail, ROW_TTL_SECONDS)


def grouped(items: Sequence[Values], size: int) -> list[Sequence[Values]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


def answered(futures: Iterator[Any], at_once: int) -> None:
    going: deque[Any] = deque()
    for future in futures:
        if len(going) == at_once:
            going.popleft().result()
        going.append(future)
    for future in going:
        future.result()


def _batch(insert: PreparedStatement, group: Sequence[Values]) -> BatchStatement:
    batch = BatchStatement(batch_type=BatchType.UNLOGGED)
    for values_ in group:
        batch.add(insert, values_)
    return batch
