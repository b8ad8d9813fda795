"""Creates inboxes as after a month: 96 rows per range, of several densities and subjects."""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.domain.audience.inbox_rows import RANGE_BYTES, SHARD_RANGES

ROWS = 96
"""Number of rows per range."""
WINDOWS = 10
"""Number of inbox windows that the old rows are in. The last one is today's."""
SUBJECTS = ("mention:atlas", "mention:juno", "mention:pallas", "mention:vesta")
"""Subjects of the old rows. New rows sort before, between and after them."""
LENGTHS = (8, 40, 82, 164, RANGE_BYTES)
"""Bytes of members, in turns: from 0.1 % of a range to enough for a bitmap."""

DAY = 86_400_000
"""Milliseconds."""

_FILL = (Path(__file__).parent / "fill_inboxes_with_old_rows.sql").read_text()
_OLD = "CREATE TEMP TABLE old (inbox_window INTEGER, subject TEXT, opened_at INTEGER, seq INTEGER, members BLOB)"
_PRAGMAS = ("synchronous = OFF", "cache_size = -200000", "temp_store = MEMORY")


def prefill(folder: Path, shards: Iterable[int], *, window: int) -> None:
    """Create the files of a data folder and fill the shards.

    Without syncs, because nothing is lost when a benchmark crashes.
    """
    folder.mkdir(parents=True)
    files = Files.at(folder)
    files.migrate()
    files.close()
    for shard in shards:
        _fill(files.inbox(shard).path, shard, window=window)


def _fill(path: Path, shard: int, *, window: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.execute(_OLD)
        connection.executemany("INSERT INTO old VALUES (?, ?, ?, ?, ?)", sorted(_old(window)))
        ranges = range(shard * SHARD_RANGES, (shard + 1) * SHARD_RANGES)
        connection.execute(_FILL, {"ranges": json.dumps(list(ranges))})
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def _old(window: int) -> Iterator[tuple[int, str, int, int, bytes]]:
    """Yield each inbox window's share of the rows, a minute apart, as tuples of the columns."""
    for i in range(ROWS):
        turn, back = divmod(i, WINDOWS)
        number, subject, length = window - back, SUBJECTS[turn % len(SUBJECTS)], LENGTHS[turn % len(LENGTHS)]
        yield number, subject, number * 3 * DAY + i * 60_000, i, os.urandom(length)
