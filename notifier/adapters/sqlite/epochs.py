"""Epochs in core.db: the next free one of each name, beside the next free member number."""

from notifier.adapters.sqlite.connection import Database

_NEXT = """
    INSERT INTO numbers (book, free) VALUES (?, 1)
    ON CONFLICT (book) DO UPDATE SET free = free + 1
    RETURNING free - 1
"""


class SqliteEpochs:
    def __init__(self, db: Database) -> None:
        self._db = db

    def begin(self, name: str) -> int:
        with self._db.write() as c:
            [[epoch]] = c.execute(_NEXT, (f"epoch of {name}",)).fetchall()
            return int(epoch)
