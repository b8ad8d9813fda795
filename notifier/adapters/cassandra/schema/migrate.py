"""Migrates the keyspace with numbered CQL files, in two phases."""

import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Self
from uuid import UUID, uuid4, uuid5

from cassandra import InvalidRequest

from notifier.adapters.cassandra.driver.session import PLAIN, SCHEMA_CHANGE_TIMEOUT, SERIAL, Cluster
from notifier.domain.errors import SchemaChanged, SchemaNewer, SchemaOlder, StoreUnavailable, UnusableEnvironment

# Migration register: the lock, and an entry for each migration that was started. Lock and entries are in one partition,
# so that the write of an entry can depend on the lock.

POLL_INTERVAL = 0.2
"""Seconds between two attempts while another runner holds the lock, or the store is unavailable."""
RETRY_TIMEOUT = 10.0
"""Seconds for which a failed query is repeated. Runners contend for the partition, so their conditional writes and
their reads at SERIAL may time out."""
_TABLE_ID_NAMESPACE = UUID("0d2f1b8e-6c56-4b0e-8a57-2f3f5c1f7a11")

# The table id is derived from the keyspace. With random ids two runners on different nodes could create two tables of
# this name, and one of them would disappear with its rows. The column `holder` is the lock. Its TTL runs on the nodes'
# clocks.
_CREATE_REGISTER = """
CREATE TABLE IF NOT EXISTS migrations (
    list_name  text,
    holder     text static,
    phase      text,
    number     int,
    name       text,
    checksum   text,
    begun_at   bigint,
    applied_at bigint,
    PRIMARY KEY ((list_name), phase, number)
) WITH id = {id}
  AND compaction = {{'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'L10'}}
  AND default_time_to_live = 0
  AND gc_grace_seconds = 86400
"""
SELECT_ENTRIES = "SELECT phase, number, name, checksum, applied_at FROM migrations WHERE list_name = 'schema'"
_SELECT_HOLDER = "SELECT holder FROM migrations WHERE list_name = 'schema' LIMIT 1"
_TAKE_LOCK = "UPDATE migrations USING TTL %s SET holder = %s WHERE list_name = 'schema' IF holder = null"
_RENEW_LOCK = "UPDATE migrations USING TTL %s SET holder = %s WHERE list_name = 'schema' IF holder = %s"
_RELEASE_LOCK = "UPDATE migrations SET holder = null WHERE list_name = 'schema' IF holder = %s"
# Both batches below are applied only while the runner holds the lock: a runner that stalled beyond its term must not
# write.
_INSERT_ENTRY = f"""
BEGIN BATCH
    {_RENEW_LOCK};
    INSERT INTO migrations (list_name, phase, number, name, checksum, begun_at) VALUES ('schema', %s, %s, %s, %s, %s);
APPLY BATCH
"""
_UPDATE_APPLIED_AT = f"""
BEGIN BATCH
    {_RENEW_LOCK};
    UPDATE migrations SET applied_at = %s WHERE list_name = 'schema' AND phase = %s AND number = %s;
APPLY BATCH
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationEntry:
    phase: str
    number: int
    name: str
    checksum: str
    applied: bool
    """False if the migration was only started."""


def entry_of(row: Any) -> MigrationEntry:
    return MigrationEntry(
        phase=row.phase,
        number=row.number,
        name=row.name,
        checksum=row.checksum,
        applied=row.applied_at is not None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationLock:
    """Lock of one migration runner. Migrations must be idempotent, because a runner may stall beyond its term."""

    cluster: Cluster
    holder: str
    term: timedelta

    def renew(self) -> None:
        """Renew the lock for a full term. Raises StoreUnavailable, also if this runner has lost the lock."""
        self._write(_RENEW_LOCK)

    def begin(self, phase: str, number: int, name: str, checksum: str) -> None:
        """Write the entry before the first statement, so that a later edit of a half-applied file is detected."""
        self._write(_INSERT_ENTRY, phase, number, name, checksum, time.time_ns() // 1_000_000)

    def finish(self, phase: str, number: int) -> None:
        """Record that all statements of the migration are applied."""
        self._write(_UPDATE_APPLIED_AT, time.time_ns() // 1_000_000, phase, number)

    def _write(self, statement: str, *values: object) -> None:
        rows = _with_retries(self.cluster, statement, (_ttl_seconds(self.term), self.holder, self.holder, *values))
        if not _was_applied(rows):
            raise StoreUnavailable(f"{self.holder} has lost the migration lock.")


class MigrationRegister:
    """Register of the migrations of this keyspace."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(self) -> None:
        self._cluster.change_schema(
            _CREATE_REGISTER.format(id=uuid5(_TABLE_ID_NAMESPACE, self._cluster.access.keyspace))
        )

    def entries(self) -> list[MigrationEntry]:
        """Return all entries, ordered by phase and number."""
        return [
            entry_of(row)
            for row in _with_retries(self._cluster, SELECT_ENTRIES, profile=SERIAL)
            if row.phase is not None  # a partition that has only a holder is one row of nulls
        ]

    @contextmanager
    def locked(self, term: timedelta, timeout: timedelta) -> Iterator[MigrationLock]:
        """Hold the lock inside the block. The lock of a runner that died becomes free when the term ends.

        Raises StoreUnavailable, also if the lock isn't free within the timeout.
        """
        lock = MigrationLock(cluster=self._cluster, holder=f"{uuid4()}", term=term)
        deadline = time.monotonic() + timeout.total_seconds()
        while not self._take(lock):
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"Another process has been migrating for {timeout.total_seconds():g} s.")
            time.sleep(POLL_INTERVAL)
        try:
            yield lock
        finally:
            with suppress(StoreUnavailable):  # the lock expires by itself
                self._cluster.execute(_RELEASE_LOCK, (lock.holder,))

    def _take(self, lock: MigrationLock) -> bool:
        """Try to take the lock, and return whether we have it.

        Read the holder first, with a plain read. A conditional write would contend with the holder's writes.
        """
        if self._holder(PLAIN) is not None:
            return False
        try:
            return _was_applied(self._cluster.execute(_TAKE_LOCK, (_ttl_seconds(lock.term), lock.holder)))
        except StoreUnavailable:
            # The result is unknown. The holder's name is unique, so a read at SERIAL tells whether we hold the lock.
            return self._holder(SERIAL) == lock.holder

    def _holder(self, profile: object) -> str | None:
        rows = _with_retries(self._cluster, _SELECT_HOLDER, profile=profile)
        return rows[0].holder if rows else None


def _with_retries(
    cluster: Cluster, statement: str, values: Sequence[object] = (), profile: object = PLAIN
) -> list[Any]:
    """Run a statement, and repeat it during an outage. Use only for reads and the lock holder's idempotent writes."""
    deadline = time.monotonic() + RETRY_TIMEOUT
    while True:
        try:
            return cluster.execute(statement, values, profile=profile)
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_INTERVAL)


def _ttl_seconds(term: timedelta) -> int:
    return max(1, int(term.total_seconds()))


def _was_applied(rows: list[Any]) -> bool:
    """Return whether a conditional statement was applied, which is the first column of its result."""
    return bool(rows[0][0])


# Cassandra takes only one statement at a time, so each CQL file is split into statements.

_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|//[^\n]*|/\*.*?\*/)|(?P<end>;)"
    r"|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$\$.*?\$\$|.",
    re.DOTALL,
)


def split_statements(script: str) -> Iterator[str]:
    """Yield statements without comments and semicolons. Raises ValueError if the last statement has no semicolon."""
    statement = ""
    for token in _TOKEN.finditer(script):
        if token["end"]:
            yield statement.strip()
            statement = ""
        elif not token["comment"]:
            statement += token[0]
    if statement.strip():
        raise ValueError(f"Missing semicolon after: {statement.strip()[:60]}")


FOLDER = Path(__file__).parents[3] / "migrations" / "cassandra"
"""Folder of the migrations, inside the package. In the source tree it is a link to the top-level folder."""
LOCK_TERM = 2 * SCHEMA_CHANGE_TIMEOUT
"""Term of the lock: longer than a runner waits for a statement. A runner renews the lock before each statement."""
LOCK_TIMEOUT = 2 * LOCK_TERM
"""How long a runner waits for the lock: longer than the term of a runner that died."""


class Phase(StrEnum):
    PRE = "pre"
    """Runs before new code starts, while the old code serves. Its files only add."""
    POST = "post"
    """Runs once no old code is left. Its files remove."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraMigration:
    phase: Phase
    number: int
    name: str
    script: str

    @classmethod
    def read(cls, phase: Phase, path: Path) -> Self:
        """Read a file. Its name begins with the number, as in `0001_notifier_tables.cql`."""
        return cls(phase=phase, number=int(path.name.partition("_")[0]), name=path.stem, script=path.read_text())

    @property
    def key(self) -> tuple[str, int]:
        return str(self.phase), self.number

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.script.encode()).hexdigest()

    def statements(self) -> Iterator[str]:
        return split_statements(self.script)


def migrate(
    cluster: Cluster,
    phase: Phase,
    folder: Path = FOLDER,
    *,
    term: timedelta = LOCK_TERM,
    lock_timeout: timedelta = LOCK_TIMEOUT,
) -> int:
    """Create the keyspace, apply the missing migrations of the phase, and return how many were applied.

    If several runners start, one works and the others wait. An interrupted file is applied again from its start, so its
    statements must be idempotent. Raises SchemaNewer or SchemaChanged before anything is applied. For phase post,
    raises UnusableEnvironment while phase pre is incomplete.
    """
    migrations = _read_migrations(folder)
    cluster.create_keyspace()
    register = MigrationRegister(cluster)
    register.create()
    _unapplied(register, migrations, phase)
    with register.locked(term, lock_timeout) as lock:
        # Read the register again: the previous holder of the lock may have applied migrations.
        to_apply = _unapplied(register, migrations, phase)
        for migration in to_apply:
            _apply(cluster, lock, migration)
        return len(to_apply)


def pending_migrations(cluster: Cluster, phase: Phase, folder: Path = FOLDER) -> list[str]:
    """Return the names of the phase's migrations that are not applied yet. Create the register if it is missing."""
    migrations = _read_migrations(folder)
    register = MigrationRegister(cluster)
    register.create()
    applied = _applied_keys(register.entries(), migrations)
    return [migration.name for migration in migrations if migration.phase == phase and migration.key not in applied]


def require_schema(cluster: Cluster, folder: Path = FOLDER) -> None:
    """Check that this code can work with the keyspace. Raises SchemaOlder or SchemaNewer.

    A newer version of the code may have added something (phase pre), but must not have removed anything (phase post).
    """
    migrations = {migration.key: migration for migration in _read_migrations(folder)}
    entries = {(entry.phase, entry.number): entry for entry in _register_entries(cluster)}
    for key, entry in entries.items():
        if key not in migrations and entry.phase == Phase.POST:
            raise SchemaNewer(f"Unknown migration in the store: {entry.phase}/{entry.name}.")
    for key, migration in migrations.items():
        if migration.phase == Phase.PRE and (key not in entries or not entries[key].applied):
            raise SchemaOlder(f"Missing migration: {migration.phase}/{migration.name}.")


def _register_entries(cluster: Cluster) -> Sequence[MigrationEntry]:
    try:
        return MigrationRegister(cluster).entries()
    except InvalidRequest as error:
        raise SchemaOlder("The keyspace has no tables of this software.") from error


def migration_differences(entries: Sequence[MigrationEntry], folder: Path = FOLDER) -> tuple[list[str], list[str]]:
    """Return the migrations that are not applied, and the entries that the code does not know.

    An entry is unknown if the code has no migration of its phase, number and checksum. Both lists have texts such as
    `pre/0001_notifier_tables`.
    """
    migrations = {migration.key: migration for migration in _read_migrations(folder)}
    applied = {(entry.phase, entry.number) for entry in entries if entry.applied}
    unknown = [
        f"{entry.phase}/{entry.name}"
        for entry in entries
        if (entry.phase, entry.number) not in migrations
        or migrations[entry.phase, entry.number].checksum != entry.checksum
    ]
    return [
        f"{migration.phase}/{migration.name}" for migration in migrations.values() if migration.key not in applied
    ], unknown


def _read_migrations(folder: Path) -> list[CassandraMigration]:
    """Read the migrations. Raises FileNotFoundError if there are none: a broken wheel must not look up to date."""
    migrations = [
        CassandraMigration.read(phase, path) for phase in Phase for path in sorted((folder / phase).glob("*.cql"))
    ]
    if not migrations:
        raise FileNotFoundError(f"No migrations in {folder}.")
    return migrations


def _unapplied(
    register: MigrationRegister, migrations: Sequence[CassandraMigration], phase: Phase
) -> list[CassandraMigration]:
    applied = _applied_keys(register.entries(), migrations)
    unapplied = [migration for migration in migrations if migration.key not in applied]
    unapplied_pre = [migration.name for migration in unapplied if migration.phase != Phase.POST]
    if phase == Phase.POST and unapplied_pre:
        raise UnusableEnvironment(f"Run the phase pre first; migration {unapplied_pre[0]} is missing.")
    return [migration for migration in unapplied if migration.phase == phase]


def _apply(cluster: Cluster, lock: MigrationLock, migration: CassandraMigration) -> None:
    """Apply a migration. After a crash the next runner applies the whole file again."""
    lock.begin(*migration.key, migration.name, migration.checksum)
    for statement in migration.statements():
        lock.renew()
        cluster.change_schema(statement)
    lock.finish(*migration.key)


def _applied_keys(entries: Sequence[MigrationEntry], migrations: Sequence[CassandraMigration]) -> set[tuple[str, int]]:
    """Return the keys of the applied entries. Raises SchemaNewer or SchemaChanged for an entry unknown to the code."""
    checksums = {migration.key: migration.checksum for migration in migrations}
    for entry in entries:
        if (entry.phase, entry.number) not in checksums:
            raise SchemaNewer(f"Unknown migration in the store: {entry.phase}/{entry.name}.")
    for entry in entries:
        if checksums[entry.phase, entry.number] != entry.checksum:
            raise SchemaChanged(f"Changed migration: {entry.phase}/{entry.name}.")
    return {(entry.phase, entry.number) for entry in entries if entry.applied}
