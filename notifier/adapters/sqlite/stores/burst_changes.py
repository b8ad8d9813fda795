"""Change feed of bursts in core.db, ordered by commit."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from notifier.adapters.sqlite.async_reader import SqliteReader, SqliteWriter
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.files import keys_as_json, load_statement
from notifier.codec import unpack
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.inbox_versions import MAX_CHANGED_BURSTS, ChangesSince, FeedPosition

KEPT = 50_000
"""Changes. A reader that is further behind gets None anyway, because more than MOST bursts have changed."""
PRUNED_TOGETHER = 1_000
"""Rows deleted together, in 0.3 ms. Most commits then leave the oldest page of the table alone."""
PRUNES_EVERY = 64
"""Rows that a process writes between two checks for rows to delete."""
LAPSE = ("", 0)
"""Subject and seq of a lapse. No burst has the number 0."""

_PUT = "INSERT INTO burst_changes (subject, seq) VALUES (?, ?)"
_PRUNE = load_statement("prune_burst_changes")
_ENDS = "SELECT (SELECT min(id) FROM burst_changes), (SELECT max(id) FROM burst_changes)"
_AFTER = load_statement("read_burst_changes")
_READ = load_statement("read_bursts")


@dataclass(frozen=True, slots=True)
class SqlitePosition(FeedPosition):
    id: int


class BurstChangeWriter:
    """Writes the rows. A crash between two checks leaves a few extra rows, which another process deletes."""

    def __init__(self) -> None:
        self._since_look = PRUNES_EVERY

    def put(self, c: sqlite3.Connection, bursts: Iterable[BurstKey]) -> None:
        """Record changes. Call it in the transaction that writes the bursts, so that both become readable at once."""
        self._put(c, [(str(key.subject), key.seq) for key in bursts])

    def put_lapse(self, c: sqlite3.Connection) -> None:
        self._put(c, [LAPSE])

    def _put(self, c: sqlite3.Connection, rows: list[tuple[str, int]]) -> None:
        c.executemany(_PUT, rows)
        self._since_look += len(rows)
        if self._since_look >= PRUNES_EVERY:
            self._since_look = 0
            c.execute(_PRUNE, {"kept": KEPT, "together": PRUNED_TOGETHER})


class SqliteBurstChanges:
    def __init__(self, db: Database, reader: SqliteReader | None = None, writer: SqliteWriter | None = None) -> None:
        self._db = db
        self._reader = reader or SqliteReader()
        self._writer = writer or SqliteWriter()
        self._lapses = SqliteViewerLapses(db)

    async def begin(self) -> FeedPosition:
        return await self._reader(self._begin)

    async def after(self, position: FeedPosition) -> ChangesSince | None:
        if not isinstance(position, SqlitePosition):
            raise TypeError(f"not a position in SQLite: {position!r}")
        return await self._reader(self._after, position)

    async def record_viewer_lapse(self) -> None:
        await self._writer(self._lapses.record)

    def _begin(self) -> FeedPosition:
        with self._db.read() as c:
            return SqlitePosition(_ends(c)[1])

    def _after(self, position: SqlitePosition) -> ChangesSince | None:
        with self._db.read() as c:
            oldest, newest = _ends(c)
            if newest == position.id:
                return ChangesSince(bursts=(), viewers_lapsed=False, position=position)
            # A newest id below the position means that the file was replaced by an older copy.
            if newest < position.id or oldest > position.id + 1:
                return None
            rows = c.execute(_AFTER, (position.id, MAX_CHANGED_BURSTS + 2)).fetchall()
            entries = [(subject, seq) for _, subject, seq in sorted(rows)]
            changed = [BurstKey(Subject.parse(subject), seq) for subject, seq in entries if seq]
            if len(changed) > MAX_CHANGED_BURSTS:
                return None
            blobs = c.execute(_READ, (keys_as_json(changed),)).fetchall()
        bursts = {burst.key: burst for burst in (unpack(Burst, blob) for (blob,) in blobs)}
        return ChangesSince(
            bursts=[bursts[key] for key in changed if key in bursts],
            viewers_lapsed=LAPSE in entries,
            position=SqlitePosition(newest),
        )


class SqliteViewerLapses:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._log = BurstChangeWriter()

    def record(self) -> None:
        with self._db.write() as c:
            self._log.put_lapse(c)


def _ends(c: sqlite3.Connection) -> tuple[int, int]:
    """Return the oldest and the newest id, or zeros before the first change."""
    oldest, newest = c.execute(_ENDS).fetchone()
    return oldest or 0, newest or 0
