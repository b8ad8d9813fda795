"""Who is to be spared an alert, from core.db: a few index ranges a shard, in one consistent look."""

import sqlite3
from collections.abc import Iterator
from datetime import datetime

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.overalls import told_in
from notifier.adapters.sqlite.statements import statement
from notifier.codec.moments import to_ms
from notifier.codec.overalls import spared
from notifier.domain.bits import BLOCK_MEMBERS, SHARD_BLOCKS, SHARD_MEMBERS, Bits, from_offsets, nobody
from notifier.domain.burst import Burst
from notifier.domain.follow import LEFT
from notifier.domain.subject import Kind, Member, Subject
from notifier.domain.want import NEVER, Volume

_SPARED = statement("spared")
_LATE_BLOCKS = statement("late_blocks")
_EARLIER = statement("earlier_follows")
_OWN_WORDS = """
    SELECT block * 1024 + slot, volume FROM wants
    WHERE subject = :subject AND block / 128 = :shard AND slot < 1024 AND volume_at >= 0
"""


class SqliteSpared:
    def __init__(self, db: Database) -> None:
        self._db = db

    def read(self, burst: Burst, shard: int, now: datetime) -> Bits:
        author = burst.restricted_to
        given = {
            "subject": str(burst.key.subject),
            "seq": burst.key.seq,
            "opened_at": to_ms(burst.opened_at),
            "first_of_day": burst.first_of_day,
            "opener": burst.opener,
            "owner": burst.key.subject.owner,
            "never": to_ms(NEVER),
            "author": None if author is None else str(Subject(Kind.MENTION, author)),
            "left": to_ms(LEFT),
            "shard": shard,
            "first": shard * SHARD_MEMBERS,
            "last": (shard + 1) * SHARD_MEMBERS - 1,
        }
        with self._db.read() as c:
            places = {member % SHARD_MEMBERS for (member,) in c.execute(_SPARED, given)}
            places |= _of_late_blocks(c, given)
            places |= _of_everything(c, given, burst, now)
        return from_offsets(places) if places else nobody()


def _of_late_blocks(c: sqlite3.Connection, given: dict[str, object]) -> set[int]:
    """Those whose whole block follows since after the opening, without those whose own row says since before it."""
    late = {place for row in c.execute(_LATE_BLOCKS, given) for place in _places(*row)}
    return late - {member % SHARD_MEMBERS for (member,) in c.execute(_EARLIER, given)} if late else late


def _of_everything(c: sqlite3.Connection, given: dict[str, object], burst: Burst, now: datetime) -> set[int]:
    """Those whom what they say of everything spares it, where the subject has no word of theirs that says otherwise."""
    own = {Member(member): Volume(volume) for member, volume in c.execute(_OWN_WORDS, given)}
    return {member % SHARD_MEMBERS for member in spared(told_in(c, int(str(given["shard"]))), own, burst, now)}


def _places(block: int, members: bytes) -> Iterator[int]:
    base = block % SHARD_BLOCKS * BLOCK_MEMBERS
    return (base + slot for slot in range(BLOCK_MEMBERS) if members[slot // 8] >> slot % 8 & 1)
