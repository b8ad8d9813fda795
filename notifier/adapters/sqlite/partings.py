"""Who blocks whom in core.db: a row on each side, both in one transaction."""

import sqlite3
from collections.abc import Collection

from notifier.adapters.sqlite.batches import batches
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.parting import Apart, Half, Parting, apart
from notifier.domain.subject import Member, UserId

BATCH = 4_096
"""Pairs in a transaction, so that many of them let others in."""

_WRITE = statement("part")
_OF_MEMBER = "SELECT other, until FROM partings WHERE member = ?"


class SqlitePartings:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, partings: Collection[Parting]) -> None:
        for some in batches(partings, BATCH):
            with self._db.write() as c:
                c.executemany(_WRITE, [_row(half) for parting in some for half in parting.halves])


def apart_in(c: sqlite3.Connection, member: Member) -> Apart:
    return apart((UserId(other), from_ms(until)) for other, until in c.execute(_OF_MEMBER, (member,)))


def _row(half: Half) -> tuple[object, ...]:
    return half.member, half.other, str(half.side), to_ms(half.until), half.sequence
