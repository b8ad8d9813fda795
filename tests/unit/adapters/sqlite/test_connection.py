"""SQLite access by several threads: atomic writes, translated errors, and recovery from them."""

import gc
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.errors import DiskFull, LogUnavailable, StoreUnavailable
from tests.repo.repository_files import ROOT

LOCK_TIMEOUT = timedelta(milliseconds=50)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "core.db", lock_timeout=LOCK_TIMEOUT)
    with opened.write() as c:
        c.execute("CREATE TABLE t (x)")
    yield opened
    opened.close()


def insert(db: Database, *values: object) -> None:
    with db.write() as c:
        c.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])


def stored(db: Database) -> list[object]:
    with db.read() as c:
        return [x for (x,) in c.execute("SELECT x FROM t")]


def fail_after_writing(db: Database) -> None:
    with db.write() as c:
        c.execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError


def test_failed_block_writes_nothing(db: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_after_writing(db)
    insert(db, 2)
    assert stored(db) == [2]


@pytest.mark.parametrize("block", [Database.read, Database.write])
def test_thread_can_write_after_failing_amid_rows(
    db: Database, block: Callable[[Database], AbstractContextManager[sqlite3.Connection]]
) -> None:
    """A worker records a failed attempt while the traceback keeps the frames, and so the cursor, alive."""
    insert(db, *range(2_000))
    with pytest.raises(ZeroDivisionError) as caught, block(db) as c:
        assert [1 // x for (x,) in c.execute("SELECT x FROM t")]
    second = Database(db.path)
    insert(second, 1)
    second.close()
    insert(db, 2)
    assert caught.value.__traceback__ is not None
    assert len(stored(db)) == 2_002


def test_read_is_consistent_during_concurrent_writes(db: Database) -> None:
    with db.read() as c:
        before = c.execute("SELECT count(*) FROM t").fetchone()
        writer = threading.Thread(target=insert, args=(db, 1))
        writer.start()
        writer.join()
        assert c.execute("SELECT count(*) FROM t").fetchone() == before
    assert stored(db) == [1]


def test_read_within_write_sees_its_rows(db: Database) -> None:
    with db.write() as c:
        c.execute("INSERT INTO t VALUES (1)")
        assert stored(db) == [1]


def test_failed_read_within_write_rolls_back(db: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        fail_in_read_within_write(db)
    insert(db, 2)
    assert stored(db) == [2]


def fail_in_read_within_write(db: Database) -> None:
    with db.write() as outer:
        outer.execute("INSERT INTO t VALUES (1)")
        with db.read() as inner:
            inner.execute("SELECT * FROM absent")


def test_full_disk_refuses_writes_until_space_is_freed(db: Database) -> None:
    insert(db, b"first")
    with db.read() as c:
        [page_count] = c.execute("PRAGMA page_count").fetchone()
        c.execute(f"PRAGMA max_page_count = {page_count + 4}")
    with pytest.raises(DiskFull, match=r"core\.db"):
        insert(db, *[bytes(4000)] * 100)
    assert stored(db) == [b"first"]
    with db.read() as c:
        c.execute("PRAGMA max_page_count = 100000")
    insert(db, *[bytes(4000)] * 100)
    assert len(stored(db)) == 101


def test_file_locked_by_another_connection_is_unavailable(db: Database) -> None:
    holder = sqlite3.connect(db.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        insert(db, 1)
    holder.execute("ROLLBACK")
    holder.close()
    insert(db, 2)
    assert stored(db) == [2]


def test_file_locked_by_another_thread_is_unavailable(db: Database) -> None:
    errors: list[Exception] = []

    def write() -> None:
        try:
            insert(db, 2)
        except StoreUnavailable as error:
            errors.append(error)

    with db.write() as c:
        c.execute("INSERT INTO t VALUES (1)")
        writer = threading.Thread(target=write)
        writer.start()
        writer.join()
    assert [str(error) for error in errors] == [
        "The durable store doesn't answer right now. core.db is locked by another thread."
    ]
    assert stored(db) == [1]


def test_folder_created_later_is_used_without_restart(tmp_path: Path) -> None:
    db = Database(tmp_path / "later" / "log.db", unavailable_error=LogUnavailable)
    with pytest.raises(LogUnavailable), db.write():
        pass
    db.path.parent.mkdir()
    with db.write() as c:
        c.execute("CREATE TABLE t (x)")
    insert(db, 1)
    assert stored(db) == [1]
    db.close()


def test_invalid_file_is_unavailable_until_replaced(tmp_path: Path) -> None:
    db = Database(tmp_path / "core.db")
    db.path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreUnavailable), db.read() as c:
        c.execute("SELECT * FROM sqlite_schema")
    db.path.unlink()
    with db.write() as c:
        c.execute("CREATE TABLE t (x)")
    db.close()


def test_sql_error_is_not_reported_as_outage(db: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"), db.read() as c:
        c.execute("SELECT * FROM absent")


def test_concurrent_writes_of_threads_are_all_kept(db: Database) -> None:
    database = Database(db.path)

    def put_many(n: int) -> None:
        for _ in range(20):
            insert(database, n)

    threads = [threading.Thread(target=put_many, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, stored(database))) == sorted([str(n) for n in range(8)] * 20)
    database.close()


def open_file_count(path: Path) -> int:
    names = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return len([name for name in names if name.startswith(str(path))])


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed as on Linux")
def test_ended_threads_leave_no_open_files(db: Database) -> None:
    open_counts = []
    for n in range(6):
        thread = threading.Thread(target=insert, args=(db, n))
        thread.start()
        thread.join()
        gc.collect()
        open_counts.append(open_file_count(db.path))
    assert open_counts[-1] == open_counts[0]


MEGABYTE = 1 << 20

READS_A_LARGE_FILE = """
import os, sys
from pathlib import Path
from notifier.adapters.sqlite.connections_and_transactions import Database
db = Database(Path(sys.argv[1]))
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
with db.read() as c:
    c.execute("SELECT 1 FROM t LIMIT 1").fetchone()
    before = resident()
    for rowid in range(1, 65):
        assert len(c.execute("SELECT x FROM t WHERE rowid = ?", (rowid,)).fetchone()[0]) == 1 << 20
print(resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is measured as on Linux")
def test_reading_a_large_file_takes_little_memory(db: Database) -> None:
    for _ in range(64):
        insert(db, bytes(MEGABYTE))
    command = [sys.executable, "-c", READS_A_LARGE_FILE, str(db.path)]
    assert int(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout) < 16 * MEGABYTE


def test_closed_database_reopens(db: Database) -> None:
    insert(db, 1)
    db.close()
    assert stored(db) == [1]


@given(st.datetimes(from_ms(0).replace(tzinfo=None), timezones=st.just(UTC)))
def test_times_are_stored_with_milliseconds(moment: datetime) -> None:
    truncated = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert from_ms(to_ms(moment)) == truncated
    assert from_ms(to_ms(truncated)) == truncated


def forked(target: Callable[..., object], *args: object) -> int | None:
    child = multiprocessing.get_context("fork").Process(target=target, args=args)
    child.start()
    child.join()
    return child.exitcode


def assert_write_is_refused(db: Database) -> None:
    with pytest.raises(RuntimeError, match="was opened before this process forked"):
        insert(db, "child")


def test_file_opened_before_fork_is_refused_in_child(db: Database) -> None:
    insert(db, "parent")
    assert forked(assert_write_is_refused, db) == 0
    assert stored(db) == ["parent"]


def test_file_closed_before_fork_works_in_both_processes(db: Database) -> None:
    insert(db, "parent")
    db.close()
    assert forked(insert, db, "child") == 0
    assert stored(db) == ["parent", "child"]
