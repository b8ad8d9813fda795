"""Change feed of bursts in core.db, ordered by commit."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from notifier.adapters.sqlite.async_queries import SqliteReader, SqliteWriter
from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import keys_as_json, load_statement
from notifier.codec import unpack
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.inbox_cache_freshness import MAX_CHANGED_BURSTS, ChangesSince, FeedPosition

MIN_KEPT_CHANGES = 50_000
"""A reader that is further behind may have to read everything again."""
ROWS_PER_PRUNE = 1_000
"""Old rows are deleted once there are so many, in 0.3 ms. Most transactions then don't touch the oldest page."""
ROWS_BETWEEN_PRUNES = 64
"""Rows that a BurstChangeWriter writes before it looks for old rows again."""
LAPSE_KEY = ("", 0)
"""Subject and seq of the row of a lapse: viewer facts changed, but Redis missed it. No burst has the number 0."""

_INSERT_CHANGE = "INSERT INTO burst_changes (subject, seq) VALUES (?, ?)"
_DELETE_OLD_CHANGES = load_statement("prune_burst_change_feed")
_SELECT_ENDS = "SELECT (SELECT min(id) FROM burst_changes), (SELECT max(id) FROM burst_changes)"
_SELECT_CHANGES = load_statement("read_burst_change_feed")
_SELECT_BURSTS = load_statement("read_bursts_by_key")


@dataclass(frozen=True, slots=True)
class SqlitePosition(FeedPosition):
    id: int
    """Id of the last change that was read."""


class BurstChangeWriter:
    """Writes changes, and deletes old ones."""

    def __init__(self) -> None:
        self._rows_since_prune = ROWS_BETWEEN_PRUNES

    def put(self, c: sqlite3.Connection, bursts: Iterable[BurstKey]) -> None:
        """Record changes. Call it in the transaction that writes the bursts, so that both become readable together."""
        self._put(c, [(str(key.subject), key.seq) for key in bursts])

    def put_lapse(self, c: sqlite3.Connection) -> None:
        self._put(c, [LAPSE_KEY])

    def _put(self, c: sqlite3.Connection, rows: list[tuple[str, int]]) -> None:
        c.executemany(_INSERT_CHANGE, rows)
        self._rows_since_prune += len(rows)
        if self._rows_since_prune >= ROWS_BETWEEN_PRUNES:
            self._rows_since_prune = 0
            c.execute(_DELETE_OLD_CHANGES, {"kept_rows": MIN_KEPT_CHANGES, "rows_per_prune": ROWS_PER_PRUNE})


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
            return SqlitePosition(_oldest_and_newest(c)[1])

    def _after(self, position: SqlitePosition) -> ChangesSince | None:
        with self._db.read() as c:
            oldest, newest = _oldest_and_newest(c)
            if newest == position.id:
                return ChangesSince(bursts=(), has_viewer_lapse=False, position=position)
            # If the newest id is below the position, the file was replaced by an older copy. If the id that follows the
            # position is missing, changes after the position were deleted.
            if newest < position.id or oldest > position.id + 1:
                return None
            # Two more rows: one for a lapse, and one that shows that too many bursts have changed.
            rows = c.execute(_SELECT_CHANGES, (position.id, MAX_CHANGED_BURSTS + 2)).fetchall()
            entries = [(subject, seq) for _, subject, seq in sorted(rows)]
            changed = [BurstKey(Subject.parse(subject), seq) for subject, seq in entries if seq]
            if len(changed) > MAX_CHANGED_BURSTS:
                return None
            blobs = c.execute(_SELECT_BURSTS, (keys_as_json(changed),)).fetchall()
        bursts = {burst.key: burst for burst in (unpack(Burst, blob) for (blob,) in blobs)}
        return ChangesSince(
            bursts=[bursts[key] for key in changed if key in bursts],
            has_viewer_lapse=LAPSE_KEY in entries,
            position=SqlitePosition(newest),
        )


class SqliteViewerLapses:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._changes = BurstChangeWriter()

    def record(self) -> None:
        with self._db.write() as c:
            self._changes.put_lapse(c)


def _oldest_and_newest(c: sqlite3.Connection) -> tuple[int, int]:
    """Return the oldest and the newest id, or zeros before the first change."""
    oldest, newest = c.execute(_SELECT_ENDS).fetchone()
    return oldest or 0, newest or 0
