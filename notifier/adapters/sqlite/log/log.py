"""Event log in log.db. Appends share a sync; consumers are in consumer.py."""

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from zlib import crc32

from notifier.adapters.sqlite.connection import Database, WriteCombiner
from notifier.adapters.sqlite.files import load_statement
from notifier.adapters.sqlite.log.consumer import GroupMember, SqliteConsumer
from notifier.codec.storage import to_ms
from notifier.ports.coordination import Clock
from notifier.ports.event_log import Logged, Record
from notifier.topics import PARTITIONS

DROPPED_AT_ONCE = 1_000
"""Records per transaction. Transactions are short, because appends wait for them."""

READ_AT_ONCE = 100
"""Records in memory while waiting records are listed. A record has a few kilobytes."""

_NEXT = "SELECT next_offset FROM next_offsets WHERE partition = ?"
_SET_NEXT = "INSERT OR REPLACE INTO next_offsets (partition, next_offset) VALUES (?, ?)"
_APPEND = "INSERT INTO records (partition, offset, key, value, appended_at) VALUES (?, ?, ?, ?, ?)"
_DROP = load_statement("delete_records")
_WAITING = load_statement("read_pending_records")


class SqliteLog:
    """Event log. It raises LogUnavailable if the database was opened with that error."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._append = WriteCombiner(self._write)
        # A commit or lease that a power cut undoes only repeats work. A sync for each would slow down the appends.
        self._relaxed = db.relaxed()

    def append(self, records: Sequence[Record]) -> None:
        if records:
            self._append(records)

    def subscribe(self, stream: str, group: str, owner: str) -> SqliteConsumer:
        member = GroupMember(group=group, stream=stream, owner=owner, partitions=partitions(stream))
        return SqliteConsumer(self._relaxed, self._clock, member)

    def read_uncommitted(self, stream: str, group: str, limit: int) -> Iterator[Logged]:
        return islice((logged for partition in partitions(stream) for logged in self._waiting(partition, group)), limit)

    def drop_committed(self, before: datetime) -> int:
        return sum(self._drop(partition, before) for stream in PARTITIONS for partition in partitions(stream))

    def close(self) -> None:
        self._db.close()
        self._relaxed.close()

    def _waiting(self, partition: str, group: str) -> Iterator[Logged]:
        """Yield waiting records in short reads, so that an abandoned iteration leaves no transaction open."""
        stream, last_offset = partition.rpartition("/")[0], -1
        while True:
            place = {"group": group, "partition": partition, "after": last_offset, "limit": READ_AT_ONCE}
            with self._relaxed.read() as c:
                rows = c.execute(_WAITING, place).fetchall()
            for last_offset, key, value in rows:
                record = Record(stream=stream, key=key, value=value)
                yield Logged(partition=partition, offset=last_offset, record=record)
            if len(rows) < READ_AT_ONCE:
                return

    def _write(self, batches: Sequence[Sequence[Record]]) -> None:
        at = to_ms(self._clock.now())
        with self._db.write() as c:
            following: dict[str, int] = {}
            rows = []
            for record in (record for batch in batches for record in batch):
                partition = partition_of(record.stream, record.key)
                offset = following[partition] if partition in following else _next(c, partition)
                following[partition] = offset + 1
                rows.append((partition, offset, record.key, record.value, at))
            c.executemany(_APPEND, rows)
            c.executemany(_SET_NEXT, following.items())

    def _drop(self, partition: str, before: datetime) -> int:
        total, dropped = 0, DROPPED_AT_ONCE
        while dropped == DROPPED_AT_ONCE:
            with self._relaxed.write() as c:
                place = {"partition": partition, "before": to_ms(before), "limit": DROPPED_AT_ONCE}
                dropped = c.execute(_DROP, place).rowcount
            total += dropped
        return total


def partitions(stream: str) -> list[str]:
    return [f"{stream}/{number}" for number in range(PARTITIONS[stream])]


def partition_of(stream: str, key: str) -> str:
    """Return the partition of a key. It never changes, because the order of the key's records depends on it."""
    return f"{stream}/{crc32(key.encode()) % PARTITIONS[stream]}"


def _next(c: sqlite3.Connection, partition: str) -> int:
    row = c.execute(_NEXT, (partition,)).fetchone()
    return row[0] if row else 0
