"""Stores follows by member block and by subject; the highest sequence wins."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from notifier.adapters.cassandra.driver.batching import Row, put_in_both_tables, put_in_subject_table
from notifier.adapters.cassandra.driver.session import PLAIN, SERIAL, Cluster
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, SHARD_BLOCKS, Bits
from notifier.domain.audience.follows import BlockFollows, BlockKey, Follow, FollowRow, followers, is_following
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Member, Subject
from notifier.ports.audience import Pair

# The sequence is the write timestamp: the highest wins regardless of arrival order. On a tie the larger value wins,
# which is the later `visible_from`.
_WRITE = "INSERT INTO follows (block, slot, subject, visible_from) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_WRITE_OF_SUBJECT = """
    INSERT INTO follows_by_subject (subject, shard, block, slot, visible_from) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?
"""
_PUT_BLOCK = "INSERT INTO follows (block, slot, subject, visible_from, members) VALUES (?, ?, ?, ?, ?)"
_SETTLE_BLOCK = f"{_PUT_BLOCK} IF NOT EXISTS"
_PUT_OF_SUBJECT = """
    INSERT INTO follows_by_subject (subject, shard, block, slot, visible_from, members) VALUES (?, ?, ?, ?, ?, ?)
"""
_BLOCK = "SELECT visible_from, members FROM follows WHERE block = ? AND slot = ? AND subject = ?"
_READ_CURRENT = "SELECT block, slot, visible_from, members FROM follows WHERE block = ? AND slot IN ? AND subject = ?"
_OF_SHARD = "SELECT block, slot, visible_from, members FROM follows_by_subject WHERE subject = ? AND shard = ?"


class CassandraFollows:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, follows: Collection[Follow]) -> None:
        # Write the subject table first, as an import does: push suppression then sees a new follow no later than the
        # inbox does. After an interruption the caller writes both again.
        self._cluster.query_each(_WRITE_OF_SUBJECT, [_subject_columns(follow) for follow in follows])
        self._cluster.query_each(_WRITE, [_block_columns(follow) for follow in follows])

    def write_blocks(self, follows: Iterable[BlockFollows]) -> None:
        put_in_both_tables(self._cluster, (_PUT_OF_SUBJECT, _PUT_BLOCK), map(_row_pair, follows))

    def insert_blocks(self, follows: Collection[BlockFollows]) -> Mapping[BlockKey, BlockFollows]:
        # The block table decides, and its result is written to the subject table. After an interruption the caller
        # settles the rows again, and gets the existing ones.
        existing = self._blocks([follow.key for follow in follows])
        new = [follow for follow in follows if follow.key not in existing]
        decided = self._cluster.compare_and_set_each((_SETTLE_BLOCK, _of_place(follow)) for follow in new)
        lost = [follow.key for follow, won in zip(new, decided, strict=True) if not won]
        existing |= self._blocks(lost, SERIAL)
        if any(place not in existing for place in lost):
            raise StoreUnavailable("Unknown whether a row of a block was written.")
        put_in_subject_table(
            self._cluster, _PUT_OF_SUBJECT, [_of_shard(existing.get(follow.key, follow)) for follow in follows]
        )
        return existing

    def _blocks(self, places: Sequence[BlockKey], profile: object = PLAIN) -> dict[BlockKey, BlockFollows]:
        questions = [(block, BLOCK_SLOT, str(subject)) for subject, block in places]
        answers = zip(places, self._cluster.query_each(_BLOCK, questions, profile=profile), strict=True)
        return {place: _block(place, row) for place, rows in answers for row in rows}

    def read_current(self, pairs: Collection[Pair]) -> Mapping[Pair, bool]:
        by_block: defaultdict[tuple[int, Subject], list[Member]] = defaultdict(list)
        for subject, member in pairs:
            by_block[member // BLOCK_MEMBERS, subject].append(member)
        questions = [
            (block, [*sorted(member % BLOCK_MEMBERS for member in members), BLOCK_SLOT], str(subject))
            for (block, subject), members in by_block.items()
        ]
        states: dict[Pair, bool] = {}
        for ((_, subject), members), rows in zip(
            by_block.items(), self._cluster.query_each(_READ_CURRENT, questions), strict=True
        ):
            stored = [_stored(row) for row in rows]
            states |= {(subject, member): is_following(member % BLOCK_MEMBERS, stored) for member in members}
        return {pair: states[pair] for pair in pairs}

    def followers(self, subject: Subject, shard: int) -> Bits:
        return followers(_stored(row) for row in self._cluster.query(_OF_SHARD, (str(subject), shard)))


def _block_columns(follow: Follow) -> tuple[object, ...]:
    block, slot = divmod(follow.member, BLOCK_MEMBERS)
    return block, slot, str(follow.subject), to_ms(follow.visible_from), follow.sequence


def _subject_columns(follow: Follow) -> tuple[object, ...]:
    block, *columns = _block_columns(follow)
    return (
        str(follow.subject),
        follow.member // (BLOCK_MEMBERS * SHARD_BLOCKS),
        block,
        columns[0],
        columns[2],
        columns[3],
    )


def _row_pair(follow: BlockFollows) -> tuple[Row, Row]:
    return _of_shard(follow), _of_place(follow)


def _of_place(follow: BlockFollows) -> Row:
    return follow.block, BLOCK_SLOT, str(follow.subject), to_ms(follow.visible_from), follow.members


def _of_shard(follow: BlockFollows) -> Row:
    block, slot, subject, since, members = _of_place(follow)
    return subject, follow.block // SHARD_BLOCKS, block, slot, since, members


def _block(place: BlockKey, row: Any) -> BlockFollows:
    subject, block = place
    return BlockFollows(subject=subject, block=block, visible_from=from_ms(row.visible_from), members=row.members)


def _stored(row: Any) -> FollowRow:
    return FollowRow(block=row.block, slot=row.slot, visible_from=from_ms(row.visible_from), members=row.members)
