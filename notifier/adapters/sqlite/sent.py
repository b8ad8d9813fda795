"""What was sent to phones, in core.db: an intent before each window of sends, its outcome after."""

from notifier.adapters.sqlite.connection import Database
from notifier.ports.push import Sending

_WINDOW = "subject = ? AND seq = ? AND tier = ? AND shard = ?"
_INTEND = "INSERT OR IGNORE INTO sent (subject, seq, tier, shard) VALUES (?, ?, ?, ?)"
_SENT = f"SELECT sent FROM sent WHERE {_WINDOW}"
_OUTCOME = f"UPDATE sent SET sent = ? WHERE {_WINDOW} AND sent IS NULL"


class SqliteSent:
    def __init__(self, db: Database) -> None:
        self._db = db

    def intend(self, sending: Sending) -> bool:
        with self._db.write() as c:
            c.execute(_INTEND, _key(sending))
            return c.execute(_SENT, _key(sending)).fetchone()[0] is None

    def outcome(self, sending: Sending, sent: int) -> None:
        with self._db.write() as c:
            c.execute(_INTEND, _key(sending))
            c.execute(_OUTCOME, (sent, *_key(sending)))


def _key(sending: Sending) -> tuple[str, int, str, int]:
    return str(sending.burst.subject), sending.burst.seq, str(sending.tier), sending.shard
