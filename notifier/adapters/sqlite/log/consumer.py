"""Event log consumer: polls its leased partitions, and commits processed offsets."""

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.codec.messagepack import to_ms
from notifier.ports.event_log_and_dead_letters import Logged, Record
from notifier.ports.leases_queues_throttles_clock import Clock

# Partition leases in log.db: the live consumers of a group share the partitions of a stream.

LEASE_TERM = timedelta(seconds=5)
"""After this time without a renewal, other consumers take the partitions of a consumer."""

_LEASE_MS = LEASE_TERM // timedelta(milliseconds=1)

_PUT_CONSUMER = "INSERT OR REPLACE INTO consumers (consumer_group, stream, owner, until) VALUES (?, ?, ?, ?)"
_DELETE_CONSUMERS = "DELETE FROM consumers WHERE consumer_group = ? AND stream = ? AND (owner = ? OR until <= ?)"
_SELECT_OWNERS = "SELECT owner FROM consumers WHERE consumer_group = ? AND stream = ? ORDER BY owner"
_SELECT_LEASES = load_statement("read_partition_leases")
_PUT_LEASE = (
    "INSERT OR REPLACE INTO partition_leases (consumer_group, partition, owner, epoch, until) VALUES (?, ?, ?, ?, ?)"
)
_FREE_PARTITION = (
    "UPDATE partition_leases SET until = 0 WHERE consumer_group = ? AND partition = ? AND owner = ? AND epoch = ?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerIdentity:
    """One consumer of a group that reads one stream."""

    group: str
    stream: str
    owner: str
    partitions: Sequence[str]
    """All partitions of the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionShare:
    """Leases of one consumer after a renewal."""

    epochs: Mapping[str, int]
    """Epoch of each partition that the consumer owns."""
    until: int
    """Expiry of the leases, in milliseconds."""
    is_complete: bool
    """False while other consumers still own partitions that belong to this share."""


def take_share(
    c: sqlite3.Connection, identity: ConsumerIdentity, owned_epochs: Mapping[str, int], now: int
) -> PartitionShare:
    """Renew the consumer's leases, free those that exceed its share, and take free partitions up to its share."""
    until = now + _LEASE_MS
    share_size = _share_size(c, identity, now, until)
    leases = _leases(c, identity)
    still_owned = [p for p in owned_epochs if p in leases and leases[p][:2] == (identity.owner, owned_epochs[p])]
    epochs = {partition: owned_epochs[partition] for partition in still_owned[:share_size]}
    for partition in still_owned[share_size:]:
        c.execute(_FREE_PARTITION, (identity.group, partition, identity.owner, owned_epochs[partition]))
    for partition in identity.partitions:
        _, epoch, leased_until = leases.get(partition, ("", 0, 0))
        if len(epochs) < share_size and partition not in epochs and leased_until <= now:
            epochs[partition] = epoch + 1
    c.executemany(
        _PUT_LEASE, [(identity.group, partition, identity.owner, epoch, until) for partition, epoch in epochs.items()]
    )
    return PartitionShare(epochs=epochs, until=until, is_complete=len(epochs) == share_size)


def release_share(c: sqlite3.Connection, identity: ConsumerIdentity, owned_epochs: Mapping[str, int], now: int) -> None:
    c.execute(_DELETE_CONSUMERS, (identity.group, identity.stream, identity.owner, now))
    c.executemany(
        _FREE_PARTITION,
        [(identity.group, partition, identity.owner, epoch) for partition, epoch in owned_epochs.items()],
    )


def _share_size(c: sqlite3.Connection, identity: ConsumerIdentity, now: int, until: int) -> int:
    """Renew the consumer's entry in its group, and return the size of its share.

    If the partitions can't be shared evenly, the first owners by name get one more.
    """
    c.execute(_DELETE_CONSUMERS, (identity.group, identity.stream, identity.owner, now))
    c.execute(_PUT_CONSUMER, (identity.group, identity.stream, identity.owner, until))
    owners = [owner for (owner,) in c.execute(_SELECT_OWNERS, (identity.group, identity.stream))]
    base, remainder = divmod(len(identity.partitions), len(owners))
    return base + (owners.index(identity.owner) < remainder)


def _leases(c: sqlite3.Connection, identity: ConsumerIdentity) -> dict[str, tuple[str, int, int]]:
    rows = c.execute(_SELECT_LEASES, (identity.group, json.dumps(list(identity.partitions))))
    return {partition: (owner, epoch, until) for partition, owner, epoch, until in rows}


_MS = timedelta(milliseconds=1)

RENEWAL_INTERVAL_MS = LEASE_TERM / 3 // _MS
"""Milliseconds between two renewals if the share is complete."""
RETRY_INTERVAL_MS = timedelta(milliseconds=200) // _MS
"""Milliseconds between two renewals if the share is incomplete."""

FIRST_PAUSE, SLOW_GROWTH_PAUSE, MAX_PAUSE = 0.002, 0.005, 0.017
"""Seconds between two checks of the file. The pause grows quickly to SLOW_GROWTH_PAUSE, and then slowly.

The longest pause is reached after about half a second.

Each check wakes a thread, which takes 0.15 ms on a busy machine. With constant pauses of 5 ms, three consumers of a
process used a tenth of a core.
"""

_SELECT_FILE_VERSION = "PRAGMA data_version"
_SELECT_RECORDS = "SELECT offset, key, value FROM records WHERE partition = ? AND offset > ? ORDER BY offset LIMIT ?"
_SELECT_COMMITTED = "SELECT offset FROM committed_offsets WHERE consumer_group = ? AND partition = ?"
_COMMIT_OFFSET = load_statement("commit_offset")
_SELECT_LAG = load_statement("count_consumer_lag")


class SqliteConsumer:
    """Consumer of one stream in a group."""

    def __init__(
        self, db: Database, clock: Clock, identity: ConsumerIdentity, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._db = db
        self._clock = clock
        self._identity = identity
        self._sleep = sleep
        self._epochs: dict[str, int] = {}
        """Epochs of the owned partitions, in the order in which they are read next."""
        self._polled: dict[str, int] = {}
        """Offset after which `poll` reads next, by partition: the last one that it returned, or the committed one."""
        self._leased_until = self._renew_at = 0
        self._pause = FIRST_PAUSE

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        deadline = time.monotonic() + wait.total_seconds()
        while True:
            self._renew_share()
            version, records = self._read_next(limit)
            # If the lease expired during the read, another consumer may return these records.
            if records and self._now() < self._leased_until:
                self._polled |= {logged.partition: logged.offset for logged in records}
                self._pause = FIRST_PAUSE
                return records
            if not self._wait_for_change(version, deadline):
                return ()

    def commit(self, positions: Mapping[str, int]) -> None:
        # For a lost partition the epoch is missing here or outdated, and the statement changes nothing.
        commits = [
            {
                "group": self._identity.group,
                "partition": partition,
                "offset": offset,
                "owner": self._identity.owner,
                "epoch": self._epochs.get(partition),
            }
            for partition, offset in positions.items()
        ]
        with self._db.write() as c:
            c.executemany(_COMMIT_OFFSET, commits)

    def still_owns_polled_records(self) -> bool:
        partitions = json.dumps(list(self._epochs))
        with self._db.read() as c:
            owners = {
                p: (owner, epoch)
                for p, owner, epoch, _ in c.execute(_SELECT_LEASES, (self._identity.group, partitions))
            }
            committed = {
                p: _offset(c.execute(_SELECT_COMMITTED, (self._identity.group, p)).fetchone()) for p in self._epochs
            }
        if self._epochs and all(owners.get(p) == (self._identity.owner, epoch) for p, epoch in self._epochs.items()):
            return True
        # Read again from the commits, with new leases.
        self._polled, self._renew_at = committed, 0
        return False

    def lag(self) -> int:
        with self._db.read() as c:
            return int(c.execute(_SELECT_LAG, (self._identity.group, json.dumps(list(self._epochs)))).fetchone()[0])

    def close(self) -> None:
        with self._db.write() as c:
            release_share(c, self._identity, self._epochs, self._now())
        self._epochs, self._polled = {}, {}
        self._leased_until = self._renew_at = 0

    def _renew_share(self) -> None:
        if (now := self._now()) < self._renew_at:
            return
        with self._db.write() as c:
            share = take_share(c, self._identity, self._epochs, now)
            gained = [p for p, epoch in share.epochs.items() if self._epochs.get(p) != epoch]
            committed = {p: _offset(c.execute(_SELECT_COMMITTED, (self._identity.group, p)).fetchone()) for p in gained}
        self._polled = {p: committed[p] if p in committed else self._polled[p] for p in share.epochs}
        self._epochs, self._leased_until = dict(share.epochs), share.until
        self._renew_at = now + (RENEWAL_INTERVAL_MS if share.is_complete else RETRY_INTERVAL_MS)

    def _read_next(self, limit: int) -> tuple[int, list[Logged]]:
        """Return the version of the file and the next records.

        Partitions that were read move to the end of the order, so that no partition starves the others.
        """
        records: list[Logged] = []
        with self._db.read() as c:
            version = int(c.execute(_SELECT_FILE_VERSION).fetchone()[0])
            for partition in list(self._epochs):
                self._epochs[partition] = self._epochs.pop(partition)
                for offset, key, value in c.execute(
                    _SELECT_RECORDS, (partition, self._polled[partition], limit - len(records))
                ):
                    record = Record(stream=self._identity.stream, key=key, value=value)
                    records.append(Logged(partition=partition, offset=offset, record=record))
                if len(records) == limit:
                    break
        return version, records

    def _wait_for_change(self, version: int, deadline: float) -> bool:
        """Wait until the file changes or the lease is due for renewal. Return False at the deadline."""
        while (remaining := deadline - time.monotonic()) > 0:
            self._sleep(min(self._pause, remaining))
            self._pause = min(self._pause * (1.5 if self._pause < SLOW_GROWTH_PAUSE else 1.02), MAX_PAUSE)
            if self._now() >= self._renew_at or self._file_version() != version:
                return True
        return False

    def _file_version(self) -> int:
        with self._db.read() as c:
            return int(c.execute(_SELECT_FILE_VERSION).fetchone()[0])

    def _now(self) -> int:
        return to_ms(self._clock.now())


def _offset(row: tuple[int] | None) -> int:
    return -1 if row is None else row[0]
