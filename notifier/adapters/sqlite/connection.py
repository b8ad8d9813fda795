"""Shares a SQLite file between threads and processes, and translates its errors."""

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

from notifier.domain.errors import Full, NotifierError, StoreUnavailable, Unavailable

LOCK_TIMEOUT = timedelta(seconds=5)
"""Timeout of a writer that waits for its turn: the holder of the file is then stuck."""

RETRIED_AFTER = 0.001
"""Seconds between two attempts."""

MIN_FREE_BYTES = 1 << 20
"""With fewer free bytes an I/O error counts as a full disk: the shared-memory file has no error code for that."""


_PRAGMAS = (
    "PRAGMA page_size = 4096",
    "PRAGMA journal_mode = WAL",
    "PRAGMA temp_store = MEMORY",
    # KiB per connection. A process has one per thread and file, so that 16 MB for each of ten files would be too much.
    # The operating system's cache is as fast: a shard's sets are read in 0.1 ms with 2,000 and with 16,000.
    "PRAGMA cache_size = -2000",
    # No mmap: a disk error would kill the process (SIGBUS) instead of raising an error. The pages of a large file
    # would also count as memory of the process. This costs
    # 0.1 ms per shard of a snapshot, and 2 to 3 % of a delivery.
    "PRAGMA mmap_size = 0",
    # Pages. With 2,000 an inbox file is checkpointed twice as often, which costs bulk delivery 2 to 3 % of its speed.
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA journal_size_limit = 67108864",
    # SQLite's own busy handler sleeps up to 100 ms at a time. With short waits a writer starts soon after it could.
    "PRAGMA busy_timeout = 5",
)

_FILE_ERRORS = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
}
"""After these errors the connection may refer to a file that no longer exists. The next use opens a new one."""

_TRANSIENT_ERRORS = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM}


class Synchronous(StrEnum):
    """Durability of commits, beyond the crash of a process."""

    FULL = "FULL"
    """Commits survive a power cut."""
    NORMAL = "NORMAL"
    """A power cut may undo the latest commits. It never undoes a commit and keeps a later one."""


class _Connection(sqlite3.Connection):
    """Connection that supports weak references, so that it ends with its thread."""


class _ProcessState:
    """State that belongs to one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.write_turn = threading.Lock()
        self.thread_local = threading.local()
        self.connections: WeakSet[_Connection] = WeakSet()


class Database:
    """SQLite file with one connection per thread. It works again after every error, so that recovery needs no restart.

    A process closes it before a fork: in the child SQLite would rely on locks that no process holds.
    """

    def __init__(
        self,
        path: Path,
        *,
        synchronous: Synchronous = Synchronous.FULL,
        unavailable: type[Unavailable] = StoreUnavailable,
        lock_timeout: timedelta = LOCK_TIMEOUT,
    ) -> None:
        self.path = path
        self._waits = lock_timeout.total_seconds()
        self._synchronous = synchronous
        self._unavailable = unavailable
        self._process = _ProcessState()

    def relaxed(self) -> "Database":
        """Return the same file, for writes that a power cut may undo."""
        waits = timedelta(seconds=self._waits)
        return Database(self.path, synchronous=Synchronous.NORMAL, unavailable=self._unavailable, lock_timeout=waits)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Run a write transaction. It commits at the end of the block, and rolls back if an error leaves the block."""
        turn = self._process_state().write_turn
        # Threads queue on this lock, because it wakes the next thread at once, while SQLite's busy handler sleeps.
        if not turn.acquire(timeout=self._waits):
            raise self._unavailable(f"{self.path.name} is held by another thread.")
        try:
            with self._translated():
                connection = self._connection()
                # Take the write lock at once: a transaction that begins as a read could be refused halfway.
                _execute_patiently(connection, "BEGIN IMMEDIATE", time.monotonic() + self._waits)
                with self._dropping_on_error(), _transaction(connection):
                    yield connection
        finally:
            turn.release()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Read a consistent snapshot. Within a transaction of the same thread it is part of that transaction."""
        current = self._current()
        if current is not None and current.in_transaction:
            yield current
            return
        with self._translated():
            connection = self._connection()
            connection.execute("BEGIN")
            with self._dropping_on_error(), _transaction(connection):
                yield connection

    def close(self) -> None:
        """Close the connections of all threads of this process. The next use opens new ones."""
        own, self._process = self._process_state(), _ProcessState()
        for connection in list(own.connections):
            connection.close()

    def _process_state(self) -> _ProcessState:
        if self._process.pid != os.getpid():
            if self._process.connections:
                raise RuntimeError(f"{self.path} was opened before this process forked.")
            self._process = _ProcessState()
        return self._process

    def _connection(self) -> sqlite3.Connection:
        if (connection := self._current()) is None:
            own = self._process_state()
            connection = own.thread_local.connection = self._open()
            own.connections.add(connection)
        return connection

    def _current(self) -> _Connection | None:
        """Return this thread's connection, if it has one."""
        return getattr(self._process_state().thread_local, "connection", None)

    def _open(self) -> _Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=self._waits,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=_Connection,
        )
        try:
            for pragma in (*_PRAGMAS, f"PRAGMA synchronous = {self._synchronous}"):
                # If several connections create a file, one switches the journal mode, and SQLite makes none wait for
                # it.
                _execute_patiently(connection, pragma, time.monotonic() + self._waits)
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop(self) -> None:
        if (connection := self._current()) is not None:
            own = self._process_state()
            own.thread_local.connection = None
            own.connections.discard(connection)
            connection.close()

    @contextmanager
    def _dropping_on_error(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error:
            raise
        except Exception:
            # An abandoned iteration keeps its read snapshot open after the rollback, as long as the traceback has its
            # frames. Once that snapshot is old, this thread could write nothing.
            self._drop()
            raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = _primary(error)
            if code in _FILE_ERRORS:
                self._drop()
            if (translated := self._error(code, str(error))) is not None:
                raise translated from error
            raise

    def _error(self, code: int, text: str) -> NotifierError | None:
        """Return the translated error, or None for a programming error."""
        detail = f"{self.path.name}: {text}."
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and self._is_disk_full()):
            return Full(detail)
        return self._unavailable(detail) if code in _FILE_ERRORS | _TRANSIENT_ERRORS else None

    def _is_disk_full(self) -> bool:
        try:
            return shutil.disk_usage(self.path.parent).free < MIN_FREE_BYTES
        except OSError:
            return False


def _execute_patiently(connection: sqlite3.Connection, statement: str, deadline: float) -> None:
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if _primary(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(RETRIED_AFTER)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some errors have rolled back by themselves.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _primary(error: sqlite3.Error) -> int:
    """Return the primary error code: the low byte of the extended code."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


# Imported rows in transactions of bounded size, so that other writers get their turn in between.

T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


# Group commit: one of the waiting threads writes for all, so that they share one transaction and one sync.


class _QueuedItem(Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item
        self.ended = False
        self.error: BaseException | None = None


class WriteCombiner(Generic[T]):
    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        self._write = write
        self._waiting: list[_QueuedItem[T]] = []
        self._joining = threading.Lock()
        self._writing = threading.Lock()

    def __call__(self, item: T) -> None:
        """Return once the item is written, by this thread or another. Items of one thread keep their order.

        Raises what `write` raised for the item's batch.
        """
        waiting = _QueuedItem(item)
        with self._joining:
            self._waiting.append(waiting)
        with self._writing:
            if not waiting.ended:
                self._write_all()
        if waiting.error is not None:
            raise waiting.error

    @property
    def waiting(self) -> int:
        """Number of items whose batch hasn't started."""
        return len(self._waiting)

    def _write_all(self) -> None:
        with self._joining:
            batch, self._waiting = self._waiting, []
        error: BaseException | None = None
        try:
            self._write([waiting.item for waiting in batch])
        # Whatever stops this thread, even an interrupt: the other threads must not take their items for written.
        except BaseException as caught:
            error = caught
        for waiting in batch:
            waiting.ended, waiting.error = True, error
