"""Rounds that include all of their writes: each begins and ends with empty write-ahead logs."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from benchmarks.costs_and_figures import Cost, cost
from notifier.adapters.sqlite.database_and_query_files import Files


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledFiles:
    """The files of one writer, and a connection to each that only empties its log."""

    files: Files
    _connections: tuple[sqlite3.Connection, ...]

    @classmethod
    @contextmanager
    def of(cls, files: Files) -> Iterator["SettledFiles"]:
        with ExitStack() as stack:
            paths = [database.path for database in (files.core, *files.inboxes)]
            connections = [stack.enter_context(closing(sqlite3.connect(path, isolation_level=None))) for path in paths]
            yield cls(files=files, _connections=tuple(connections))

    def __call__(self, work: Callable[[], object]) -> Cost:
        """Measure the work until its last page is in its file.

        A writer with many transactions empties the logs several times meanwhile. One with few transactions may do so
        just before the end, or after it. Without this rule the ratio varied between 0.7 and 1.1.
        """
        self.settle()
        os.sync()  # neither side pays for writes of the other one in the system's cache

        def whole() -> None:
            work()
            self.settle()

        return cost(whole)

    def settle(self) -> None:
        for connection in self._connections:
            # RESTART reuses the log instead of truncating it: growing it again would be a cost that a running service
            # doesn't have.
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            assert not busy, "another process reads a file of the benchmark"
