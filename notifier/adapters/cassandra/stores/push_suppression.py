"""Who is to be spared an alert: a few ranges a shard, those of all shards asked for side by side."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any

from notifier.adapters.cassandra.driver.batching import Row
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.stores.user_preferences import OF_ACCOUNT, OF_SHARD, told_by
from notifier.codec.preferences import spared
from notifier.codec.push import spares
from notifier.codec.timestamps import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, SHARD_BLOCKS
from notifier.domain.audience.follows import LEFT
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Kind, Member, Subject
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.subject_preferences import spares as refuses
from notifier.ports.push import Spare

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

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, Spare]:
        subject, author, opened_at = str(burst.key.subject), burst.restricted_to, to_ms(burst.opened_at)
        asked: list[tuple[str, Sequence[Row]]] = [
            (_LATE, [(subject, shard, opened_at) for shard in shards]),
            (_WANTS, [(subject, shard) for shard in shards]),
            (OF_SHARD, [(shard,) for shard in shards]),
            (OF_ACCOUNT, [(burst.opener, shard) for shard in shards]),
            (OF_ACCOUNT, [(burst.key.subject.owner, shard) for shard in shards]),
            (_MARKED, [(subject, burst.key.seq, shard) for shard in shards]),
            (_SEEN, [(shard, opened_at) for shard in shards]),
            (_DELETED, [(shard,) for shard in shards]),
        ]
        if author is not None:
            asked.append((_LEFT, [(str(Subject(Kind.MENTION, author)), shard, to_ms(LEFT)) for shard in shards]))
        late, wants, everything, of_opener, of_owner, *others = self._rows(asked)
        left = others.pop() if author is not None else []
        own = [row for row in wants if row.slot != BLOCK_SLOT]
        never = chain(
            (Member(row.member) for rows in others for row in rows),
            (_member(row) for row in own if _spares(row, burst)),
            # A block parts them from the opener; or from the account, or did so at the opening.
            (Member(row.member) for row in of_opener if row.until == to_ms(NEVER)),
            (Member(row.member) for row in of_owner if row.until > opened_at),
            (_member(row) for row in (*late, *left) if row.slot != BLOCK_SLOT),
            self._of_late_blocks(subject, opened_at, [row for row in late if row.slot == BLOCK_SLOT]),
        )
        # The subject's words go before those of everything.
        said = {_member(row): Volume(row.volume) for row in own if row.volume}
        return spares(shards, never, spared(told_by(everything), said, burst, now))

    def _rows(self, asked: Sequence[tuple[str, Sequence[Row]]]) -> list[list[Any]]:
        """Of each kind of question all rows, shard after shard."""
        answers = iter(self._cluster.ask_all((statement, values) for statement, each in asked for values in each))
        return [list(chain.from_iterable(islice(answers, len(each)))) for _, each in asked]

    def _of_late_blocks(self, subject: str, opened_at: int, blocks: Iterable[Any]) -> Iterator[Member]:
        """Those whose whole block follows since after the opening, without those whose own row says since before it."""
        late = {row.block: set(_members(row)) for row in blocks}
        for own in self._cluster.ask_each(_OF_BLOCK, [(subject, block // SHARD_BLOCKS, block) for block in late]):
            for row in own:
                if row.slot < BLOCK_SLOT and row.visible_from <= opened_at:
                    late[row.block].discard(_member(row))
        return chain.from_iterable(late.values())


def _spares(row: Any, burst: Burst) -> bool:
    return refuses(Volume(row.volume or Volume.DEFAULT), from_ms(row.visible_from or 0), burst)


def _member(row: Any) -> Member:
    return Member(row.block * BLOCK_MEMBERS + row.slot)


def _members(row: Any) -> Iterator[Member]:
    base = row.block * BLOCK_MEMBERS
    return (Member(base + slot) for slot in range(BLOCK_MEMBERS) if row.members[slot // 8] >> slot % 8 & 1)
