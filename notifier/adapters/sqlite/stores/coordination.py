"""Leadership in core.db: one row a lease."""

from datetime import datetime, timedelta

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.codec.timestamps import to_ms

_HOLD = statement("lease_hold")


class SqliteLeases:
    def __init__(self, db: Database) -> None:
        self._db = db

    def hold(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        lease = {"name": name, "owner": owner, "now": to_ms(now), "until": to_ms(now + term)}
        with self._db.write() as c:
            return c.execute(_HOLD, lease).rowcount == 1


# Epochs in core.db: the next free one of each name, beside the next free member number.

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
