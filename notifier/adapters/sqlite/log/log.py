"""Event log in log.db. Concurrent appends can share one sync."""

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from zlib import crc32

from notifier.adapters.sqlite.connections_and_transactions import Database, WriteCombiner
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.adapters.sqlite.log.consumer import ConsumerIdentity, SqliteConsumer
from notifier.codec.messagepack import to_ms
from notifier.ports.event_log_and_dead_letters import Logged, Record
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.topics import PARTITION_COUNTS

RECORDS_PER_DELETE = 1_000
"""Records deleted per transaction. Appends wait for it."""

RECORDS_PER_READ = 100
"""Records in one read. With a few kilobytes each, they take less than a megabyte."""

_SELECT_NEXT_OFFSET = "SELECT next_offset FROM next_offsets WHERE partition = ?"
_PUT_NEXT_OFFSET = "INSERT OR REPLACE INTO next_offsets (partition, next_offset) VALUES (?, ?)"
_INSERT_RECORD = "INSERT INTO records (partition, offset, key, value, appended_at) VALUES (?, ?, ?, ?, ?)"
_DELETE_RECORDS = load_statement("delete_consumed_log_records")
_SELECT_UNCOMMITTED = load_statement("read_unconsumed_log_records")


class SqliteLog:
    """Event log. The database must be created with `unavailable_error=LogUnavailable`."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._append_combined = WriteCombiner(self._write)
        # Leases, and committed offsets of consumer groups, are written without a sync: syncs would slow down appends.
        # If a power cut undoes such a write, records are only processed again.
        self._relaxed = db.relaxed()

    def append(self, records: Sequence[Record]) -> None:
        if records:
            self._append_combined(records)

    def subscribe(self, stream: str, group: str, owner: str) -> SqliteConsumer:
        identity = ConsumerIdentity(group=group, stream=stream, owner=owner, partitions=partitions(stream))
        return SqliteConsumer(self._relaxed, self._clock, identity)

    def read_uncommitted(self, stream: str, group: str, limit: int) -> Iterator[Logged]:
        return islice(
            (logged for partition in partitions(stream) for logged in self._uncommitted(partition, group)), limit
        )

    def drop_committed(self, before: datetime) -> int:
        return sum(
            self._delete_committed(partition, before) for stream in PARTITION_COUNTS for partition in partitions(stream)
        )

    def close(self) -> None:
        self._db.close()
        self._relaxed.close()

    def _uncommitted(self, partition: str, group: str) -> Iterator[Logged]:
        """Yield uncommitted records of a partition. No transaction stays open while the caller handles a record."""
        stream, last_offset = partition.rpartition("/")[0], -1
        while True:
            parameters = {"group": group, "partition": partition, "after": last_offset, "limit": RECORDS_PER_READ}
            with self._relaxed.read() as c:
                rows = c.execute(_SELECT_UNCOMMITTED, parameters).fetchall()
            for last_offset, key, value in rows:
                record = Record(stream=stream, key=key, value=value)
                yield Logged(partition=partition, offset=last_offset, record=record)
            if len(rows) < RECORDS_PER_READ:
                return

    def _write(self, batches: Sequence[Sequence[Record]]) -> None:
        at = to_ms(self._clock.now())
        with self._db.write() as c:
            next_offsets: dict[str, int] = {}
            rows = []
            for record in (record for batch in batches for record in batch):
                partition = partition_of(record.stream, record.key)
                offset = next_offsets[partition] if partition in next_offsets else _next_offset(c, partition)
                next_offsets[partition] = offset + 1
                rows.append((partition, offset, record.key, record.value, at))
            c.executemany(_INSERT_RECORD, rows)
            c.executemany(_PUT_NEXT_OFFSET, next_offsets.items())

    def _delete_committed(self, partition: str, before: datetime) -> int:
        total_count, deleted_count = 0, RECORDS_PER_DELETE
        while deleted_count == RECORDS_PER_DELETE:
            with self._relaxed.write() as c:
                parameters = {"partition": partition, "before": to_ms(before), "limit": RECORDS_PER_DELETE}
                deleted_count = c.execute(_DELETE_RECORDS, parameters).rowcount
            total_count += deleted_count
        return total_count


def partitions(stream: str) -> list[str]:
    return [f"{stream}/{number}" for number in range(PARTITION_COUNTS[stream])]


def partition_of(stream: str, key: str) -> str:
    """Return the partition of a key. It must never change: all records of a key belong in one partition."""
    return f"{stream}/{crc32(key.encode()) % PARTITION_COUNTS[stream]}"


def _next_offset(c: sqlite3.Connection, partition: str) -> int:
    row = c.execute(_SELECT_NEXT_OFFSET, (partition,)).fetchone()
    return row[0] if row else 0
