"""The inbox files, written: a shard's rows in the order of the key."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain, repeat

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.sweep import Sweep
from notifier.codec.moments import to_ms
from notifier.domain.audience.inbox_rows import InboxRows, window_of

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
