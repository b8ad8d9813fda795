"""Rounds that pay for all they write: each begins and ends with empty write-ahead logs."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from benchmarks.rounds import Cost, cost
from notifier.adapters.sqlite.files import Files


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
        """What the work took until its last page was in its file.

        Who writes in many transactions empties the logs several times on the way; who writes in a few may do so after
        the end, or just before. Where that edge fell made ours and the baseline's ratio swing between 0.7 and 1.1.
        """
        self.settle()
        os.sync()  # nor does one pay for what the other left in the system's cache

        def whole() -> None:
            work()
            self.settle()

        return cost(whole)

    def settle(self) -> None:
        for connection in self._connections:
            # The log is begun anew and not cut: making it long again would be a cost that a running service hasn't.
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            assert not busy, "Somebody reads in a file that only the benchmark should have."
