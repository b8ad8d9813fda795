"""Migrations of the SQLite files: once each, never edited, never behind the data."""

import multiprocessing
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.migrate import FOLDER, migrate, pending
from notifier.adapters.sqlite.stores.member_sets import SqliteStays
from notifier.adapters.sqlite.stores.user_preferences import SqlitePartings, apart_in
from notifier.codec import pack
from notifier.domain.audience.activity import FOREVER
from notifier.domain.audience.bitmap import encode, from_offsets, members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import SchemaChanged, SchemaNewer
from notifier.domain.ids import Member, UserId
from notifier.domain.users.subject_preferences import ALWAYS, NEVER
from notifier.domain.users.user_blocks import MOST_BLOCKERS, Parting
from notifier.ports.directory import Account

FIRST = "-- A table; with a comment.\nCREATE TABLE a (x TEXT DEFAULT ';');\nINSERT INTO a VALUES ('one;two');\n"
SECOND = "CREATE TABLE b (x);\n"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "core.db")
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    steps = tmp_path / "migrations"
    (steps / "core").mkdir(parents=True)
    (steps / "core" / "0001_first.sql").write_text(FIRST)
    (steps / "core" / "0002_second.sql").write_text(SECOND)
    return steps


def tables(db: Database) -> set[str]:
    with db.read() as c:
        return {name for (name,) in c.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def test_every_step_is_taken_in_order_and_once(db: Database, folder: Path) -> None:
    assert pending(db, "core", folder) == ["0001_first", "0002_second"]
    assert migrate(db, "core", folder) == 2
    assert tables(db) == {"migrations", "a", "b"}
    assert migrate(db, "core", folder) == 0
    assert pending(db, "core", folder) == []
    with db.read() as c:
        assert c.execute("SELECT x FROM a").fetchall() == [("one;two",)]


def test_a_new_step_is_taken_by_itself(db: Database, folder: Path) -> None:
    migrate(db, "core", folder)
    (folder / "core" / "0003_third.sql").write_text("CREATE TABLE c (x);")
    assert migrate(db, "core", folder) == 1
    assert "c" in tables(db)


def test_a_step_that_fails_leaves_nothing_of_itself(db: Database, folder: Path) -> None:
    (folder / "core" / "0002_second.sql").write_text("CREATE TABLE b (x);\nCREATE TABLE b (x);\n")
    with pytest.raises(Exception, match="already exists"):
        migrate(db, "core", folder)
    assert tables(db) == {"migrations", "a"}
    (folder / "core" / "0002_second.sql").write_text(SECOND)
    assert migrate(db, "core", folder) == 1


def test_data_of_a_newer_version_is_refused_and_left_alone(db: Database, folder: Path) -> None:
    migrate(db, "core", folder)
    (folder / "core" / "0002_second.sql").unlink()
    with pytest.raises(SchemaNewer, match="0002_second"):
        migrate(db, "core", folder)
    assert tables(db) == {"migrations", "a", "b"}


def test_a_step_that_was_edited_after_it_was_taken_is_refused(db: Database, folder: Path) -> None:
    migrate(db, "core", folder)
    (folder / "core" / "0001_first.sql").write_text(FIRST + "-- Another thought.\n")
    with pytest.raises(SchemaChanged, match="0001_first"):
        migrate(db, "core", folder)


def take_all(folder: Path) -> int:
    files = Files.at(folder)
    try:
        return files.migrate()
    finally:
        files.close()


def test_two_processes_may_start_at_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        taken = pool.map(take_all, [tmp_path] * 2, chunksize=1)
    assert sum(taken) == take_all(tmp_path / "alone") > 0


def test_accounts_that_were_deleted_before_it_was_a_column_are_known(db: Database, tmp_path: Path) -> None:
    known = sorted((FOLDER / "core").glob("*.sql"))
    before = tmp_path / "before" / "core"
    before.mkdir(parents=True)
    for step in known[:5]:
        (before / step.name).write_text(step.read_text())
    migrate(db, "core", before.parent)
    with db.write() as c:
        for member, name in enumerate(("here", "gone", "deleted")):
            account = Account(user=UserId(name), member=Member(member), deleted=name == "gone")
            c.execute("INSERT INTO users (user, member, account) VALUES (?, ?, ?)", (name, member, pack(account)))
    migrate(db, "core")
    with db.read() as c:
        assert c.execute("SELECT user FROM users WHERE deleted = 1").fetchall() == [("gone",)]


def test_who_was_active_by_an_import_stays_so_when_the_stays_are_made(db: Database, tmp_path: Path) -> None:
    before = tmp_path / "before"
    shutil.copytree(FOLDER, before)
    (before / "core" / "0010_stays.sql").unlink()
    migrate(db, "core", before)
    sets = {SetKind.ACTIVE_24H: 1, SetKind.ACTIVE_7D: 2, SetKind.ACTIVE_30D: 3, SetKind.VIP: 4}
    with db.write() as c:
        for kind, place in sets.items():
            row = str(kind), encode(from_offsets([place]))
            c.execute("INSERT INTO member_sets (owner, shard, kind, blob) VALUES ('', 0, ?, ?)", row)
    migrate(db, "core")
    stays = SqliteStays(db)
    found = {kind: [members(bits, 0) for bits in stays.until(kind, FOREVER, [0]).values()] for kind in sets}
    assert found == {SetKind.ACTIVE_24H: [[1]], SetKind.ACTIVE_7D: [[2]], SetKind.ACTIVE_30D: [[3]], SetKind.VIP: []}


def test_who_was_parted_before_unblocks_had_rows_still_is_and_any_word_is_later(db: Database, tmp_path: Path) -> None:
    before = tmp_path / "before"
    shutil.copytree(FOLDER, before)
    (before / "core" / "0014_partings.sql").unlink()
    migrate(db, "core", before)
    with db.write() as c:
        rows = [(1, "eve", "blocks"), (2, "ada", "blocked_by"), (1, "bob", "blocked_by"), (3, "ada", "blocks")]
        c.executemany("INSERT INTO blocks (member, other, side) VALUES (?, ?, ?)", rows)
    migrate(db, "core")
    lifted = Parting(
        blocker=UserId("bob"),
        blocker_member=Member(3),
        blocked=UserId("ada"),
        blocked_member=Member(1),
        until=ALWAYS,
        sequence=1,
    )
    SqlitePartings(db).write([lifted])
    with db.read() as c:
        assert apart_in(c, Member(1), [], MOST_BLOCKERS) == {"eve": NEVER, "bob": ALWAYS}
        assert apart_in(c, Member(3), [], MOST_BLOCKERS) == {"ada": ALWAYS}
