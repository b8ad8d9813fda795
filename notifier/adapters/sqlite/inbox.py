"""The inbox files, written: bitmaps become rows by slicing, and no Python runs for a single row."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, repeat

import numpy as np

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.sweep import Sweep
from notifier.codec.moments import to_ms
from notifier.domain.bits import BLOCK_BYTES, BLOCK_MEMBERS
from notifier.domain.block import BLOCK_SLOT, Rows, window_of

SHARDS_AT_ONCE = 16
ROWS_AT_ONCE = 2_000
"""In one transaction: 20 to 40 ms, so that a tier in a hurry gets its turn soon."""

# Not OR REPLACE: the same row again then dirties no page.
_INSERT = "INSERT OR IGNORE INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

Values = tuple[int, int, int, int, str, int, str, bytes | None]
"""As the columns are: block, inbox window, slot, opened at, subject, seq, tier, members."""


class SqliteInbox:
    def __init__(self, inboxes: Sequence[Database]) -> None:
        self._inboxes = inboxes
        self._sweeps = [Sweep(db) for db in inboxes]

    def write(self, rows: Sequence[Rows], going: Callable[[], None] = lambda: None) -> None:
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


def _by_file(rows: Sequence[Rows], files: int) -> dict[int, list[Rows]]:
    found: dict[int, list[Rows]] = defaultdict(list)
    for one in sorted(rows, key=lambda one: one.shard):
        if one.written:
            found[one.shard % files].append(one)
    return found


def _batches(rows: Sequence[Rows]) -> Iterator[list[Rows]]:
    batch: list[Rows] = []
    written = 0
    for one in rows:
        if batch and (len(batch) == SHARDS_AT_ONCE or written + one.written > ROWS_AT_ONCE):
            yield batch
            batch, written = [], 0
        batch.append(one)
        written += one.written
    if batch:
        yield batch


def _values(rows: Rows) -> Iterator[Values]:
    return chain(_block_rows(rows), _member_rows(rows))


def _block_rows(rows: Rows) -> Iterator[Values]:
    bitmaps = [rows.bitmaps[at : at + BLOCK_BYTES] for at in range(0, len(rows.bitmaps), BLOCK_BYTES)]
    return _rows(rows, rows.blocks.tolist(), repeat(BLOCK_SLOT), bitmaps)


def _member_rows(rows: Rows) -> Iterator[Values]:
    blocks, slots = np.divmod(rows.members, BLOCK_MEMBERS)
    return _rows(rows, blocks.tolist(), slots.tolist(), repeat(None))


def _rows(rows: Rows, blocks: list[int], slots: Iterable[int], members: Iterable[bytes | None]) -> Iterator[Values]:
    return zip(
        blocks,
        repeat(window_of(rows.opened_at)),
        slots,
        repeat(to_ms(rows.opened_at)),
        repeat(str(rows.burst.subject)),
        repeat(rows.burst.seq),
        repeat(str(rows.tier)),
        members,
        strict=False,
    )
