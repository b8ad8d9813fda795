"""Writes inbox rows, and sweeps expired rows and audience snapshots."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain, repeat

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.codec.messagepack import to_ms
from notifier.domain.audience.inbox_rows import InboxRows, window_of
from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR
from notifier.domain.bursts.burst import RETENTION

RANGES_PER_READ = 256
"""Ranges that one statement checks, in about 2 ms."""
ROWS_PER_DELETE = 2_000
"""A transaction deletes at most about this many rows or snapshots, in about 10 ms. Deliveries wait for it."""

_FIND_EXPIRED_RANGES = load_statement("scan_ranges_for_expired_rows")
_DELETE_EXPIRED_SNAPSHOTS = load_statement("delete_expired_audience_snapshots")
_DELETE_ROWS = "DELETE FROM inbox WHERE member_range = ? AND inbox_window < ?"


class ExpirySweep:
    """Deletes the rows of expired inbox windows, and old audience snapshots, from one file.

    When a further window expires, a new scan of all ranges starts. A scan extends over several calls.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._first_kept_window = 0
        self._next_range: int | None = 0

    def __call__(self, now: datetime, limit: int) -> int:
        """Delete up to about `limit` rows and snapshots, in short transactions, and return their number."""
        if (first_kept := window_of(now - RETENTION)) != self._first_kept_window:
            self._first_kept_window, self._next_range = first_kept, 0
        swept_count = self._sweep_snapshots(now, limit)
        while swept_count < limit and self._next_range is not None:
            swept_count += self._sweep_ranges(self._next_range, limit - swept_count)
        return swept_count

    def _sweep_ranges(self, start: int, limit: int) -> int:
        with self._db.read() as c:
            parameters = {"start": start, "first_kept_window": self._first_kept_window, "ranges": RANGES_PER_READ}
            checked_ranges = c.execute(_FIND_EXPIRED_RANGES, parameters).fetchall()
        expired_ranges = [member_range for member_range, has_expired in checked_ranges if has_expired]
        swept_count, next_range = self._delete(expired_ranges, limit) if expired_ranges else (0, None)
        if next_range is None:
            next_range = checked_ranges[-1][0] + 1 if checked_ranges else None
        self._next_range = next_range
        return swept_count

    def _delete(self, ranges: list[int], limit: int) -> tuple[int, int | None]:
        """Delete expired rows. Return how many, and the first of `ranges` that was not reached; None if all were."""
        swept_count = 0
        with self._db.write() as c:
            for member_range in ranges:
                if swept_count >= min(limit, ROWS_PER_DELETE):
                    return swept_count, member_range
                swept_count += c.execute(_DELETE_ROWS, (member_range, self._first_kept_window)).rowcount
        return swept_count, None

    def _sweep_snapshots(self, now: datetime, limit: int) -> int:
        with self._db.write() as c:
            return c.execute(
                _DELETE_EXPIRED_SNAPSHOTS, (to_ms(now - SNAPSHOT_KEPT_FOR), min(limit, ROWS_PER_DELETE))
            ).rowcount


SHARDS_PER_TRANSACTION = 16
"""At most 512 rows, in a few milliseconds. Then another writer gets its turn, such as one of an urgent tier."""

# Unlike OR REPLACE, OR IGNORE changes no page of the B-tree for a row that is already stored.
_INSERT_ROW = "INSERT OR IGNORE INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?)"

RowValues = tuple[int, int, str, int, int, str, bytes]
"""Range, inbox window, subject, opening time, seq, tier, members."""


class SqliteInbox:
    def __init__(self, inboxes: Sequence[Database]) -> None:
        self._inboxes = inboxes
        self._sweeps = [ExpirySweep(db) for db in inboxes]

    def write(self, rows: Sequence[InboxRows], on_progress: Callable[[], None] = lambda: None) -> None:
        for file, group in _by_file(rows, len(self._inboxes)).items():
            for batch in _batches(group):
                on_progress()
                # The rows are in key order, so that successive rows change the same page of the B-tree.
                with self._inboxes[file].write() as c:
                    c.executemany(_INSERT_ROW, chain.from_iterable(map(_row_values, batch)))

    def delete_expired(self, now: datetime, limit: int) -> int:
        swept_count = 0
        for sweep in self._sweeps:
            if swept_count < limit:
                swept_count += sweep(now, limit - swept_count)
        return swept_count


def _by_file(rows: Sequence[InboxRows], file_count: int) -> dict[int, list[InboxRows]]:
    by_file: dict[int, list[InboxRows]] = defaultdict(list)
    for group in sorted(rows, key=lambda group: group.shard):
        if group.row_count:
            by_file[group.shard % file_count].append(group)
    return by_file


def _batches(rows: Sequence[InboxRows]) -> Iterator[Sequence[InboxRows]]:
    for start in range(0, len(rows), SHARDS_PER_TRANSACTION):
        yield rows[start : start + SHARDS_PER_TRANSACTION]


def _row_values(rows: InboxRows) -> Iterator[RowValues]:
    return zip(
        rows.ranges,
        repeat(window_of(rows.opened_at)),
        repeat(str(rows.burst.subject)),
        repeat(to_ms(rows.opened_at)),
        repeat(rows.burst.seq),
        repeat(str(rows.tier)),
        rows.members,
        strict=False,
    )
