"""Who blocks whom in core.db: a row on each side, both in one transaction."""

import json
import sqlite3
from collections.abc import Collection, Iterable

from notifier.adapters.sqlite.batches import batches
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.user_blocks import Apart, Half, Parting, apart, owners

BATCH = 4_096
"""Pairs in a transaction, so that many of them let others in."""

_WRITE = statement("part")
_OWN = "SELECT other, until FROM partings WHERE member = ? AND side = 'blocks'"
_OTHERS = "SELECT other, until FROM partings WHERE member = ? AND side = 'blocked_by' ORDER BY other LIMIT ?"
_BY_NAME = """
    SELECT other, until FROM partings
    WHERE member = ? AND side = 'blocked_by' AND other IN (SELECT value FROM json_each(?))
"""


class SqlitePartings:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, partings: Collection[Parting]) -> None:
        for some in batches(partings, BATCH):
            with self._db.write() as c:
                c.executemany(_WRITE, [_row(half) for parting in some for half in parting.halves])


def apart_in(c: sqlite3.Connection, member: Member, follows: Iterable[Subject], most: int) -> Apart:
    """Of more than `most` who block the member, these and those whom the member follows."""
    rows, others = c.execute(_OWN, (member,)).fetchall(), c.execute(_OTHERS, (member, most)).fetchall()
    if len(others) == most:
        others += c.execute(_BY_NAME, (member, json.dumps(owners(follows)))).fetchall()
    return apart((UserId(other), from_ms(until)) for other, until in (*rows, *others))


def _row(half: Half) -> tuple[object, ...]:
    return half.member, half.other, str(half.side), to_ms(half.until), half.sequence
