"""Brings a keyspace to the schema of the code: numbered CQL in two phases, each file applied once, never edited."""

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

# The register of migrations: what was begun and applied, and whose turn it is; one partition, one Paxos.

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
class MigrationEntry:
    phase: str
    number: int
    name: str
    checksum: str
    applied: bool
    """False: begun, and cut off before its end."""


def entry(row: Any) -> MigrationEntry:
    return MigrationEntry(
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

    def entries(self) -> list[MigrationEntry]:
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


# A file of CQL as single statements: Cassandra takes no more than one at a time.

_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|//[^\n]*|/\*.*?\*/)|(?P<end>;)"
    r"|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$\$.*?\$\$|.",
    re.DOTALL,
)


def statements(script: str) -> Iterator[str]:
    """Without comments and semicolons. Raises ValueError at the end of a file that was cut off within a statement."""
    statement = ""
    for token in _TOKEN.finditer(script):
        if token["end"]:
            yield statement.strip()
            statement = ""
        elif not token["comment"]:
            statement += token[0]
    if statement.strip():
        raise ValueError(f"There is no semicolon behind: {statement.strip()[:60]}")


FOLDER = Path(__file__).parents[3] / "migrations" / "cassandra"
"""In the package: a link in the source tree, to the folder that people look into, and files of its own in a wheel."""
TERM = 2 * SCHEMA_WITHIN
"""Of the lock, renewed before each statement: longer than any statement is waited for."""
WAITS = 2 * TERM
"""For another runner: long enough to outlast the term of one that died."""


class Phase(StrEnum):
    PRE = "pre"
    """Before new code starts, while the old serves: only adds."""
    POST = "post"
    """Once no old code runs: takes away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraMigration:
    phase: Phase
    number: int
    name: str
    script: str

    @classmethod
    def read(cls, phase: Phase, path: Path) -> Self:
        """From a file named `0001_what_it_brings.cql`."""
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
    cluster: Cluster, phase: Phase, folder: Path = FOLDER, *, term: timedelta = TERM, waits: timedelta = WAITS
) -> int:
    """Applies what is missing of the phase and returns how many files that were; makes the keyspace, too.

    Of several runners one works and the others wait. A file that was cut off is begun again: its statements bear it.
    Raises SchemaNewer or SchemaChanged before anything is changed, and StoreUnavailable: then run it again.
    """
    known = _known(folder)
    cluster.create()
    register = Register(cluster)
    register.make()
    _ready(register, known, phase)
    with register.locked(term, waits) as lock:
        # Again: whoever had the lock before may have applied all of it.
        missing = _ready(register, known, phase)
        for migration in missing:
            _apply(cluster, lock, migration)
        return len(missing)


def pending(cluster: Cluster, phase: Phase, folder: Path = FOLDER) -> list[str]:
    """The names of the files that `migrate` would apply; changes nothing but an empty register."""
    known = _known(folder)
    register = Register(cluster)
    register.make()
    done = _checked(register.entries(), known)
    return [migration.name for migration in known if migration.phase == phase and migration.key not in done]


def require(cluster: Cluster, folder: Path = FOLDER) -> None:
    """Returns where this code can serve. What a newer version has added is no harm, for adding is all that the phase
    pre does; what it took away is. Raises SchemaOlder or SchemaNewer.
    """
    known = {migration.key: migration for migration in _known(folder)}
    entries = {(entry.phase, entry.number): entry for entry in _applied(cluster)}
    for key, entry in entries.items():
        if key not in known and entry.phase == Phase.POST:
            raise SchemaNewer(f"It has the migration {entry.phase}/{entry.name}.")
    for key, migration in known.items():
        if migration.phase == Phase.PRE and (key not in entries or not entries[key].applied):
            raise SchemaOlder(f"It lacks the migration {migration.phase}/{migration.name}.")


def _applied(cluster: Cluster) -> Sequence[MigrationEntry]:
    try:
        return Register(cluster).entries()
    except InvalidRequest as error:
        raise SchemaOlder("The keyspace has no tables of ours.") from error


def missing(entries: Sequence[MigrationEntry], folder: Path = FOLDER) -> tuple[list[str], list[str]]:
    """What the register lacks of the code's migrations, and what it has that the code doesn't know, or knows otherwise;
    each by its phase and name."""
    known = {migration.key: migration for migration in _known(folder)}
    done = {(entry.phase, entry.number) for entry in entries if entry.applied}
    foreign = [
        f"{entry.phase}/{entry.name}"
        for entry in entries
        if (entry.phase, entry.number) not in known or known[entry.phase, entry.number].checksum != entry.checksum
    ]
    return [f"{one.phase}/{one.name}" for one in known.values() if one.key not in done], foreign


def _known(folder: Path) -> list[CassandraMigration]:
    """An installation without migrations must not pass for one that has nothing to do."""
    found = [CassandraMigration.read(phase, path) for phase in Phase for path in sorted((folder / phase).glob("*.cql"))]
    if not found:
        raise FileNotFoundError(f"There are no migrations in {folder}.")
    return found


def _ready(register: Register, known: Sequence[CassandraMigration], phase: Phase) -> list[CassandraMigration]:
    """What is missing of the phase. What was added must be there before anything is taken away."""
    done = _checked(register.entries(), known)
    missing = [migration for migration in known if migration.key not in done]
    before = [migration.name for migration in missing if migration.phase != Phase.POST]
    if phase == Phase.POST and before:
        raise Environment(f"The phase pre comes first; it lacks {before[0]}.")
    return [migration for migration in missing if migration.phase == phase]


def _apply(cluster: Cluster, lock: Lock, migration: CassandraMigration) -> None:
    """A crash between any two lines leaves a file that is begun and not applied: the next runner begins it again."""
    lock.begin(*migration.key, migration.name, migration.checksum)
    for statement in migration.statements():
        lock.keep()
        cluster.change(statement)
    lock.applied(*migration.key)


def _checked(entries: Sequence[MigrationEntry], known: Sequence[CassandraMigration]) -> set[tuple[str, int]]:
    """The keys of those that were applied, once all that were begun are known to agree with the code."""
    checksums = {migration.key: migration.checksum for migration in known}
    for entry in entries:
        if (entry.phase, entry.number) not in checksums:
            raise SchemaNewer(f"It has the migration {entry.phase}/{entry.name}.")
    for entry in entries:
        if checksums[entry.phase, entry.number] != entry.checksum:
            raise SchemaChanged(f"It is {entry.phase}/{entry.name}.")
    return {(entry.phase, entry.number) for entry in entries if entry.applied}
