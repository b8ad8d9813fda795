"""Wants: each in two tables, by the member's block and by subject, of which what was said last stands by itself."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.together import Row
from notifier.adapters.cassandra.twofold import put_twofold
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.audience import SetKind
from notifier.domain.bits import BLOCK_MEMBERS, SHARD_BLOCKS, Bits, shard_of
from notifier.domain.block import BLOCK_SLOT
from notifier.domain.subject import Member, Subject
from notifier.domain.want import BlockMute, Volume, Want, standing, wanting
from notifier.ports.wants import Pair

# The moment is the write timestamp: what was said last stands, in whatever order the words come. A word is one cell, so
# that of two of the same millisecond one stands as a whole.
WRITE = "INSERT INTO wants (block, slot, subject, word) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
WRITE_OF_SUBJECT = """
    INSERT INTO wants_of_subject (subject, shard, block, slot, word) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?
"""
OF_MEMBER = "SELECT slot, subject, word, WRITETIME(word) AS at, members FROM wants WHERE block = ? AND slot IN ?"
_MUTE = "INSERT INTO wants (block, slot, subject, members) VALUES (?, ?, ?, ?)"
_MUTE_OF_SUBJECT = "INSERT INTO wants_of_subject (subject, shard, block, slot, members) VALUES (?, ?, ?, ?, ?)"
_OF_PAIRS = "SELECT slot, word, WRITETIME(word) AS at FROM wants WHERE block = ? AND slot IN ? AND subject = ?"
_OF_SHARD = """
    SELECT block, slot, word, WRITETIME(word) AS at, members FROM wants_of_subject WHERE subject = ? AND shard = ?
"""

_MICROSECONDS = 1_000
"""In a millisecond: what Cassandra counts write timestamps in."""


class CassandraWants:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, words: Collection[Want]) -> None:
        # By subject first: a phone is silent no later than the list. Cut off in between, the caller writes both again.
        self._cluster.ask_each(WRITE_OF_SUBJECT, [of_subject(word) for word in words])
        self._cluster.ask_each(WRITE, [of_block(word) for word in words])

    def write_mutes(self, mutes: Iterable[BlockMute]) -> None:
        put_twofold(self._cluster, (_MUTE_OF_SUBJECT, _MUTE), map(_mute, mutes))

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, Want]:
        asked: defaultdict[tuple[int, Subject], list[int]] = defaultdict(list)
        for subject, member in pairs:
            asked[member // BLOCK_MEMBERS, subject].append(member % BLOCK_MEMBERS)
        questions = [(block, sorted(slots), str(subject)) for (block, subject), slots in asked.items()]
        answers = zip(asked, self._cluster.ask_each(_OF_PAIRS, questions), strict=True)
        words = [_word(block, subject, row) for (block, subject), rows in answers for row in rows]
        return {(word.subject, word.member): word for word in words}

    def sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        rows = self._cluster.ask(_OF_SHARD, (str(subject), shard))
        mutes = [BlockMute(subject=subject, block=r.block, members=r.members) for r in rows if r.slot == BLOCK_SLOT]
        return wanting([_word(row.block, subject, row) for row in rows if row.slot < BLOCK_SLOT], mutes)


def of_block(word: Want) -> Row:
    block, slot = divmod(word.member, BLOCK_MEMBERS)
    said = str(word.volume), to_ms(word.visible_from)
    return block, slot, str(word.subject), said, to_ms(word.at) * _MICROSECONDS


def of_subject(word: Want) -> Row:
    block, slot, subject, said, at = of_block(word)
    return subject, shard_of(word.member), block, slot, said, at


def _mute(mute: BlockMute) -> tuple[Row, Row]:
    subject, block, members = str(mute.subject), mute.block, mute.members
    return (subject, block // SHARD_BLOCKS, block, BLOCK_SLOT, members), (block, BLOCK_SLOT, subject, members)


def wants_of(member: Member, rows: Iterable[Any]) -> Mapping[Subject, Want]:
    """By the answer to OF_MEMBER."""
    block, own, mutes = member // BLOCK_MEMBERS, list[Want](), list[BlockMute]()
    for row in rows:
        subject = Subject.parse(row.subject)
        if row.slot == BLOCK_SLOT:
            mutes.append(BlockMute(subject=subject, block=block, members=row.members))
        else:
            own.append(_word(block, subject, row))
    return standing(member, own, mutes)


def _word(block: int, subject: Subject, row: Any) -> Want:
    volume, visible_from = row.word
    return Want(
        subject=subject,
        member=Member(block * BLOCK_MEMBERS + row.slot),
        at=from_ms(row.at // _MICROSECONDS),
        volume=Volume(volume),
        visible_from=from_ms(visible_from),
    )
