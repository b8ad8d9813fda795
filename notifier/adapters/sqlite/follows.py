"""Follows in core.db: a member's own rows, and the blocks' that they override."""

from collections.abc import Collection, Iterable, Mapping

from notifier.adapters.sqlite.batches import batches
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.bits import BLOCK_MEMBERS, Bits
from notifier.domain.block import BLOCK_SLOT
from notifier.domain.follow import BlockFollows, Follow, FollowRow, Place, followers, stands
from notifier.domain.subject import Subject
from notifier.ports.follows import Pair

BATCH = 256
"""Rows in a transaction, so that an import of any size lets others in."""

_WRITE = statement("follow")
_PUT_BLOCK = "INSERT OR REPLACE INTO follows (block, slot, subject, visible_from, members) VALUES (?, ?, ?, ?, ?)"
_BLOCK = "SELECT visible_from, members FROM follows WHERE block = ? AND slot = ? AND subject = ?"
_STANDING = """
    SELECT block, slot, visible_from, members FROM follows WHERE block = ? AND slot IN (?, ?) AND subject = ?
"""
_OF_SHARD = "SELECT block, slot, visible_from, members FROM follows WHERE subject = ? AND block / 128 = ?"


class SqliteFollows:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, follows: Collection[Follow]) -> None:
        if not follows:
            return
        with self._db.write() as c:
            c.executemany(_WRITE, [_row(word) for word in follows])

    def write_blocks(self, follows: Iterable[BlockFollows]) -> None:
        rows = ((f.block, BLOCK_SLOT, str(f.subject), to_ms(f.visible_from), f.members) for f in follows)
        for some in batches(rows, BATCH):
            with self._db.write() as c:
                c.executemany(_PUT_BLOCK, some)

    def blocks(self, places: Collection[Place]) -> Mapping[Place, BlockFollows]:
        found: dict[Place, BlockFollows] = {}
        with self._db.read() as c:
            for subject, block in places:
                for since, members in c.execute(_BLOCK, (block, BLOCK_SLOT, str(subject))):
                    found[subject, block] = BlockFollows(
                        subject=subject, block=block, visible_from=from_ms(since), members=members
                    )
        return found

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, bool]:
        with self._db.read() as c:
            found: dict[Pair, bool] = {}
            for subject, member in pairs:
                block, slot = divmod(member, BLOCK_MEMBERS)
                rows = map(_stored, c.execute(_STANDING, (block, slot, BLOCK_SLOT, str(subject))))
                found[subject, member] = stands(slot, rows)
            return found

    def followers(self, subject: Subject, shard: int) -> Bits:
        with self._db.read() as c:
            return followers(map(_stored, c.execute(_OF_SHARD, (str(subject), shard))))


def _row(word: Follow) -> tuple[object, ...]:
    block, slot = divmod(word.member, BLOCK_MEMBERS)
    return block, slot, str(word.subject), to_ms(word.visible_from), word.sequence


def _stored(row: tuple[int, int, int, bytes | None]) -> FollowRow:
    block, slot, visible_from, members = row
    return FollowRow(block=block, slot=slot, visible_from=from_ms(visible_from), members=members)
