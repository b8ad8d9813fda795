"""The files of a data folder: which there are, how durable each is, and which shard lives where."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from notifier.adapters.sqlite.connection import Database, Synchronous
from notifier.adapters.sqlite.migrate import migrate, pending
from notifier.domain.errors import LogUnavailable
from notifier.domain.ids import BurstKey

INBOXES = 8
"""Files that bulk is spread over, so that several workers write at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    log: Database
    core: Database
    inboxes: tuple[Database, ...]
    """Rows come after their seal in the same file, so what a power cut takes is rows before seals, and both come
    again: the pull path needs neither."""

    @classmethod
    def at(cls, folder: Path) -> Self:
        """Opens nothing yet."""
        return cls(
            log=Database(folder / "log.db", unavailable=LogUnavailable),
            core=Database(folder / "core.db"),
            inboxes=tuple(
                Database(folder / f"inbox-{i:02}.db", synchronous=Synchronous.NORMAL) for i in range(INBOXES)
            ),
        )

    def inbox(self, shard: int) -> Database:
        return self.inboxes[shard % INBOXES]

    def migrate(self) -> int:
        """Makes the folder, brings every file to the code's schema and returns how many steps that took.

        Safe when two processes do it at once. Raises SchemaNewer or SchemaChanged.
        """
        self.core.path.parent.mkdir(parents=True, exist_ok=True)
        done = migrate(self.log, "log") + migrate(self.core, "core")
        return done + sum(migrate(inbox, "inbox") for inbox in self.inboxes)

    def pending(self) -> list[str]:
        """The names of the steps that `migrate` would take. Raises SchemaNewer or SchemaChanged."""
        found = pending(self.log, "log") + pending(self.core, "core")
        return found + [name for inbox in self.inboxes for name in pending(inbox, "inbox")]

    def close(self) -> None:
        for database in (self.log, self.core, *self.inboxes):
            database.close()


# The longer statements, each in a file of its own under queries/, and the one parameter that has a list in it.

_QUERIES = Path(__file__).parent / "queries"


def statement(name: str) -> str:
    return (_QUERIES / f"{name}.sql").read_text()


def wanted(keys: Iterable[BurstKey]) -> str:
    """The keys as one parameter, however many they are."""
    return json.dumps([(str(key.subject), key.seq) for key in keys])
