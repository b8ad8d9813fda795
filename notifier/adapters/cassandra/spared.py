"""Who is to be spared an alert: a few ranges a shard, asked for side by side."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from notifier.adapters.cassandra.overalls import OF_SHARD, told_by
from notifier.adapters.cassandra.partings import OF_ACCOUNT
from notifier.adapters.cassandra.session import Cluster
from notifier.codec.moments import from_ms, to_ms
from notifier.codec.overalls import spared
from notifier.domain.bits import BLOCK_MEMBERS, SHARD_BLOCKS, SHARD_MEMBERS, Bits, from_offsets, nobody
from notifier.domain.block import BLOCK_SLOT
from notifier.domain.burst import Burst
from notifier.domain.follow import LEFT
from notifier.domain.subject import Kind, Member, Subject
from notifier.domain.want import NEVER, Volume, spares

_MARKED = "SELECT member FROM marks_of_burst WHERE subject = ? AND seq = ? AND shard = ?"
_SEEN = "SELECT member FROM seen WHERE shard = ? AND seen_at >= ?"
_DELETED = "SELECT member FROM deleted_members WHERE shard = ?"
# Without the mutes of whole blocks: they stood when it was sealed.
_WANTS = "SELECT block, slot, volume, visible_from FROM wants_of_subject WHERE subject = ? AND shard = ?"
# Followed since the opening; left.
_LATE = "SELECT block, slot, members FROM follows_of_subject WHERE subject = ? AND shard = ? AND visible_from > ?"
# Left the protected author.
_LEFT = "SELECT block, slot FROM follows_of_subject WHERE subject = ? AND shard = ? AND visible_from = ?"
_OF_BLOCK = "SELECT block, slot, visible_from FROM follows_of_subject WHERE subject = ? AND shard = ? AND block = ?"


class CassandraSpared:
    """Several reads are no one look, and need not be: each fact spares by itself, and one that comes meanwhile counts
    or doesn't, as if all had been read before it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self, burst: Burst, shard: int, now: datetime) -> Bits:
        subject, author, opened_at = str(burst.key.subject), burst.restricted_to, to_ms(burst.opened_at)
        questions: list[tuple[str, tuple[object, ...]]] = [
            (_LATE, (subject, shard, opened_at)),
            (_WANTS, (subject, shard)),
            (OF_SHARD, (shard,)),
            (OF_ACCOUNT, (burst.opener, shard)),
            (OF_ACCOUNT, (burst.key.subject.owner, shard)),
            (_MARKED, (subject, burst.key.seq, shard)),
            (_SEEN, (shard, opened_at)),
            (_DELETED, (shard,)),
        ]
        if author is not None:
            questions.append((_LEFT, (str(Subject(Kind.MENTION, author)), shard, to_ms(LEFT))))
        late, wants, everything, of_opener, of_owner, *others = self._cluster.ask_all(questions)
        left = others.pop() if author is not None else []
        places = {row.member % SHARD_MEMBERS for rows in others for row in rows}
        places |= {_place(row) for row in wants if row.slot != BLOCK_SLOT and _spares(row, burst)}
        # A block parts them from the opener; or from the account, or did so at the opening.
        places |= {row.member % SHARD_MEMBERS for row in of_opener if row.until == to_ms(NEVER)}
        places |= {row.member % SHARD_MEMBERS for row in of_owner if row.until > opened_at}
        places |= _of_everything(everything, wants, burst, now)
        places |= {_place(row) for row in (*late, *left) if row.slot != BLOCK_SLOT}
        places |= self._of_late_blocks(subject, shard, opened_at, [row for row in late if row.slot == BLOCK_SLOT])
        return from_offsets(places) if places else nobody()

    def _of_late_blocks(self, subject: str, shard: int, opened_at: int, blocks: Iterable[Any]) -> set[int]:
        """Those whose whole block follows since after the opening, without those whose own row says since before it."""
        late = {row.block: set(_places(row)) for row in blocks}
        for own in self._cluster.ask_each(_OF_BLOCK, [(subject, shard, block) for block in late]):
            for row in own:
                if row.slot < BLOCK_SLOT and row.visible_from <= opened_at:
                    late[row.block].discard(_place(row))
        return set().union(*late.values())


def _of_everything(rows: Iterable[Any], wants: Iterable[Any], burst: Burst, now: datetime) -> set[int]:
    """Those whom what they say of everything spares it, where the subject has no word of theirs that says otherwise."""
    own = {
        Member(row.block * BLOCK_MEMBERS + row.slot): Volume(row.volume)
        for row in wants
        if row.slot != BLOCK_SLOT and row.volume
    }
    return {member % SHARD_MEMBERS for member in spared(told_by(rows), own, burst, now)}


def _spares(row: Any, burst: Burst) -> bool:
    return spares(Volume(row.volume or Volume.DEFAULT), from_ms(row.visible_from or 0), burst)


def _place(row: Any) -> int:
    return int(row.block % SHARD_BLOCKS * BLOCK_MEMBERS + row.slot)


def _places(row: Any) -> Iterator[int]:
    base = row.block % SHARD_BLOCKS * BLOCK_MEMBERS
    return (base + slot for slot in range(BLOCK_MEMBERS) if row.members[slot // 8] >> slot % 8 & 1)
