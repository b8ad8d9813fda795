"""Brings a keyspace to the schema of the code: numbered CQL in two phases, each file applied once, never edited."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Self

from cassandra import InvalidRequest

from notifier.adapters.cassandra.driver.session import SCHEMA_WITHIN, Cluster
from notifier.adapters.cassandra.schema.migration_log import Entry, Lock, Register
from notifier.domain.errors import Environment, SchemaChanged, SchemaNewer, SchemaOlder

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
class Migration:
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


def _applied(cluster: Cluster) -> Sequence[Entry]:
    try:
        return Register(cluster).entries()
    except InvalidRequest as error:
        raise SchemaOlder("The keyspace has no tables of ours.") from error


def missing(entries: Sequence[Entry], folder: Path = FOLDER) -> tuple[list[str], list[str]]:
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


def _known(folder: Path) -> list[Migration]:
    """An installation without migrations must not pass for one that has nothing to do."""
    found = [Migration.read(phase, path) for phase in Phase for path in sorted((folder / phase).glob("*.cql"))]
    if not found:
        raise FileNotFoundError(f"There are no migrations in {folder}.")
    return found


def _ready(register: Register, known: Sequence[Migration], phase: Phase) -> list[Migration]:
    """What is missing of the phase. What was added must be there before anything is taken away."""
    done = _checked(register.entries(), known)
    missing = [migration for migration in known if migration.key not in done]
    before = [migration.name for migration in missing if migration.phase != Phase.POST]
    if phase == Phase.POST and before:
        raise Environment(f"The phase pre comes first; it lacks {before[0]}.")
    return [migration for migration in missing if migration.phase == phase]


def _apply(cluster: Cluster, lock: Lock, migration: Migration) -> None:
    """A crash between any two lines leaves a file that is begun and not applied: the next runner begins it again."""
    lock.begin(*migration.key, migration.name, migration.checksum)
    for statement in migration.statements():
        lock.keep()
        cluster.change(statement)
    lock.applied(*migration.key)


def _checked(entries: Sequence[Entry], known: Sequence[Migration]) -> set[tuple[str, int]]:
    """The keys of those that were applied, once all that were begun are known to agree with the code."""
    checksums = {migration.key: migration.checksum for migration in known}
    for entry in entries:
        if (entry.phase, entry.number) not in checksums:
            raise SchemaNewer(f"It has the migration {entry.phase}/{entry.name}.")
    for entry in entries:
        if checksums[entry.phase, entry.number] != entry.checksum:
            raise SchemaChanged(f"It is {entry.phase}/{entry.name}.")
    return {(entry.phase, entry.number) for entry in entries if entry.applied}
