"""Migrates a SQLite file in numbered steps.

A step must not be edited once it is applied.
"""

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.domain.errors import SchemaChanged, SchemaNewer

MIGRATIONS_FOLDER = Path(__file__).parents[2] / "migrations" / "sqlite"
"""In a checkout, this folder is a symbolic link to the top-level `migrations/sqlite`."""

_CREATE_MIGRATIONS_TABLE = """
CREATE TABLE IF NOT EXISTS migrations (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    checksum   TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
)
"""
_SELECT_APPLIED = "SELECT number, name, checksum FROM migrations ORDER BY number"
_INSERT_APPLIED = "INSERT INTO migrations (number, name, checksum, applied_at) VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteMigration:
    number: int
    name: str
    script: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file with a name such as `0001_add_devices.sql`."""
        return cls(number=int(path.name.partition("_")[0]), name=path.stem, script=path.read_text())

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.script.encode()).hexdigest()

    def statements(self) -> Iterator[str]:
        """Yield single statements: `executescript` would commit the open transaction."""
        statement = ""
        for line in self.script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                yield statement
                statement = ""


def migrate(db: Database, kind: str, folder: Path = MIGRATIONS_FOLDER) -> int:
    """Apply the missing steps of `folder`/`kind` to a file, and return their number.

    The transaction of a step first checks whether the step is applied, so two processes may migrate concurrently.
    """
    migrations = _read_migrations(folder / kind)
    return sum(_apply_if_missing(db, migrations, migration) for migration in migrations)


def pending(db: Database, kind: str, folder: Path = MIGRATIONS_FOLDER) -> list[str]:
    """Return the names of the steps that `migrate` would apply. Create the table `migrations` if it is missing."""
    migrations = _read_migrations(folder / kind)
    with db.write() as c:
        applied = _applied_numbers(c, migrations)
    return [migration.name for migration in migrations if migration.number not in applied]


def _read_migrations(folder: Path) -> list[SqliteMigration]:
    """Read the migrations. Raises FileNotFoundError if there are none: a broken wheel must not look up to date."""
    migrations = [SqliteMigration.read(path) for path in sorted(folder.glob("*.sql"))]
    if not migrations:
        raise FileNotFoundError(f"No migrations in {folder}.")
    return migrations


def _apply_if_missing(db: Database, migrations: list[SqliteMigration], migration: SqliteMigration) -> int:
    with db.write() as c:
        if migration.number in _applied_numbers(c, migrations):
            return 0
        for statement in migration.statements():
            c.execute(statement)
        c.execute(_INSERT_APPLIED, (migration.number, migration.name, migration.checksum, time.time_ns() // 1_000_000))
        return 1


def _applied_numbers(c: sqlite3.Connection, migrations: list[SqliteMigration]) -> set[int]:
    """Return the numbers of the applied steps.

    Raises SchemaNewer for an unknown step, and SchemaChanged for an edited one.
    """
    c.execute(_CREATE_MIGRATIONS_TABLE)
    checksums = {migration.number: migration.checksum for migration in migrations}
    applied = c.execute(_SELECT_APPLIED).fetchall()
    for number, name, _ in applied:
        if number not in checksums:
            raise SchemaNewer(f"Unknown migration in the store: {name}.")
    for number, name, checksum in applied:
        if checksums[number] != checksum:
            raise SchemaChanged(f"Changed migration: {name}.")
    return {number for number, _, _ in applied}
