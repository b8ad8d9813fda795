"""Shares a SQLite file between threads and processes, and translates SQLite's errors."""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar
from weakref import WeakSet

from notifier.domain.errors import DiskFull, NotifierError, StoreUnavailable, Unavailable

LOCK_TIMEOUT = timedelta(seconds=5)
LOCK_RETRY_INTERVAL = 0.001
"""In seconds."""

MIN_FREE_BYTES = 1 << 20
"""With fewer free bytes an I/O error counts as a full disk. SQLite reports a shared-memory file that can't grow as an
I/O error."""

_PRAGMAS = (
    "PRAGMA page_size = 4096",
    "PRAGMA journal_mode = WAL",
    "PRAGMA temp_store = MEMORY",
    # KiB per connection; a process may have one connection per thread and Database. A shard's sets are read in 0.1 ms
    # both with 2,000 KiB and with 16,000 KiB, because the operating system's cache is as fast.
    "PRAGMA cache_size = -2000",
    # No mmap: a disk error would kill the process (SIGBUS) instead of raising an error. The pages of a large file
    # would also count as memory of the process. Without mmap a snapshot of a shard takes 0.1 ms longer, and a delivery
    # takes 2 to 3 % longer.
    "PRAGMA mmap_size = 0",
    # Pages. With 2,000 an inbox file is checkpointed twice as often, which costs bulk delivery 2 to 3 % of its speed.
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA journal_size_limit = 67108864",
    # Milliseconds. With a longer timeout SQLite sleeps up to 100 ms at a time, even if the lock is free sooner.
    "PRAGMA busy_timeout = 5",
)

_FILE_ERRORS = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
}
"""After these errors the connection is closed: the file may have been deleted or replaced."""

_TRANSIENT_ERRORS = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM}


class Synchronous(StrEnum):
    """Durability of commits in a power cut."""

    FULL = "FULL"
    """Commits survive a power cut."""
    NORMAL = "NORMAL"
    """A power cut may undo the latest commits. If it undoes a commit, it also undoes all later ones."""


class _Connection(sqlite3.Connection):
    """Connection that supports weak references. Only thread-local storage keeps it, so the thread's end closes it."""


class _ProcessState:
    """State that a forked child must not use."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.write_turn = threading.Lock()
        self.thread_local = threading.local()
        self.connections: WeakSet[_Connection] = WeakSet()


class Database:
    """SQLite file with one connection per thread.

    Close the database before a fork: a child inherits no file locks, but a copied connection would rely on them.
    """

    def __init__(
        self,
        path: Path,
        *,
        synchronous: Synchronous = Synchronous.FULL,
        unavailable_error: type[Unavailable] = StoreUnavailable,
        lock_timeout: timedelta = LOCK_TIMEOUT,
    ) -> None:
        self.path = path
        self._lock_timeout_seconds = lock_timeout.total_seconds()
        self._synchronous = synchronous
        self._unavailable_error = unavailable_error
        self._process = _ProcessState()

    def relaxed(self) -> "Database":
        """Return a database of the same file whose latest commits a power cut may undo."""
        lock_timeout = timedelta(seconds=self._lock_timeout_seconds)
        return Database(
            self.path,
            synchronous=Synchronous.NORMAL,
            unavailable_error=self._unavailable_error,
            lock_timeout=lock_timeout,
        )

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Run a write transaction: commit at the end of the block, or roll back if an error leaves the block."""
        turn = self._process_state().write_turn
        # A threading lock wakes the next thread immediately. SQLite's busy handler would sleep.
        if not turn.acquire(timeout=self._lock_timeout_seconds):
            raise self._unavailable_error(f"{self.path.name} is locked by another thread.")
        try:
            with self._translate_errors():
                connection = self._connection()
                # Take the write lock first: a transaction that begins as a read could be refused halfway.
                _execute_when_unlocked(connection, "BEGIN IMMEDIATE", time.monotonic() + self._lock_timeout_seconds)
                with self._drop_connection_on_caller_error(), _transaction(connection):
                    yield connection
        finally:
            turn.release()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Read a consistent snapshot. If this thread has an open transaction, read within that transaction."""
        current = self._own_connection()
        if current is not None and current.in_transaction:
            yield current
            return
        with self._translate_errors():
            connection = self._connection()
            connection.execute("BEGIN")
            with self._drop_connection_on_caller_error(), _transaction(connection):
                yield connection

    def close(self) -> None:
        """Close the connections of all threads of this process. The next use opens new ones."""
        process, self._process = self._process_state(), _ProcessState()
        for connection in list(process.connections):
            connection.close()

    def _process_state(self) -> _ProcessState:
        if self._process.pid != os.getpid():
            if self._process.connections:
                raise RuntimeError(f"{self.path} was opened before this process forked.")
            self._process = _ProcessState()
        return self._process

    def _connection(self) -> sqlite3.Connection:
        if (connection := self._own_connection()) is None:
            process = self._process_state()
            connection = process.thread_local.connection = self._connect()
            process.connections.add(connection)
        return connection

    def _own_connection(self) -> _Connection | None:
        return getattr(self._process_state().thread_local, "connection", None)

    def _connect(self) -> _Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=self._lock_timeout_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=_Connection,
        )
        try:
            for pragma in (*_PRAGMAS, f"PRAGMA synchronous = {self._synchronous}"):
                # While another connection switches a new file to WAL, SQLite raises SQLITE_BUSY without waiting.
                _execute_when_unlocked(connection, pragma, time.monotonic() + self._lock_timeout_seconds)
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop(self) -> None:
        if (connection := self._own_connection()) is not None:
            process = self._process_state()
            process.thread_local.connection = None
            process.connections.discard(connection)
            connection.close()

    @contextmanager
    def _drop_connection_on_caller_error(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error:
            raise
        except Exception:
            # The error's traceback may keep an unfinished cursor alive. Its read snapshot survives the rollback, and
            # the next write on this connection would fail.
            self._drop()
            raise

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = _primary_code(error)
            if code in _FILE_ERRORS:
                self._drop()
            if (translated := self._translation_of(code, str(error))) is not None:
                raise translated from error
            raise

    def _translation_of(self, code: int, text: str) -> NotifierError | None:
        """Return the translated error, or None if SQLite's error is raised as it is."""
        detail = f"{self.path.name}: {text}."
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and self._is_disk_full()):
            return DiskFull(detail)
        return self._unavailable_error(detail) if code in _FILE_ERRORS | _TRANSIENT_ERRORS else None

    def _is_disk_full(self) -> bool:
        try:
            return shutil.disk_usage(self.path.parent).free < MIN_FREE_BYTES
        except OSError:
            return False


def _execute_when_unlocked(connection: sqlite3.Connection, statement: str, deadline: float) -> None:
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(LOCK_RETRY_INTERVAL)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors SQLite has already rolled back.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _primary_code(error: sqlite3.Error) -> int:
    """Return the low byte of the extended error code."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split rows for short transactions, between which other writers get their turn."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


class _QueuedItem(Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item
        self.is_done = False
        self.error: BaseException | None = None


class WriteCombiner(Generic[T]):
    """Group commit: one of the waiting threads writes the items of all, in one transaction."""

    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        self._write = write
        self._queue: list[_QueuedItem[T]] = []
        self._queue_lock = threading.Lock()
        self._write_lock = threading.Lock()

    def __call__(self, item: T) -> None:
        """Return once the item is written, by this thread or another. Raises what `write` raised."""
        queued = _QueuedItem(item)
        with self._queue_lock:
            self._queue.append(queued)
        with self._write_lock:
            if not queued.is_done:
                self._write_all()
        if queued.error is not None:
            raise queued.error

    @property
    def queued_count(self) -> int:
        """Number of items whose write hasn't started."""
        return len(self._queue)

    def _write_all(self) -> None:
        with self._queue_lock:
            batch, self._queue = self._queue, []
        error: BaseException | None = None
        try:
            self._write([queued.item for queued in batch])
        # Catch even an interrupt of this thread: the other threads must not return as if their items were written.
        except BaseException as caught:
            error = caught
        for queued in batch:
            queued.is_done, queued.error = True, error
