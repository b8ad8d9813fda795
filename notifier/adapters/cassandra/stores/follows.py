"""Stores follows by member block and by subject."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from notifier.adapters.cassandra.driver.batching import Row, put_by_partition, put_in_both_tables
from notifier.adapters.cassandra.driver.session import PLAIN, SERIAL, Cluster
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_BLOCKS, WHOLE_BLOCK_SLOT, Bits
from notifier.domain.audience.follows import BlockFollows, BlockKey, Follow, FollowRow, followers, is_following
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Member, Subject
from notifier.ports.audience import SubjectAndMember

# The sequence of a follow is the write timestamp: the highest wins regardless of arrival order. On a tie the larger
# value wins, which is the later `visible_from`. Rows of whole blocks have no sequence.
_WRITE_FOLLOW = "INSERT INTO follows (block, slot, subject, visible_from) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_WRITE_FOLLOW_BY_SUBJECT = """
    INSERT INTO follows_by_subject (subject, shard, block, slot, visible_from) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?
"""
_PUT_BLOCK_FOLLOWS = "INSERT INTO follows (block, slot, subject, visible_from, members) VALUES (?, ?, ?, ?, ?)"
_INSERT_BLOCK_FOLLOWS = f"{_PUT_BLOCK_FOLLOWS} IF NOT EXISTS"
_PUT_BLOCK_FOLLOWS_BY_SUBJECT = """
    INSERT INTO follows_by_subject (subject, shard, block, slot, visible_from, members) VALUES (?, ?, ?, ?, ?, ?)
"""
_SELECT_BLOCK_FOLLOWS = "SELECT visible_from, members FROM follows WHERE block = ? AND slot = ? AND subject = ?"
_SELECT_FOLLOWS = "SELECT block, slot, visible_from, members FROM follows WHERE block = ? AND slot IN ? AND subject = ?"
_SELECT_FOLLOWS_OF_SHARD = (
    "SELECT block, slot, visible_from, members FROM follows_by_subject WHERE subject = ? AND shard = ?"
)


class CassandraFollows:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, follows: Collection[Follow]) -> None:
        # Write the subject table first, as `put_in_both_tables` does: push suppression then sees a new follow no later
        # than the inbox does. After an interruption the caller writes both tables again.
        self._cluster.query_each(_WRITE_FOLLOW_BY_SUBJECT, [_subject_table_parameters(follow) for follow in follows])
        self._cluster.query_each(_WRITE_FOLLOW, [_block_table_parameters(follow) for follow in follows])

    def write_blocks(self, follows: Iterable[BlockFollows]) -> None:
        put_in_both_tables(self._cluster, (_PUT_BLOCK_FOLLOWS_BY_SUBJECT, _PUT_BLOCK_FOLLOWS), map(_row_pair, follows))

    def insert_blocks(self, follows: Collection[BlockFollows]) -> Mapping[BlockKey, BlockFollows]:
        # In the block table a compare-and-set keeps the first row of each subject and member block. Then write the kept
        # rows to the subject table. After an interruption the caller inserts the rows again, and gets the kept ones.
        existing = self._read_block_follows([follow.key for follow in follows])
        new = [follow for follow in follows if follow.key not in existing]
        applied = self._cluster.compare_and_set_each(
            (_INSERT_BLOCK_FOLLOWS, _block_table_row(follow)) for follow in new
        )
        not_inserted = [follow.key for follow, was_applied in zip(new, applied, strict=True) if not was_applied]
        existing |= self._read_block_follows(not_inserted, SERIAL)
        if any(key not in existing for key in not_inserted):
            raise StoreUnavailable("Unknown whether a row of a block was written.")
        put_by_partition(
            self._cluster,
            _PUT_BLOCK_FOLLOWS_BY_SUBJECT,
            [_subject_table_row(existing.get(follow.key, follow)) for follow in follows],
        )
        return existing

    def _read_block_follows(self, keys: Sequence[BlockKey], profile: object = PLAIN) -> dict[BlockKey, BlockFollows]:
        queries = [(block, WHOLE_BLOCK_SLOT, str(subject)) for subject, block in keys]
        results = zip(keys, self._cluster.query_each(_SELECT_BLOCK_FOLLOWS, queries, profile=profile), strict=True)
        return {key: _block_follows(key, row) for key, rows in results for row in rows}

    def read_current(self, pairs: Collection[SubjectAndMember]) -> Mapping[SubjectAndMember, bool]:
        by_block: defaultdict[tuple[int, Subject], list[Member]] = defaultdict(list)
        for subject, member in pairs:
            by_block[member // BLOCK_MEMBERS, subject].append(member)
        queries = [
            (block, [*sorted(member % BLOCK_MEMBERS for member in members), WHOLE_BLOCK_SLOT], str(subject))
            for (block, subject), members in by_block.items()
        ]
        following: dict[SubjectAndMember, bool] = {}
        for ((_, subject), members), rows in zip(
            by_block.items(), self._cluster.query_each(_SELECT_FOLLOWS, queries), strict=True
        ):
            follow_rows = [_follow_row(row) for row in rows]
            following |= {(subject, member): is_following(member % BLOCK_MEMBERS, follow_rows) for member in members}
        return {pair: following[pair] for pair in pairs}

    def followers(self, subject: Subject, shard: int) -> Bits:
        return followers(
            _follow_row(row) for row in self._cluster.query(_SELECT_FOLLOWS_OF_SHARD, (str(subject), shard))
        )


def _block_table_parameters(follow: Follow) -> tuple[object, ...]:
    block, slot = divmod(follow.member, BLOCK_MEMBERS)
    return block, slot, str(follow.subject), to_ms(follow.visible_from), follow.sequence


def _subject_table_parameters(follow: Follow) -> tuple[object, ...]:
    block, slot, subject, visible_from, sequence = _block_table_parameters(follow)
    return subject, follow.member // (BLOCK_MEMBERS * SHARD_BLOCKS), block, slot, visible_from, sequence


def _row_pair(follow: BlockFollows) -> tuple[Row, Row]:
    return _subject_table_row(follow), _block_table_row(follow)


def _block_table_row(follow: BlockFollows) -> Row:
    return follow.block, WHOLE_BLOCK_SLOT, str(follow.subject), to_ms(follow.visible_from), follow.members


def _subject_table_row(follow: BlockFollows) -> Row:
    block, slot, subject, visible_from, members = _block_table_row(follow)
    return subject, follow.block // SHARD_BLOCKS, block, slot, visible_from, members


def _block_follows(key: BlockKey, row: Any) -> BlockFollows:
    subject, block = key
    return BlockFollows(subject=subject, block=block, visible_from=from_ms(row.visible_from), members=row.members)


def _follow_row(row: Any) -> FollowRow:
    return FollowRow(block=row.block, slot=row.slot, visible_from=from_ms(row.visible_from), members=row.members)
