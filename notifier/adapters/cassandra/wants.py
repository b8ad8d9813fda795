"""Wants: each in two tables, by the member's block and by subject, of which what was said last stands by itself."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.together import Row
from notifier.adapters.cassandra.twofold import put_twofold
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, SHARD_BLOCKS, Bits, shard_of
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member, Subject
from notifier.domain.users.subject_preferences import BlockMute, Volume, Want, Word, standing, wanting
from notifier.ports.user_preferences import Pair

# The moment is the write timestamp of what the word is about: what was said last of it stands, in whatever order they
# come. What it isn't about is left alone.
_ABOUT: tuple[tuple[str, ...], ...] = (("volume",), ("visible_from",), ("volume", "visible_from"))
WRITE = {
    of: f"INSERT INTO wants (block, slot, subject, {', '.join(of)}) VALUES (?, ?, ?, {', '.join('?' * len(of))})"
    " USING TIMESTAMP ?"
    for of in _ABOUT
}
WRITE_OF_SUBJECT = {
    of: f"INSERT INTO wants_of_subject (block, slot, subject, {', '.join(of)}, shard)"
    f" VALUES (?, ?, ?, {', '.join('?' * len(of))}, ?) USING TIMESTAMP ?"
    for of in _ABOUT
}
_SAID = "volume, visible_from, WRITETIME(volume) AS volume_at, WRITETIME(visible_from) AS visible_from_at"
OF_MEMBER = f"SELECT slot, subject, members, {_SAID} FROM wants WHERE block = ? AND slot IN ?"
_MUTE = "INSERT INTO wants (block, slot, subject, members) VALUES (?, ?, ?, ?)"
_MUTE_OF_SUBJECT = "INSERT INTO wants_of_subject (subject, shard, block, slot, members) VALUES (?, ?, ?, ?, ?)"
_OF_PAIRS = f"SELECT slot, {_SAID} FROM wants WHERE block = ? AND slot IN ? AND subject = ?"
_OF_SHARD = f"SELECT block, slot, members, {_SAID} FROM wants_of_subject WHERE subject = ? AND shard = ?"

_MICROSECONDS = 1_000
"""In a millisecond: what Cassandra counts write timestamps in."""

Statement = tuple[str, Row]


class CassandraWants:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, words: Collection[Word]) -> None:
        # By subject first: a phone is silent no later than the list. Cut off in between, the caller writes both again.
        for some in zip(*(written(word) for word in words), strict=True):
            self._cluster.ask_all(some)

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


def written(word: Word) -> tuple[Statement, Statement]:
    """By subject, and by block."""
    block, slot = divmod(word.member, BLOCK_MEMBERS)
    said = {"volume": word.volume and str(word.volume), "visible_from": word.visible_from and to_ms(word.visible_from)}
    of = tuple(name for name, value in said.items() if value is not None)
    row, at = (block, slot, str(word.subject), *(said[name] for name in of)), to_ms(word.at) * _MICROSECONDS
    return (WRITE_OF_SUBJECT[of], (*row, shard_of(word.member), at)), (WRITE[of], (*row, at))


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
    return Want(
        subject=subject,
        member=Member(block * BLOCK_MEMBERS + row.slot),
        at=from_ms(max(row.volume_at or 0, row.visible_from_at or 0) // _MICROSECONDS),
        volume=Volume(row.volume or Volume.DEFAULT),
        visible_from=from_ms(row.visible_from or 0),
    )
