"""Stores follows in core.db.

One row can hold the follows of many members of a block, as a bitmap. A member's own row overrides it.
"""

import sqlite3
from collections.abc import Collection, Iterable, Mapping

from notifier.adapters.sqlite.connections_and_transactions import Database, batches
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, WHOLE_BLOCK_SLOT, Bits
from notifier.domain.audience.follows import BlockFollows, BlockKey, Follow, FollowRow, followers, is_following
from notifier.domain.ids import Subject
from notifier.ports.audience import SubjectAndMember

BLOCKS_PER_TRANSACTION, FOLLOWS_PER_TRANSACTION = 256, 4_096

_PUT_FOLLOW = load_statement("put_follow")
_PUT_BLOCK = "INSERT OR REPLACE INTO follows (block, slot, subject, visible_from, members) VALUES (?, ?, ?, ?, ?)"
_INSERT_BLOCK = "INSERT INTO follows (block, slot, subject, visible_from, members) VALUES (?, ?, ?, ?, ?)"
_SELECT_BLOCK = "SELECT visible_from, members FROM follows WHERE block = ? AND slot = ? AND subject = ?"
_SELECT_FOLLOWS = """
    SELECT block, slot, visible_from, members FROM follows WHERE block = ? AND slot IN (?, ?) AND subject = ?
"""
# A shard has 128 blocks.
_SELECT_FOLLOWS_OF_SHARD = (
    "SELECT block, slot, visible_from, members FROM follows WHERE subject = ? AND block / 128 = ?"
)


class SqliteFollows:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, follows: Collection[Follow]) -> None:
        for batch in batches(map(_follow_parameters, follows), FOLLOWS_PER_TRANSACTION):
            with self._db.write() as c:
                c.executemany(_PUT_FOLLOW, batch)

    def write_blocks(self, follows: Iterable[BlockFollows]) -> None:
        for batch in batches(map(_block_parameters, follows), BLOCKS_PER_TRANSACTION):
            with self._db.write() as c:
                c.executemany(_PUT_BLOCK, batch)

    def insert_blocks(self, follows: Collection[BlockFollows]) -> Mapping[BlockKey, BlockFollows]:
        existing: dict[BlockKey, BlockFollows] = {}
        for batch in batches(follows, BLOCKS_PER_TRANSACTION):
            with self._db.write() as c:
                existing |= {follow.key: stored for follow in batch if (stored := _read_block(c, follow.key))}
                c.executemany(
                    _INSERT_BLOCK, [_block_parameters(follow) for follow in batch if follow.key not in existing]
                )
        return existing

    def read_current(self, pairs: Collection[SubjectAndMember]) -> Mapping[SubjectAndMember, bool]:
        with self._db.read() as c:
            states: dict[SubjectAndMember, bool] = {}
            for subject, member in pairs:
                block, slot = divmod(member, BLOCK_MEMBERS)
                rows = map(_follow_row, c.execute(_SELECT_FOLLOWS, (block, slot, WHOLE_BLOCK_SLOT, str(subject))))
                states[subject, member] = is_following(slot, rows)
            return states

    def followers(self, subject: Subject, shard: int) -> Bits:
        with self._db.read() as c:
            return followers(map(_follow_row, c.execute(_SELECT_FOLLOWS_OF_SHARD, (str(subject), shard))))


def _read_block(c: sqlite3.Connection, key: BlockKey) -> BlockFollows | None:
    subject, block = key
    row = c.execute(_SELECT_BLOCK, (block, WHOLE_BLOCK_SLOT, str(subject))).fetchone()
    return row and BlockFollows(subject=subject, block=block, visible_from=from_ms(row[0]), members=row[1])


def _block_parameters(follow: BlockFollows) -> tuple[object, ...]:
    return follow.block, WHOLE_BLOCK_SLOT, str(follow.subject), to_ms(follow.visible_from), follow.members


def _follow_parameters(follow: Follow) -> tuple[object, ...]:
    block, slot = divmod(follow.member, BLOCK_MEMBERS)
    return block, slot, str(follow.subject), to_ms(follow.visible_from), follow.sequence


def _follow_row(row: tuple[int, int, int, bytes | None]) -> FollowRow:
    block, slot, visible_from, members = row
    return FollowRow(block=block, slot=slot, visible_from=from_ms(visible_from), members=members)
