"""Inboxes as they are after a month: 30 member rows a person, or 24 block rows a block, in files of their own."""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from notifier.adapters.sqlite.files import Files
from notifier.domain.bits import BLOCK_BYTES, BLOCK_MEMBERS, SHARD_BLOCKS
from notifier.domain.block import BLOCK_SLOT

MEMBER_ROWS = 30
BLOCK_ROWS = 24
WINDOWS = 10
"""Inbox windows that the old rows lie in, the last of them today's."""

DAY = 86_400_000
"""Milliseconds."""

_FILL = (Path(__file__).parent / "prefill.sql").read_text()
_PRAGMAS = ("synchronous = OFF", "cache_size = -200000", "temp_store = MEMORY")


def prefill(folder: Path, shards: Iterable[int], *, window: int, member_rows: bool) -> None:
    """Makes the files of a data folder and fills the shards.

    Without syncs, because nothing is lost when a benchmark crashes.
    """
    folder.mkdir(parents=True)
    files = Files.at(folder)
    files.migrate()
    files.close()
    for shard in shards:
        _fill(files.inbox(shard).path, shard, window=window, member_rows=member_rows)


def _fill(path: Path, shard: int, *, window: int, member_rows: bool) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("CREATE TEMP TABLE times (inbox_window INTEGER, opened_at INTEGER)")
        rows = MEMBER_ROWS if member_rows else BLOCK_ROWS
        connection.executemany("INSERT INTO times VALUES (?, ?)", _times(window, rows))
        blocks = range(shard * SHARD_BLOCKS, (shard + 1) * SHARD_BLOCKS)
        slots = range(BLOCK_MEMBERS) if member_rows else [BLOCK_SLOT]
        where = {"blocks": json.dumps(list(blocks)), "slots": json.dumps(list(slots))}
        connection.execute(_FILL, where | {"members": None if member_rows else os.urandom(BLOCK_BYTES)})
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def _times(window: int, rows: int) -> Iterator[tuple[int, int]]:
    """Each inbox window's share of the rows, a minute apart."""
    for i in range(rows):
        number = window - i % WINDOWS
        yield number, number * 3 * DAY + i * 60_000
