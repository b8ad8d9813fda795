"""Who is to be spared an alert, from core.db: a few index ranges a shard, in one consistent look."""

import sqlite3
from collections.abc import Iterator

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.codec.moments import to_ms
from notifier.domain.bits import BLOCK_MEMBERS, SHARD_BLOCKS, SHARD_MEMBERS, Bits, from_offsets, nobody
from notifier.domain.burst import Burst
from notifier.domain.follow import LEFT
from notifier.domain.subject import Kind, Subject

_SPARED = statement("spared")
_LATE_BLOCKS = statement("late_blocks")
_EARLIER = statement("earlier_follows")


class SqliteSpared:
    def __init__(self, db: Database) -> None:
        self._db = db

    def read(self, burst: Burst, shard: int) -> Bits:
        author = burst.restricted_to
        given = {
            "subject": str(burst.key.subject),
            "seq": burst.key.seq,
            "opened_at": to_ms(burst.opened_at),
            "first_of_day": burst.first_of_day,
            "opener": burst.opener,
            "author": None if author is None else str(Subject(Kind.MENTION, author)),
            "left": to_ms(LEFT),
            "shard": shard,
            "first": shard * SHARD_MEMBERS,
            "last": (shard + 1) * SHARD_MEMBERS - 1,
        }
        with self._db.read() as c:
            places = {member % SHARD_MEMBERS for (member,) in c.execute(_SPARED, given)}
            places |= _of_late_blocks(c, given)
        return from_offsets(places) if places else nobody()


def _of_late_blocks(c: sqlite3.Connection, given: dict[str, object]) -> set[int]:
    """Those whose whole block follows since after the opening, without those whose own row says since before it."""
    late = {place for row in c.execute(_LATE_BLOCKS, given) for place in _places(*row)}
    return late - {member % SHARD_MEMBERS for (member,) in c.execute(_EARLIER, given)} if late else late


def _places(block: int, members: bytes) -> Iterator[int]:
    base = block % SHARD_BLOCKS * BLOCK_MEMBERS
    return (base + slot for slot in range(BLOCK_MEMBERS) if members[slot // 8] >> slot % 8 & 1)
