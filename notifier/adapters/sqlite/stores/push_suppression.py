"""Who is to be spared an alert, from core.db: a few index ranges a shard, in one consistent look."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.adapters.sqlite.stores.user_preferences import told_in
from notifier.codec.preferences import spared
from notifier.codec.push import spares
from notifier.codec.timestamps import to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_MEMBERS
from notifier.domain.audience.follows import LEFT
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Kind, Member, Subject
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.ports.push import Spare

_SPARED = statement("spared")
_LATE_BLOCKS = statement("late_blocks")
_EARLIER = statement("earlier_follows")
_OWN_WORDS = """
    SELECT block * 1024 + slot, volume FROM wants
    WHERE subject = :subject AND block / 128 = :shard AND slot < 1024 AND volume_at >= 0
"""


Given = Mapping[str, object]


class SqliteSpared:
    def __init__(self, db: Database) -> None:
        self._db = db

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, Spare]:
        asked = [_given(burst, shard) for shard in shards]
        with self._db.read() as c:
            never = chain.from_iterable(_never(c, given) for given in asked)
            said = spared(chain.from_iterable(told_in(c, shard) for shard in shards), _own_words(c, asked), burst, now)
            return spares(shards, never, said)


def _given(burst: Burst, shard: int) -> Given:
    author = burst.restricted_to
    return {
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


def _never(c: sqlite3.Connection, given: Given) -> Iterator[Member]:
    yield from (Member(member) for (member,) in c.execute(_SPARED, given))
    yield from _of_late_blocks(c, given)


def _of_late_blocks(c: sqlite3.Connection, given: Given) -> Collection[Member]:
    """Those whose whole block follows since after the opening, without those whose own row says since before it."""
    late = {member for row in c.execute(_LATE_BLOCKS, given) for member in _members(*row)}
    return late - {Member(member) for (member,) in c.execute(_EARLIER, given)} if late else late


def _own_words(c: sqlite3.Connection, asked: Iterable[Given]) -> Mapping[Member, Volume]:
    """Of the subject, which go before those of everything."""
    rows = chain.from_iterable(c.execute(_OWN_WORDS, given) for given in asked)
    return {Member(member): Volume(volume) for member, volume in rows}


def _members(block: int, members: bytes) -> Iterator[Member]:
    base = block * BLOCK_MEMBERS
    return (Member(base + slot) for slot in range(BLOCK_MEMBERS) if members[slot // 8] >> slot % 8 & 1)
