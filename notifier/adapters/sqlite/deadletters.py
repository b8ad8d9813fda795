"""The dead letters in core.db."""

from collections.abc import Sequence

from notifier.adapters.sqlite.connection import Database
from notifier.codec.moments import from_ms, to_ms
from notifier.ports.dead_letters import DeadLetter

COLUMNS = "id, stage, cause, body, at"
_PUT = f"INSERT OR IGNORE INTO dead_letters ({COLUMNS}) VALUES (?, ?, ?, ?, ?)"
_LIST = f"SELECT {COLUMNS} FROM dead_letters ORDER BY at DESC, id DESC LIMIT ?"

Stored = tuple[str, str, str, bytes, int]


class SqliteDeadLetters:
    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, letter: DeadLetter) -> None:
        with self._db.write() as c:
            c.execute(_PUT, (letter.id, letter.stage, letter.cause, letter.body, to_ms(letter.at)))

    def list(self, limit: int) -> Sequence[DeadLetter]:
        with self._db.read() as c:
            return [letter_of(row) for row in c.execute(_LIST, (limit,))]


def letter_of(row: Stored) -> DeadLetter:
    id, stage, cause, body, at = row
    return DeadLetter(id=id, stage=stage, cause=cause, body=body, at=from_ms(at))
