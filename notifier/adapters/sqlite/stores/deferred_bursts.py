"""The sleepers in core.db: from the one list to the other in one transaction, so that no crash comes in between."""

from collections.abc import Sequence
from datetime import datetime

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.codec.timestamps import to_ms
from notifier.domain.delivery.backlog import Sleeper
from notifier.domain.ids import BurstKey, Subject

_LAY = statement("lay_sleeper")
_CLOSE = "DELETE FROM open_bursts WHERE subject = ? AND seq = ?"
_DUE = "SELECT subject, seq, opened_at FROM sleepers WHERE until <= ? ORDER BY until LIMIT ?"
_OPEN = "INSERT OR IGNORE INTO open_bursts (subject, seq, opened_at) VALUES (?, ?, ?)"
_UP = "DELETE FROM sleepers WHERE subject = ? AND seq = ?"
_COUNT = "SELECT count(*) FROM sleepers"


class SqliteSleepers:
    def __init__(self, db: Database) -> None:
        self._db = db

    def lay(self, sleepers: Sequence[Sleeper], now: datetime) -> None:
        rows = [(str(s.burst.subject), s.burst.seq, to_ms(s.opened_at), to_ms(s.until)) for s in sleepers]
        with self._db.write() as c:
            c.executemany(_LAY, rows)
            c.executemany(_CLOSE, [row[:2] for row in rows])

    def wake(self, now: datetime, most: int) -> Sequence[BurstKey]:
        due = to_ms(now), most
        with self._db.read() as c:
            if not c.execute(_DUE, due).fetchone():
                return []
        with self._db.write() as c:
            rows = c.execute(_DUE, due).fetchall()
            c.executemany(_OPEN, rows)
            c.executemany(_UP, [row[:2] for row in rows])
        return [BurstKey(Subject.parse(subject), seq) for subject, seq, _ in rows]

    def count(self) -> int:
        with self._db.read() as c:
            return int(c.execute(_COUNT).fetchone()[0])
