"""Who writes the same rows: ours, the leanest there can be, and the driver as everybody has it."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cassandra.cluster import Cluster as Driver
from cassandra.cluster import Session
from cassandra.query import BatchStatement, BatchType, PreparedStatement

from notifier.adapters.cassandra import Access, CassandraInbox
from notifier.adapters.cassandra.bodies import Message, Prepared, messages
from notifier.codec.moments import to_ms
from notifier.domain.block import Rows, window_of
from notifier.domain.burst import RETENTION
from notifier.testing.bench.cql.frames import Frames, batches

LIFE = int(RETENTION.total_seconds())
BATCH = 50
"""Rows of the driver's own batches: what is usual. Of 500 it writes as many rows a second."""
SINGLES_AT_ONCE, BATCHES_AT_ONCE = 128, 32
"""On their way; with more it isn't faster."""

TABLE = (Path(__file__).parent / "one_per_partition.cql").read_text()
INSERT = (
    "INSERT INTO one_per_partition (member, inbox_window, opened_at, subject, seq, tier) "
    "VALUES (?, ?, ?, ?, ?, ?) USING TTL ?"
)


@dataclass(frozen=True, slots=True)
class Ours:
    inbox: CassandraInbox

    def ready(self, rows: Sequence[Rows]) -> Callable[[], object]:
        return partial(self.inbox.write, rows)


@dataclass(frozen=True, slots=True)
class Lean:
    """The same statements in the same messages, encoded before the clock starts, and a socket."""

    frames: Frames
    prepared: Prepared

    def ready(self, rows: Sequence[Rows]) -> Callable[[], object]:
        made: list[Message] = [message for one in rows for message in messages(one, LIFE, self.prepared)]
        return partial(self.frames.send, batches(made), len(made))


class Stock:
    """A session with the driver's defaults, and a table with a partition for each member."""

    def __init__(self, access: Access) -> None:
        self._driver = Driver(contact_points=list(access.hosts), port=access.port)
        self.session: Session = self._driver.connect(access.keyspace)
        self.session.execute(TABLE)
        self.insert: PreparedStatement = self.session.prepare(INSERT)

    def close(self) -> None:
        self._driver.shutdown()


@dataclass(frozen=True, slots=True)
class Singles:
    """One prepared statement a row."""

    stock: Stock

    def ready(self, rows: Sequence[Rows]) -> Callable[[], object]:
        return partial(self._write, list(values(rows)))

    def _write(self, each: Sequence[tuple[object, ...]]) -> None:
        session, insert = self.stock.session, self.stock.insert
        answered((session.execute_async(insert, one) for one in each), SINGLES_AT_ONCE)


@dataclass(frozen=True, slots=True)
class Batches:
    """Unlogged batches, as people write them who want to be fast."""

    stock: Stock

    def ready(self, rows: Sequence[Rows]) -> Callable[[], object]:
        each = list(values(rows))
        return partial(self._write, [each[at : at + BATCH] for at in range(0, len(each), BATCH)])

    def _write(self, groups: Sequence[Sequence[tuple[object, ...]]]) -> None:
        answered((self.stock.session.execute_async(self._batch(group)) for group in groups), BATCHES_AT_ONCE)

    def _batch(self, group: Sequence[tuple[object, ...]]) -> BatchStatement:
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        for one in group:
            batch.add(self.stock.insert, one)
        return batch


def values(rows: Sequence[Rows]) -> Iterator[tuple[object, ...]]:
    """A row for each member; block rows have no place there."""
    for one in rows:
        tail = (window_of(one.opened_at), to_ms(one.opened_at), str(one.burst.subject), one.burst.seq, str(one.tier))
        for member in one.members.tolist():
            yield (member, *tail, LIFE)


def answered(futures: Iterator[Any], at_once: int) -> None:
    going: deque[Any] = deque()
    for future in futures:
        if len(going) == at_once:
            going.popleft().result()
        going.append(future)
    for future in going:
        future.result()
