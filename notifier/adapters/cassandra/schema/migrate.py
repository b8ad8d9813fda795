"""Migrates the keyspace: numbered CQL files in two phases, each applied once and never edited."""

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
from cassandra.cluster import EXEC_PROFILE_DEFAULT

from notifier.adapters.cassandra.driver.session import SCHEMA_WITHIN, SERIAL, Cluster
from notifier.domain.errors import Environment, SchemaChanged, SchemaNewer, SchemaOlder, StoreUnavailable

# Migration register: started and applied files, and the lock. It is one partition, so that one Paxos instance decides.

POLL_EVERY = 0.2
"""Seconds between two attempts while another runner holds the lock."""
RETRY_FOR = 10.0
"""Seconds. Runners that contend in one Paxos instance time each other out, including reads at SERIAL."""
_IDS = UUID("0d2f1b8e-6c56-4b0e-8a57-2f3f5c1f7a11")

# The table id is derived from the keyspace. Otherwise two runners on different nodes would create two tables with one
# name, and the losing table would disappear with its rows. The holder expires by TTL, on the server's clock.
_MAKE = """
CREATE TABLE IF NOT EXISTS migrations (
    list_name        text,
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
READ = "SELECT phase, number, name, checksum, applied_at FROM migrations WHERE list_name = 'schema'"
_HOLDER = "SELECT holder FROM migrations WHERE list_name = 'schema' LIMIT 1"
_TAKE = "UPDATE migrations USING TTL %s SET holder = %s WHERE list_name = 'schema' IF holder = null"
_KEEP = "UPDATE migrations USING TTL %s SET holder = %s WHERE list_name = 'schema' IF holder = %s"
_FREE = "UPDATE migrations SET holder = null WHERE list_name = 'schema' IF holder = %s"
# Applied only while the writer holds the lock: a runner that stalled beyond its term must not write.
_BEGIN = f"""
BEGIN BATCH
    {_KEEP};
    INSERT INTO migrations (list_name, phase, number, name, checksum, begun_at) VALUES ('schema', %s, %s, %s, %s, %s);
APPLY BATCH
"""
_APPLIED = f"""
BEGIN BATCH
    {_KEEP};
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
    """False if the migration was started but not completed."""


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
    """Lock of one migration runner. Work under it must be idempotent: a runner may stall beyond its term."""

    cluster: Cluster
    holder: str
    term: timedelta

    def renew(self) -> None:
        """Renew the lock for another term. Raises StoreUnavailable if another runner holds it by now."""
        self._write(_KEEP)

    def begin(self, phase: str, number: int, name: str, checksum: str) -> None:
        """Record the start. Call before the first statement, so that an edit of a half-applied file is detected."""
        self._write(_BEGIN, phase, number, name, checksum, time.time_ns() // 1_000_000)

    def finish(self, phase: str, number: int) -> None:
        """Record the end. Call after the last statement."""
        self._write(_APPLIED, time.time_ns() // 1_000_000, phase, number)

    def _write(self, statement: str, *values: object) -> None:
        if not _was_applied(
            _with_retries(self.cluster, statement, (_seconds(self.term), self.holder, self.holder, *values))
        ):
            raise StoreUnavailable(f"{self.holder} has lost the migration lock.")


class MigrationRegister:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(self) -> None:
        self._cluster.change_schema(_MAKE.format(id=uuid5(_IDS, self._cluster.access.keyspace)))

    def entries(self) -> list[MigrationEntry]:
        """Return all decided entries, ordered by phase and number."""
        return [
            entry_of(row)
            for row in _with_retries(self._cluster, READ, profile=SERIAL)
            if row.phase is not None  # a partition that has only a holder is one row of nulls
        ]

    @contextmanager
    def locked(self, term: timedelta, timeout: timedelta) -> Iterator[MigrationLock]:
        """Wait for the lock and hold it. The lock of a dead runner is free after its term. Raises StoreUnavailable."""
        lock = MigrationLock(cluster=self._cluster, holder=f"{uuid4()}", term=term)
        deadline = time.monotonic() + timeout.total_seconds()
        while not self._take(lock):
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"Another process has been migrating for {timeout.total_seconds():g} s.")
            time.sleep(POLL_EVERY)
        try:
            yield lock
        finally:
            with suppress(StoreUnavailable):  # the lock expires by itself
                self._cluster.execute(_FREE, (lock.holder,))

    def _take(self, lock: MigrationLock) -> bool:
        """Try to take the lock. A plain read comes first, because it doesn't contend with the holder."""
        if self._holder(EXEC_PROFILE_DEFAULT) is not None:
            return False
        try:
            return _was_applied(self._cluster.execute(_TAKE, (_seconds(lock.term), lock.holder)))
        except StoreUnavailable:
            # The result is unknown. The holder name is unique, so a read at SERIAL decides.
            return self._holder(SERIAL) == lock.holder

    def _holder(self, profile: object) -> str | None:
        rows = _with_retries(self._cluster, _HOLDER, profile=profile)
        return rows[0].holder if rows else None


def _with_retries(
    cluster: Cluster, statement: str, values: Sequence[object] = (), profile: object = EXEC_PROFILE_DEFAULT
) -> list[Any]:
    """Retry after an outage. Use only for reads and for idempotent writes of the holder."""
    deadline = time.monotonic() + RETRY_FOR
    while True:
        try:
            return cluster.execute(statement, values, profile=profile)
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_EVERY)


def _seconds(term: timedelta) -> int:
    return max(1, int(term.total_seconds()))


def _was_applied(answer: list[Any]) -> bool:
    """Return whether a conditional statement was applied: the first column of its answer."""
    return bool(answer[0][0])


# Split a CQL file into statements: Cassandra takes only one at a time.

_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|//[^\n]*|/\*.*?\*/)|(?P<end>;)"
    r"|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$\$.*?\$\$|.",
    re.DOTALL,
)


def statements(script: str) -> Iterator[str]:
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
"""Inside the package: a link to the top-level folder in the source tree, regular files in a wheel."""
LOCK_TERM = 2 * SCHEMA_WITHIN
"""Term of the lock, renewed before each statement: longer than the timeout of any statement."""
LOCK_TIMEOUT = 2 * LOCK_TERM
"""How long to wait for another runner: longer than the term of one that died."""


class Phase(StrEnum):
    PRE = "pre"
    """Runs before new code starts, while the old code serves. It only adds."""
    POST = "post"
    """Runs once no old code is left. It removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraMigration:
    phase: Phase
    number: int
    name: str
    script: str

    @classmethod
    def read(cls, phase: Phase, path: Path) -> Self:
        """Read a file named `0001_what_it_brings.cql`."""
        return cls(phase=phase, number=int(path.name.partition("_")[0]), name=path.stem, script=path.read_text())

    @property
    def key(self) -> tuple[str, int]:
        return str(self.phase), self.number

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.script.encode()).hexdigest()

    def statements(self) -> Iterator[str]:
        return statements(self.script)


def migrate(
    cluster: Cluster,
    phase: Phase,
    folder: Path = FOLDER,
    *,
    term: timedelta = LOCK_TERM,
    lock_timeout: timedelta = LOCK_TIMEOUT,
) -> int:
    """Create the keyspace, apply the missing migrations of the phase, and return their number.

    If several runners start, one works and the others wait. An interrupted file is started again: its statements are
    idempotent. Raises SchemaNewer or SchemaChanged before it changes anything, and StoreUnavailable: then run it again.
    """
    known = _known(folder)
    cluster.create()
    register = MigrationRegister(cluster)
    register.create()
    _ready(register, known, phase)
    with register.locked(term, lock_timeout) as lock:
        # Check again: the previous holder of the lock may have applied all of it.
        missing = _ready(register, known, phase)
        for migration in missing:
            _apply(cluster, lock, migration)
        return len(missing)


def pending(cluster: Cluster, phase: Phase, folder: Path = FOLDER) -> list[str]:
    """Return the names of the files that `migrate` would apply. It changes nothing, except to create the register."""
    known = _known(folder)
    register = MigrationRegister(cluster)
    register.create()
    done = _checked(register.entries(), known)
    return [migration.name for migration in known if migration.phase == phase and migration.key not in done]


def require(cluster: Cluster, folder: Path = FOLDER) -> None:
    """Check that this code can serve. Raises SchemaOlder or SchemaNewer.

    Additions of a newer version (phase pre) are harmless. Removals (phase post) are not.
    """
    known = {migration.key: migration for migration in _known(folder)}
    entries = {(entry.phase, entry.number): entry for entry in _applied(cluster)}
    for key, entry in entries.items():
        if key not in known and entry.phase == Phase.POST:
            raise SchemaNewer(f"Unknown migration in the store: {entry.phase}/{entry.name}.")
    for key, migration in known.items():
        if migration.phase == Phase.PRE and (key not in entries or not entries[key].applied):
            raise SchemaOlder(f"Missing migration: {migration.phase}/{migration.name}.")


def _applied(cluster: Cluster) -> Sequence[MigrationEntry]:
    try:
        return MigrationRegister(cluster).entries()
    except InvalidRequest as error:
        raise SchemaOlder("The keyspace has no tables of this software.") from error


def missing(entries: Sequence[MigrationEntry], folder: Path = FOLDER) -> tuple[list[str], list[str]]:
    """Return the migrations that the register lacks, and those that the code lacks or knows differently.

    Each is given as its phase and name.
    """
    known = {migration.key: migration for migration in _known(folder)}
    done = {(entry.phase, entry.number) for entry in entries if entry.applied}
    foreign = [
        f"{entry.phase}/{entry.name}"
        for entry in entries
        if (entry.phase, entry.number) not in known or known[entry.phase, entry.number].checksum != entry.checksum
    ]
    return [f"{ours.phase}/{ours.name}" for ours in known.values() if ours.key not in done], foreign


def _known(folder: Path) -> list[CassandraMigration]:
    """Read the migrations. Raises FileNotFoundError: an installation without files must not look up to date."""
    migrations = [
        CassandraMigration.read(phase, path) for phase in Phase for path in sorted((folder / phase).glob("*.cql"))
    ]
    if not migrations:
        raise FileNotFoundError(f"No migrations in {folder}.")
    return migrations


def _ready(register: MigrationRegister, known: Sequence[CassandraMigration], phase: Phase) -> list[CassandraMigration]:
    """Return the missing migrations of the phase.

    Raises Environment if phase post is asked for before pre is complete.
    """
    done = _checked(register.entries(), known)
    missing = [migration for migration in known if migration.key not in done]
    before = [migration.name for migration in missing if migration.phase != Phase.POST]
    if phase == Phase.POST and before:
        raise Environment(f"Run the phase pre first; migration {before[0]} is missing.")
    return [migration for migration in missing if migration.phase == phase]


def _apply(cluster: Cluster, lock: MigrationLock, migration: CassandraMigration) -> None:
    """Apply a migration. After a crash the entry is started but not applied, and the next runner starts it again."""
    lock.begin(*migration.key, migration.name, migration.checksum)
    for statement in migration.statements():
        lock.renew()
        cluster.change_schema(statement)
    lock.finish(*migration.key)


def _checked(entries: Sequence[MigrationEntry], known: Sequence[CassandraMigration]) -> set[tuple[str, int]]:
    """Return the keys of applied entries.

    Raises SchemaNewer or SchemaChanged if a started one differs from the code.
    """
    checksums = {migration.key: migration.checksum for migration in known}
    for entry in entries:
        if (entry.phase, entry.number) not in checksums:
            raise SchemaNewer(f"Unknown migration in the store: {entry.phase}/{entry.name}.")
    for entry in entries:
        if checksums[entry.phase, entry.number] != entry.checksum:
            raise SchemaChanged(f"Changed migration: {entry.phase}/{entry.name}.")
    return {(entry.phase, entry.number) for entry in entries if entry.applied}
