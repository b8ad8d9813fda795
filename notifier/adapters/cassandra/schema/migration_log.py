"""The register of migrations: what was begun and applied, and whose turn it is; one partition, one Paxos."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4, uuid5

from cassandra.cluster import EXEC_PROFILE_DEFAULT

from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.domain.errors import StoreUnavailable

LOOKS_EVERY = 0.2
"""Seconds, while another holds the lock."""
TRIED_FOR = 10.0
"""Seconds. Runners that meet in one Paxos instance time each other out, reads at SERIAL included."""
_IDS = UUID("0d2f1b8e-6c56-4b0e-8a57-2f3f5c1f7a11")

# The id is the keyspace's own: two runners on different nodes would else make two tables of one name, of which one
# wins and takes the other's rows with it. The holder ends by its TTL, on the server's clock.
_MAKE = """
CREATE TABLE IF NOT EXISTS migrations (
    book       text,
    holder     text static,
    phase      text,
    number     int,
    name       text,
    checksum   text,
    begun_at   bigint,
    applied_at bigint,
    PRIMARY KEY ((book), phase, number)
) WITH id = {id}
  AND compaction = {{'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'L10'}}
  AND default_time_to_live = 0
  AND gc_grace_seconds = 86400
"""
READ = "SELECT phase, number, name, checksum, applied_at FROM migrations WHERE book = 'schema'"
_HOLDER = "SELECT holder FROM migrations WHERE book = 'schema' LIMIT 1"
_TAKE = "UPDATE migrations USING TTL %s SET holder = %s WHERE book = 'schema' IF holder = null"
_KEEP = "UPDATE migrations USING TTL %s SET holder = %s WHERE book = 'schema' IF holder = %s"
_FREE = "UPDATE migrations SET holder = null WHERE book = 'schema' IF holder = %s"
# Only while the lock is the writer's: a runner that slept through its term leaves no word.
_BEGIN = f"""
BEGIN BATCH
    {_KEEP};
    INSERT INTO migrations (book, phase, number, name, checksum, begun_at) VALUES ('schema', %s, %s, %s, %s, %s);
APPLY BATCH
"""
_APPLIED = f"""
BEGIN BATCH
    {_KEEP};
    UPDATE migrations SET applied_at = %s WHERE book = 'schema' AND phase = %s AND number = %s;
APPLY BATCH
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    phase: str
    number: int
    name: str
    checksum: str
    applied: bool
    """False: begun, and cut off before its end."""


def entry(row: Any) -> Entry:
    return Entry(
        phase=row.phase,
        number=row.number,
        name=row.name,
        checksum=row.checksum,
        applied=row.applied_at is not None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """Held by one runner. What it does under it bears being done twice: a runner may sleep through its term."""

    cluster: Cluster
    holder: str
    term: timedelta

    def keep(self) -> None:
        """For another term. Raises StoreUnavailable when it is another's by now."""
        self._written(_KEEP)

    def begin(self, phase: str, number: int, name: str, checksum: str) -> None:
        """To be written before the first statement, so that a file that is changed half-way is known, too."""
        self._written(_BEGIN, phase, number, name, checksum, time.time_ns() // 1_000_000)

    def applied(self, phase: str, number: int) -> None:
        """To be written after the last statement."""
        self._written(_APPLIED, time.time_ns() // 1_000_000, phase, number)

    def _written(self, statement: str, *values: object) -> None:
        if not _took(_tried(self.cluster, statement, (_seconds(self.term), self.holder, self.holder, *values))):
            raise StoreUnavailable(f"The lock of the migrations is not {self.holder}'s any more.")


class Register:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def make(self) -> None:
        self._cluster.change(_MAKE.format(id=uuid5(_IDS, self._cluster.access.keyspace)))

    def entries(self) -> list[Entry]:
        """As decided so far, by phase and number."""
        return [
            entry(row)
            for row in _tried(self._cluster, READ, profile=SERIAL)
            if row.phase is not None  # a partition with nothing but a holder is one row of nulls
        ]

    @contextmanager
    def locked(self, term: timedelta, waits: timedelta) -> Iterator[Lock]:
        """Waits for its turn; who died with the lock is waited for until its term ends. Raises StoreUnavailable."""
        lock = Lock(cluster=self._cluster, holder=f"{uuid4()}", term=term)
        deadline = time.monotonic() + waits.total_seconds()
        while not self._take(lock):
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"Another runner migrates since {waits.total_seconds():g} s.")
            time.sleep(LOOKS_EVERY)
        try:
            yield lock
        finally:
            with suppress(StoreUnavailable):  # it ends by itself
                self._cluster.execute(_FREE, (lock.holder,))

    def _take(self, lock: Lock) -> bool:
        """Who looks before it tries doesn't hinder the holder."""
        if self._holder(EXEC_PROFILE_DEFAULT) is not None:
            return False
        try:
            return _took(self._cluster.execute(_TAKE, (_seconds(lock.term), lock.holder)))
        except StoreUnavailable:
            # The outcome isn't known; nobody else has this name.
            return self._holder(SERIAL) == lock.holder

    def _holder(self, profile: object) -> str | None:
        found = _tried(self._cluster, _HOLDER, profile=profile)
        return found[0].holder if found else None


def _tried(
    cluster: Cluster, statement: str, values: Sequence[object] = (), profile: object = EXEC_PROFILE_DEFAULT
) -> list[Any]:
    """Again after an outage, for reads and for what the holder writes: done twice it is the same."""
    deadline = time.monotonic() + TRIED_FOR
    while True:
        try:
            return cluster.execute(statement, values, profile=profile)
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOKS_EVERY)


def _seconds(term: timedelta) -> int:
    return max(1, int(term.total_seconds()))


def _took(answer: list[Any]) -> bool:
    """A conditional statement's answer: its first column is whether it was applied."""
    return bool(answer[0][0])
