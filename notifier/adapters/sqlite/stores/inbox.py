"""Writes inbox rows, sweeps expired rows, and keeps the audit log."""

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, repeat

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.files import load_statement
from notifier.codec.storage import to_ms
from notifier.domain.audience.inbox_rows import InboxRows, window_of
from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR
from notifier.domain.bursts.burst import RETENTION

# Sweep of an inbox file: rows of inbox windows that have expired as a whole, and audience snapshots after a week.

RANGES_AT_ONCE = 256
"""Ranges checked at a time: about 2 ms."""
ROWS_AT_ONCE = 2_000
"""Rows deleted per transaction: about 10 ms, so that deliveries hardly wait."""

_EXPIRED = load_statement("find_expired_ranges")
_EXPIRED_SNAPSHOTS = load_statement("delete_expired_snapshots")
_DELETE = "DELETE FROM inbox WHERE member_range = ? AND inbox_window < ?"


class ExpirySweep:
    """Scans the ranges once for each inbox window that expires, and remembers its position.

    After a restart it begins at the first range, which only costs time.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._cut = 0
        self._next: int | None = 0

    def __call__(self, now: datetime, limit: int) -> int:
        """Delete up to about `limit` rows and snapshots in short transactions, and return their number."""
        if (cut := window_of(now - RETENTION)) != self._cut:
            self._cut, self._next = cut, 0
        swept = self._sweep_snapshots(now, limit)
        while swept < limit and self._next is not None:
            swept += self._find_expired(self._next, limit - swept)
        return swept

    def _find_expired(self, start: int, limit: int) -> int:
        with self._db.read() as c:
            condition = {"start": start, "cut": self._cut, "ranges": RANGES_AT_ONCE}
            looked_at = c.execute(_EXPIRED, condition).fetchall()
        expired = [member_range for member_range, has_expired in looked_at if has_expired]
        swept, next_range = self._delete(expired, limit) if expired else (0, None)
        if next_range is None:
            next_range = looked_at[-1][0] + 1 if looked_at else None
        self._next = next_range
        return swept

    def _delete(self, ranges: list[int], limit: int) -> tuple[int, int | None]:
        """Return the number of deleted rows, and the next range if the limit was reached before the last one."""
        swept = 0
        with self._db.write() as c:
            for member_range in ranges:
                if swept >= min(limit, ROWS_AT_ONCE):
                    return swept, member_range
                swept += c.execute(_DELETE, (member_range, self._cut)).rowcount
        return swept, None

    def _sweep_snapshots(self, now: datetime, limit: int) -> int:
        with self._db.write() as c:
            return c.execute(_EXPIRED_SNAPSHOTS, (to_ms(now - SNAPSHOT_KEPT_FOR), min(limit, ROWS_AT_ONCE))).rowcount


SHARDS_AT_ONCE = 16
"""Shards per transaction, of 512 rows at most: a few milliseconds, so that an urgent tier gets its turn soon."""

# Not OR REPLACE: a repeated row then changes no page.
_INSERT = "INSERT OR IGNORE INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?)"

Values = tuple[int, int, str, int, int, str, bytes]
"""Values of the columns: range, inbox window, subject, opened at, seq, tier, members."""


class SqliteInbox:
    def __init__(self, inboxes: Sequence[Database]) -> None:
        self._inboxes = inboxes
        self._sweeps = [ExpirySweep(db) for db in inboxes]

    def write(self, rows: Sequence[InboxRows], on_progress: Callable[[], None] = lambda: None) -> None:
        for file, group in _by_file(rows, len(self._inboxes)).items():
            for batch in _batches(group):
                on_progress()
                # In the order of the key, so that each page of the tree is found and changed once.
                with self._inboxes[file].write() as c:
                    c.executemany(_INSERT, chain.from_iterable(map(_values, batch)))

    def delete_expired(self, now: datetime, limit: int) -> int:
        swept = 0
        for sweep in self._sweeps:
            if swept < limit:
                swept += sweep(now, limit - swept)
        return swept


def _by_file(rows: Sequence[InboxRows], files: int) -> dict[int, list[InboxRows]]:
    by_file: dict[int, list[InboxRows]] = defaultdict(list)
    for group in sorted(rows, key=lambda group: group.shard):
        if group.row_count:
            by_file[group.shard % files].append(group)
    return by_file


def _batches(rows: Sequence[InboxRows]) -> Iterator[Sequence[InboxRows]]:
    for at in range(0, len(rows), SHARDS_AT_ONCE):
        yield rows[at : at + SHARDS_AT_ONCE]


def _values(rows: InboxRows) -> Iterator[Values]:
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


# Audit log in core.db: append-only. The hash of each row covers the row before it, so that a changed row is detected.

PAGE = 500

_LAST = "SELECT hash FROM audit ORDER BY number DESC LIMIT 1"
_ADD = "INSERT INTO audit (hash, body) VALUES (?, ?)"
_AFTER = "SELECT number, hash, CAST(body AS BLOB) FROM audit WHERE number > ? ORDER BY number LIMIT ?"


def append_to_audit(
    c: sqlite3.Connection, *, at: datetime, operator: str, action: str, detail: Mapping[str, object]
) -> None:
    """Append an audit row in the transaction of the operation, so that neither exists without the other."""
    entry = {"at": at.isoformat(), "who": operator, "what": action, **detail}
    body = json.dumps(entry, sort_keys=True, ensure_ascii=False).encode()
    last = c.execute(_LAST).fetchone()
    c.execute(_ADD, (_chain_hash(last[0] if last else b"", body), body))


def audit_entries(db: Database) -> Iterator[tuple[bytes, bool]]:
    """Yield the bodies, oldest first, each with whether its content and position are unchanged."""
    number, previous = 0, b""
    while page := _page(db, number):
        for _, stored_hash, body in page:
            yield body, stored_hash == _chain_hash(previous, body)
            previous = stored_hash
        number = page[-1][0]


def _page(db: Database, number: int) -> list[tuple[int, bytes, bytes]]:
    with db.read() as c:
        return c.execute(_AFTER, (number, PAGE)).fetchall()


def _chain_hash(before: bytes, body: bytes) -> bytes:
    return hashlib.sha256(before + body).digest()
