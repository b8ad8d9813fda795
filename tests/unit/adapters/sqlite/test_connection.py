"""One SQLite file under several threads: all or nothing, errors in our words, and usable after each of them."""

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

from notifier.adapters.sqlite.connection import Database
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.errors import Full, LogUnavailable, StoreUnavailable
from tests.repo.sources import ROOT

SOON = timedelta(milliseconds=50)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "core.db", waits=SOON)
    with opened.write() as c:
        c.execute("CREATE TABLE t (x)")
    yield opened
    opened.close()


def put(db: Database, *values: object) -> None:
    with db.write() as c:
        c.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])


def stored(db: Database) -> list[object]:
    with db.read() as c:
        return [x for (x,) in c.execute("SELECT x FROM t")]


def fail_after_writing(db: Database) -> None:
    with db.write() as c:
        c.execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError


def test_a_block_that_fails_leaves_nothing(db: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_after_writing(db)
    put(db, 2)
    assert stored(db) == [2]


@pytest.mark.parametrize("block", [Database.read, Database.write])
def test_who_fails_amid_the_rows_may_write_though_others_have_and_the_error_is_kept(
    db: Database, block: Callable[[Database], AbstractContextManager[sqlite3.Connection]]
) -> None:
    """As a worker that counts a failed attempt: the error has its frames, and they have the rows."""
    put(db, *range(2_000))
    with pytest.raises(ZeroDivisionError) as kept, block(db) as c:
        assert [1 // x for (x,) in c.execute("SELECT x FROM t")]
    other = Database(db.path)
    put(other, 1)
    other.close()
    put(db, 2)
    assert kept.value.__traceback__ is not None
    assert len(stored(db)) == 2_002


def test_a_look_is_consistent_while_others_write(db: Database) -> None:
    with db.read() as c:
        before = c.execute("SELECT count(*) FROM t").fetchone()
        writer = threading.Thread(target=put, args=(db, 1))
        writer.start()
        writer.join()
        assert c.execute("SELECT count(*) FROM t").fetchone() == before
    assert stored(db) == [1]


def test_a_look_within_a_write_sees_what_was_written(db: Database) -> None:
    with db.write() as c:
        c.execute("INSERT INTO t VALUES (1)")
        assert stored(db) == [1]


def test_an_error_of_a_look_within_a_write_undoes_the_write(db: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        look_while_writing(db)
    put(db, 2)
    assert stored(db) == [2]


def look_while_writing(db: Database) -> None:
    with db.write() as outer:
        outer.execute("INSERT INTO t VALUES (1)")
        with db.read() as inner:
            inner.execute("SELECT * FROM absent")


def test_a_full_disk_refuses_writes_and_no_reads_and_frees_itself(db: Database) -> None:
    put(db, b"first")
    with db.read() as c:
        [pages] = c.execute("PRAGMA page_count").fetchone()
        c.execute(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(Full, match=r"core\.db"):
        put(db, *[bytes(4000)] * 100)
    assert stored(db) == [b"first"]
    with db.read() as c:
        c.execute("PRAGMA max_page_count = 100000")
    put(db, *[bytes(4000)] * 100)
    assert len(stored(db)) == 101


def test_a_file_that_somebody_holds_is_unavailable_and_then_available(db: Database) -> None:
    other = sqlite3.connect(db.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        put(db, 1)
    other.execute("ROLLBACK")
    other.close()
    put(db, 2)
    assert stored(db) == [2]


def test_a_thread_that_holds_the_file_too_long_makes_it_unavailable_to_others(db: Database) -> None:
    refused: list[Exception] = []

    def write() -> None:
        try:
            put(db, 2)
        except StoreUnavailable as error:
            refused.append(error)

    with db.write() as c:
        c.execute("INSERT INTO t VALUES (1)")
        writer = threading.Thread(target=write)
        writer.start()
        writer.join()
    assert [str(error) for error in refused] == [
        "The durable store doesn't answer right now. core.db is held by another thread."
    ]
    assert stored(db) == [1]


def test_a_folder_that_comes_later_is_found_without_a_restart(tmp_path: Path) -> None:
    db = Database(tmp_path / "later" / "log.db", unavailable=LogUnavailable)
    with pytest.raises(LogUnavailable), db.write():
        pass
    db.path.parent.mkdir()
    with db.write() as c:
        c.execute("CREATE TABLE t (x)")
    put(db, 1)
    assert stored(db) == [1]
    db.close()


def test_a_file_that_is_no_database_is_unavailable_until_it_is_replaced(tmp_path: Path) -> None:
    db = Database(tmp_path / "core.db")
    db.path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreUnavailable), db.read() as c:
        c.execute("SELECT * FROM sqlite_schema")
    db.path.unlink()
    with db.write() as c:
        c.execute("CREATE TABLE t (x)")
    db.close()


def test_a_mistake_in_a_statement_is_not_called_an_outage(db: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"), db.read() as c:
        c.execute("SELECT * FROM absent")


def test_threads_write_side_by_side_and_nothing_is_lost(db: Database) -> None:
    patient = Database(db.path)

    def put_many(n: int) -> None:
        for _ in range(20):
            put(patient, n)

    threads = [threading.Thread(target=put_many, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, stored(patient))) == sorted([str(n) for n in range(8)] * 20)
    patient.close()


def open_files(path: Path) -> int:
    names = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return len([name for name in names if name.startswith(str(path))])


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the open files as Linux lists them")
def test_threads_that_come_and_go_leave_no_files_open(db: Database) -> None:
    counted = []
    for n in range(6):
        thread = threading.Thread(target=put, args=(db, n))
        thread.start()
        thread.join()
        gc.collect()
        counted.append(open_files(db.path))
    assert counted[-1] == counted[0]


MEGABYTE = 1 << 20

READS_A_LARGE_FILE = """
import os, sys
from pathlib import Path
from notifier.adapters.sqlite.connection import Database
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


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="measures memory as Linux tells of it")
def test_reading_a_large_file_takes_little_memory(db: Database) -> None:
    for _ in range(64):
        put(db, bytes(MEGABYTE))
    words = [sys.executable, "-c", READS_A_LARGE_FILE, str(db.path)]
    assert int(subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout) < 16 * MEGABYTE


def test_closed_it_opens_again(db: Database) -> None:
    put(db, 1)
    db.close()
    assert stored(db) == [1]


@given(st.datetimes(from_ms(0).replace(tzinfo=None), timezones=st.just(UTC)))
def test_times_keep_their_milliseconds(moment: datetime) -> None:
    whole = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert from_ms(to_ms(moment)) == whole
    assert from_ms(to_ms(whole)) == whole


def forked(target: Callable[..., object], *args: object) -> int | None:
    child = multiprocessing.get_context("fork").Process(target=target, args=args)
    child.start()
    child.join()
    return child.exitcode


def refused(db: Database) -> None:
    with pytest.raises(RuntimeError, match="was open when the process forked"):
        put(db, "child")


def test_a_file_that_is_open_at_a_fork_is_refused_to_the_child(db: Database) -> None:
    put(db, "parent")
    assert forked(refused, db) == 0
    assert stored(db) == ["parent"]


def test_a_file_that_was_closed_before_the_fork_serves_both(db: Database) -> None:
    put(db, "parent")
    db.close()
    assert forked(put, db, "child") == 0
    assert stored(db) == ["parent", "child"]
