"""The inbox files, written: a shard's rows in the order of the key."""

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, repeat

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.files import statement
from notifier.codec.storage import to_ms
from notifier.domain.audience.inbox_rows import InboxRows, window_of
from notifier.domain.audience.snapshot import KEPT_FOR
from notifier.domain.bursts.burst import RETENTION

# The sweep of one inbox file: rows of inbox windows that have expired as a whole, and seals after their week.

RANGES_AT_ONCE = 256
"""Looked at in one go: about 2 ms."""
ROWS_AT_ONCE = 2_000
"""Deleted in one transaction: some 10 ms, so that deliveries hardly wait."""

_EXPIRED = statement("expired_ranges")
_SEALS = statement("sweep_seals")
_DELETE = "DELETE FROM inbox WHERE member_range = ? AND inbox_window < ?"


class Sweep:
    """Goes through the ranges once for every inbox window that expires, and remembers how far it came.

    Whoever starts again starts at the front: it only costs the looking.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._cut = 0
        self._next: int | None = 0

    def __call__(self, now: datetime, limit: int) -> int:
        """Deletes up to about `limit` rows and seals, in short transactions."""
        if (cut := window_of(now - RETENTION)) != self._cut:
            self._cut, self._next = cut, 0
        swept = self._seals(now, limit)
        while swept < limit and self._next is not None:
            swept += self._ranges(self._next, limit - swept)
        return swept

    def _ranges(self, start: int, limit: int) -> int:
        with self._db.read() as c:
            where = {"start": start, "cut": self._cut, "ranges": RANGES_AT_ONCE}
            looked_at = c.execute(_EXPIRED, where).fetchall()
        expired = [member_range for member_range, has_expired in looked_at if has_expired]
        swept, behind = self._delete(expired, limit) if expired else (0, None)
        if behind is None:
            behind = looked_at[-1][0] + 1 if looked_at else None
        self._next = behind
        return swept

    def _delete(self, ranges: list[int], limit: int) -> tuple[int, int | None]:
        """How many rows went, and the range to go on with when it was enough before the last one."""
        swept = 0
        with self._db.write() as c:
            for member_range in ranges:
                if swept >= min(limit, ROWS_AT_ONCE):
                    return swept, member_range
                swept += c.execute(_DELETE, (member_range, self._cut)).rowcount
        return swept, None

    def _seals(self, now: datetime, limit: int) -> int:
        with self._db.write() as c:
            return c.execute(_SEALS, (to_ms(now - KEPT_FOR), min(limit, ROWS_AT_ONCE))).rowcount


SHARDS_AT_ONCE = 16
"""In one transaction, of 512 rows at most: some milliseconds, so that a tier in a hurry gets its turn soon."""

# Not OR REPLACE: the same row again then dirties no page.
_INSERT = "INSERT OR IGNORE INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?)"

Values = tuple[int, int, str, int, int, str, bytes]
"""As the columns are: range, inbox window, subject, opened at, seq, tier, members."""


class SqliteInbox:
    def __init__(self, inboxes: Sequence[Database]) -> None:
        self._inboxes = inboxes
        self._sweeps = [Sweep(db) for db in inboxes]

    def write(self, rows: Sequence[InboxRows], going: Callable[[], None] = lambda: None) -> None:
        for file, some in _by_file(rows, len(self._inboxes)).items():
            for batch in _batches(some):
                going()
                # In the key's order, so that each page of the tree is found and changed once.
                with self._inboxes[file].write() as c:
                    c.executemany(_INSERT, chain.from_iterable(map(_values, batch)))

    def sweep(self, now: datetime, limit: int) -> int:
        swept = 0
        for sweep in self._sweeps:
            if swept < limit:
                swept += sweep(now, limit - swept)
        return swept


def _by_file(rows: Sequence[InboxRows], files: int) -> dict[int, list[InboxRows]]:
    found: dict[int, list[InboxRows]] = defaultdict(list)
    for one in sorted(rows, key=lambda one: one.shard):
        if one.written:
            found[one.shard % files].append(one)
    return found


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


# The audit in core.db: append-only, each row's hash over the one before it, so that no row can be changed unseen.

PAGE = 500

_LAST = "SELECT hash FROM audit ORDER BY number DESC LIMIT 1"
_ADD = "INSERT INTO audit (hash, body) VALUES (?, ?)"
_AFTER = "SELECT number, hash, CAST(body AS BLOB) FROM audit WHERE number > ? ORDER BY number LIMIT ?"


def record(c: sqlite3.Connection, *, at: datetime, who: str, what: str, detail: Mapping[str, object]) -> None:
    """In the transaction of the deed: there is no deed without its row, and no row without its deed."""
    entry = {"at": at.isoformat(), "who": who, "what": what, **detail}
    body = json.dumps(entry, sort_keys=True, ensure_ascii=False).encode()
    last = c.execute(_LAST).fetchone()
    c.execute(_ADD, (_chained(last[0] if last else b"", body), body))


def entries(db: Database) -> Iterator[tuple[bytes, bool]]:
    """The bodies, oldest first, each with whether it and its place are as they were written."""
    number, before = 0, b""
    while page := _page(db, number):
        for _, found, body in page:
            yield body, found == _chained(before, body)
            before = found
        number = page[-1][0]


def _page(db: Database, number: int) -> list[tuple[int, bytes, bytes]]:
    with db.read() as c:
        return c.execute(_AFTER, (number, PAGE)).fetchall()


def _chained(before: bytes, body: bytes) -> bytes:
    return hashlib.sha256(before + body).digest()
