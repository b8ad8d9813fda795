"""Who is to be spared an alert: a few ranges, asked for side by side."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from notifier.adapters.cassandra.session import Cluster
from notifier.codec.moments import to_ms
from notifier.domain.bits import BLOCK_MEMBERS, SHARD_BLOCKS, SHARD_MEMBERS, Bits, from_offsets, nobody, shard_of
from notifier.domain.block import BLOCK_SLOT
from notifier.domain.burst import Burst
from notifier.domain.subject import Kind, Member, Subject
from notifier.domain.visible import Volume
from notifier.ports.people import LEFT

_MARKED = "SELECT member FROM marks_of_burst WHERE subject = ? AND seq = ? AND shard IN ?"
_SEEN = "SELECT member FROM seen WHERE shard = ? AND seen_at >= ?"
_BLOCKS = "SELECT member FROM blocks_of_account WHERE other = ? AND shard IN ?"
_DELETED = "SELECT member FROM deleted_members WHERE shard IN ?"
_VOLUMES = "SELECT member, volume FROM volumes_of_subject WHERE subject = ? AND shard IN ?"
# Followed, unmuted or back since the opening; muted; left.
_LATE = "SELECT block, slot, members FROM follows_of_subject WHERE subject = ? AND shard = ? AND visible_from > ?"
# Left the protected author; muting him changes nothing.
_LEFT = "SELECT block, slot FROM follows_of_subject WHERE subject = ? AND shard = ? AND visible_from = ?"
_OF_BLOCK = "SELECT block, slot, visible_from FROM follows_of_subject WHERE subject = ? AND shard = ? AND block = ?"


class CassandraSpared:
    """Several reads are no one look, and need not be: each fact spares by itself, and one that comes meanwhile counts
    or doesn't, as if all had been read before it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self, burst: Burst, shards: Sequence[int]) -> Sequence[Bits]:
        subject, author, opened_at = str(burst.key.subject), burst.restricted_to, to_ms(burst.opened_at)
        # Most of it is nothing, and a question costs more than that: one for all shards, but where an index answers.
        some = list(shards)
        questions: list[tuple[str, tuple[object, ...]]] = [
            (_VOLUMES, (subject, some)),
            (_MARKED, (subject, burst.key.seq, some)),
            (_BLOCKS, (burst.opener, some)),
            (_DELETED, (some,)),
            *((_SEEN, (shard, opened_at)) for shard in shards),
            *((_LATE, (subject, shard, opened_at)) for shard in shards),
        ]
        if author is not None:
            questions += [(_LEFT, (str(Subject(Kind.MENTION, author)), shard, to_ms(LEFT))) for shard in shards]
        volumes, *found = self._cluster.ask_all(questions)
        of_members, of_follows = found[: 3 + len(some)], list(chain.from_iterable(found[3 + len(some) :]))
        spared = {row.member for row in chain.from_iterable(of_members)}
        spared |= {row.member for row in volumes if _silences(Volume(row.volume), burst)}
        spared |= {_member(row) for row in of_follows if row.slot != BLOCK_SLOT}
        spared |= self._of_late_blocks(subject, opened_at, [row for row in of_follows if row.slot == BLOCK_SLOT])
        return _by_shard(spared, shards)

    def _of_late_blocks(self, subject: str, opened_at: int, blocks: Sequence[Any]) -> set[Member]:
        """Those whose whole block follows since after the opening, without those whose own row says since before it."""
        late = {row.block: set(_members(row)) for row in blocks}
        asked = [(subject, block // SHARD_BLOCKS, block) for block in late]
        for own in self._cluster.ask_each(_OF_BLOCK, asked):
            for row in own:
                if row.slot != BLOCK_SLOT and row.visible_from <= opened_at:
                    late[row.block].discard(_member(row))
        return set().union(*late.values())


def _by_shard(spared: Iterable[Member], shards: Sequence[int]) -> list[Bits]:
    places: dict[int, list[int]] = {shard: [] for shard in shards}
    for member in spared:
        places[shard_of(member)].append(member % SHARD_MEMBERS)
    return [from_offsets(of_shard) if of_shard else nobody() for of_shard in places.values()]


def _silences(volume: Volume, burst: Burst) -> bool:
    return volume in {Volume.OFF, Volume.DIGEST} or (volume is Volume.FIRST and not burst.first_of_day)


def _member(row: Any) -> Member:
    return Member(row.block * BLOCK_MEMBERS + row.slot)


def _members(row: Any) -> Iterator[Member]:
    first = row.block * BLOCK_MEMBERS
    return (Member(first + slot) for slot in range(BLOCK_MEMBERS) if row.members[slot // 8] >> slot % 8 & 1)
