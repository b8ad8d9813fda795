"""SQLite migrations run once each, and refuse edited files and newer data."""

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.migrate import migrate, pending
from notifier.domain.errors import SchemaChanged, SchemaNewer

FIRST = "-- A table; with a comment.\nCREATE TABLE a (x TEXT DEFAULT ';');\nINSERT INTO a VALUES ('one;two');\n"
SECOND = "CREATE TABLE b (x);\n"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "core.db")
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    migrations = tmp_path / "migrations"
    (migrations / "core").mkdir(parents=True)
    (migrations / "core" / "0001_first.sql").write_text(FIRST)
    (migrations / "core" / "0002_second.sql").write_text(SECOND)
    return migrations


def tables(db: Database) -> set[str]:
    with db.read() as c:
        return {name for (name,) in c.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def test_migrations_run_once_in_order(db: Database, folder: Path) -> None:
    assert pending(db, "core", folder) == ["0001_first", "0002_second"]
    assert migrate(db, "core", folder) == 2
    assert tables(db) == {"migrations", "a", "b"}
    assert migrate(db, "core", folder) == 0
    assert pending(db, "core", folder) == []
    with db.read() as c:
        assert c.execute("SELECT x FROM a").fetchall() == [("one;two",)]


def test_only_the_new_migration_runs(db: Database, folder: Path) -> None:
    migrate(db, "core", folder)
    (folder / "core" / "0003_third.sql").write_text("CREATE TABLE c (x);")
    assert migrate(db, "core", folder) == 1
    assert "c" in tables(db)


def test_failed_migration_is_rolled_back(db: Database, folder: Path) -> None:
    (folder / "core" / "0002_second.sql").write_text("CREATE TABLE b (x);\nCREATE TABLE b (x);\n")
    with pytest.raises(Exception, match="already exists"):
        migrate(db, "core", folder)
    assert tables(db) == {"migrations", "a"}
    (folder / "core" / "0002_second.sql").write_text(SECOND)
    assert migrate(db, "core", folder) == 1


def test_data_of_newer_version_is_refused_unchanged(db: Database, folder: Path) -> None:
    migrate(db, "core", folder)
    (folder / "core" / "0002_second.sql").unlink()
    with pytest.raises(SchemaNewer, match="0002_second"):
        migrate(db, "core", folder)
    assert tables(db) == {"migrations", "a", "b"}


def test_migration_edited_after_running_is_refused(db: Database, folder: Path) -> None:
    migrate(db, "core", folder)
    (folder / "core" / "0001_first.sql").write_text(FIRST + "-- Another thought.\n")
    with pytest.raises(SchemaChanged, match="0001_first"):
        migrate(db, "core", folder)


def migrate_all(folder: Path) -> int:
    files = Files.at(folder)
    try:
        return files.migrate()
    finally:
        files.close()


def test_two_processes_can_migrate_concurrently(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.map(migrate_all, [tmp_path] * 2, chunksize=1)
    assert sum(counts) == migrate_all(tmp_path / "alone") > 0
