"""Database files of a data folder, and the SQL files of the queries on them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from notifier.adapters.sqlite.connections_and_transactions import Database, Synchronous
from notifier.adapters.sqlite.migrate import migrate, pending
from notifier.domain.errors import LogUnavailable
from notifier.domain.ids import BurstKey

INBOX_FILE_COUNT = 8
"""With several files, several workers can write inbox rows concurrently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """All SQLite files of one data folder."""

    log: Database
    """Event log."""
    core: Database
    """The data of the store that is not in an inbox file."""
    inboxes: tuple[Database, ...]
    """Inbox rows and audience snapshots.

    A snapshot and the rows that are written from it share a file: a power cut that undoes the snapshot also undoes the
    rows.
    """

    @classmethod
    def at(cls, folder: Path) -> Self:
        """Return the files of a folder without opening them."""
        return cls(
            log=Database(folder / "log.db", unavailable_error=LogUnavailable),
            core=Database(folder / "core.db"),
            inboxes=tuple(
                Database(folder / f"inbox-{i:02}.db", synchronous=Synchronous.NORMAL) for i in range(INBOX_FILE_COUNT)
            ),
        )

    def inbox(self, shard: int) -> Database:
        return self.inboxes[shard % INBOX_FILE_COUNT]

    def migrate(self) -> int:
        """Create the folder, migrate all files, and return the number of applied steps."""
        self.core.path.parent.mkdir(parents=True, exist_ok=True)
        step_count = migrate(self.log, "log") + migrate(self.core, "core")
        return step_count + sum(migrate(inbox, "inbox") for inbox in self.inboxes)

    def pending(self) -> list[str]:
        """Return the names of the steps that `migrate` would apply."""
        names = pending(self.log, "log") + pending(self.core, "core")
        return names + [name for inbox in self.inboxes for name in pending(inbox, "inbox")]

    def close(self) -> None:
        for database in (self.log, self.core, *self.inboxes):
            database.close()


_QUERIES_FOLDER = Path(__file__).parent / "queries"


def load_statement(name: str) -> str:
    return (_QUERIES_FOLDER / f"{name}.sql").read_text()


def keys_as_json(keys: Iterable[BurstKey]) -> str:
    """Return the keys as one JSON parameter of a statement."""
    return json.dumps([(str(key.subject), key.seq) for key in keys])
