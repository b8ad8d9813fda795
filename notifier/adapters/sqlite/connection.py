"""One SQLite file as the threads and processes of a machine share it; vendor errors are translated here, once."""

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

WAITS = timedelta(seconds=5)
"""A writer that did not get its turn for so long gives up: the file is held by somebody who is stuck."""

RETRIED_AFTER = 0.001
"""Seconds."""

NO_ROOM = 1 << 20
"""With less than this left on the disk an I/O error is its fullness: the shared-memory file has no error of its own."""


_PRAGMAS = (
    "PRAGMA page_size = 4096",
    "PRAGMA journal_mode = WAL",
    "PRAGMA temp_store = MEMORY",
    # KiB for each connection, of which a process has one a thread and file: ten files of 16 MB would be too much. The
    # system's own cache is as fast: a shard's sets are read in 0.1 ms with 2,000 and with 16,000.
    "PRAGMA cache_size = -2000",
    # No mmap: an error of the disk would kill the process (SIGBUS) instead of becoming ours, and the pages of a large
    # file count as the process's memory. That costs 0.1 ms a sealed shard, and 2 to 3 % of a delivery.
    "PRAGMA mmap_size = 0",
    # Pages: with 2,000 an inbox file is emptied into twice as often, which costs bulk 2 to 3 % of its speed.
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA journal_size_limit = 67108864",
    # SQLite's own waiting sleeps up to 100 ms at a time; in short turns a writer gets in soon after it could.
    "PRAGMA busy_timeout = 5",
)

_GONE = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
}
"""After these the connection may be bound to a file that is no longer there; the next use opens a new one."""

_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM}


class Synchronous(StrEnum):
    """What a commit survives, besides the crash of any process."""

    FULL = "FULL"
    """A power cut."""
    NORMAL = "NORMAL"
    """The last moments before a power cut may be missing, but nothing without what was committed after it."""


class _Connection(sqlite3.Connection):
    """One that can be held weakly: a thread that ends takes its own along."""


class _Own:
    """What belongs to one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.turn = threading.Lock()
        self.local = threading.local()
        self.opened: WeakSet[_Connection] = WeakSet()


class Database:
    """One connection for each thread; usable again after every error, so that recovery needs no restart.

    A process that forks closes it before: in the child SQLite would believe in locks that nobody holds.
    """

    def __init__(
        self,
        path: Path,
        *,
        synchronous: Synchronous = Synchronous.FULL,
        unavailable: type[Unavailable] = StoreUnavailable,
        waits: timedelta = WAITS,
    ) -> None:
        self.path = path
        self._waits = waits.total_seconds()
        self._synchronous = synchronous
        self._unavailable = unavailable
        self._own = _Own()

    def relaxed(self) -> "Database":
        """The same file, for writes that may be lost in a power cut."""
        waits = timedelta(seconds=self._waits)
        return Database(self.path, synchronous=Synchronous.NORMAL, unavailable=self._unavailable, waits=waits)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it at the end of the block, or nothing when an error leaves it."""
        turn = self._mine().turn
        # Threads queue here, in turn, because a lock wakes the next at once and SQLite's waiting sleeps.
        if not turn.acquire(timeout=self._waits):
            raise self._unavailable(f"{self.path.name} is held by another thread.")
        try:
            with self._translated():
                connection = self._connection()
                # The one writer's place is taken at once: a write that began as a read could be refused halfway.
                _patiently(connection, "BEGIN IMMEDIATE", time.monotonic() + self._waits)
                with self._freed(), _ending(connection):
                    yield connection
        finally:
            turn.release()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One consistent look; within a transaction of the same thread, a part of that."""
        current = self._current()
        if current is not None and current.in_transaction:
            yield current
            return
        with self._translated():
            connection = self._connection()
            connection.execute("BEGIN")
            with self._freed(), _ending(connection):
                yield connection

    def close(self) -> None:
        """Closes the connections of all threads of this process; the next use opens new ones."""
        own, self._own = self._mine(), _Own()
        for connection in list(own.opened):
            connection.close()

    def _mine(self) -> _Own:
        if self._own.pid != os.getpid():
            if self._own.opened:
                raise RuntimeError(f"{self.path} was open when the process forked.")
            self._own = _Own()
        return self._own

    def _connection(self) -> sqlite3.Connection:
        if (found := self._current()) is None:
            own = self._mine()
            found = own.local.connection = self._open()
            own.opened.add(found)
        return found

    def _current(self) -> _Connection | None:
        """This thread's, if it has one."""
        return getattr(self._mine().local, "connection", None)

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
                # Of several that make a new file at once, one switches the journal, and SQLite lets nobody wait for it.
                _patiently(connection, pragma, time.monotonic() + self._waits)
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop(self) -> None:
        if (found := self._current()) is not None:
            own = self._mine()
            own.local.connection = None
            own.opened.discard(found)
            found.close()

    @contextmanager
    def _freed(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error:
            raise
        except Exception:
            # Whoever stopped amid the rows has a look that stays open behind the rollback, as long as the error has its
            # frames; behind such a look, once it is old, this thread could write nothing.
            self._drop()
            raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = _primary(error)
            if code in _GONE:
                self._drop()
            if (translated := self._error(code, str(error))) is not None:
                raise translated from error
            raise

    def _error(self, code: int, text: str) -> NotifierError | None:
        """None for what is a mistake of the program and not of its surroundings."""
        detail = f"{self.path.name}: {text}."
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and self._no_room()):
            return Full(detail)
        return self._unavailable(detail) if code in _GONE | _PASSING else None

    def _no_room(self) -> bool:
        try:
            return shutil.disk_usage(self.path.parent).free < NO_ROOM
        except OSError:
            return False


def _patiently(connection: sqlite3.Connection, statement: str, deadline: float) -> None:
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if _primary(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(RETRIED_AFTER)


@contextmanager
def _ending(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some errors have rolled back by themselves.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _primary(error: sqlite3.Error) -> int:
    """The error's family: the low byte of the extended code."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


# Rows of an import in transactions of a bounded size, which let others in between them.

T = TypeVar("T")


def batches(each: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(each)
    while batch := list(islice(iterator, size)):
        yield batch


# Group commit: of the threads that wait, one writes for all, so that they share one transaction and one sync.


class _Waiting(Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item
        self.ended = False
        self.error: BaseException | None = None


class Together(Generic[T]):
    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        self._write = write
        self._waiting: list[_Waiting[T]] = []
        self._joining = threading.Lock()
        self._writing = threading.Lock()

    def __call__(self, item: T) -> None:
        """Returns once the item was written, by this thread or by another; items of one thread keep their order.

        Raises what `write` raised for the batch that the item was in.
        """
        mine = _Waiting(item)
        with self._joining:
            self._waiting.append(mine)
        with self._writing:
            if not mine.ended:
                self._write_all()
        if mine.error is not None:
            raise mine.error

    @property
    def waiting(self) -> int:
        """Items whose batch hasn't begun."""
        return len(self._waiting)

    def _write_all(self) -> None:
        with self._joining:
            batch, self._waiting = self._waiting, []
        error: BaseException | None = None
        try:
            self._write([waiting.item for waiting in batch])
        # Whatever stops this thread, an interrupt too, the others must not take their items for written.
        except BaseException as caught:
            error = caught
        for waiting in batch:
            waiting.ended, waiting.error = True, error
