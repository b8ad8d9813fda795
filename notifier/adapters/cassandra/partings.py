"""Who blocks whom: each side in two tables, by the member's block and by the other account; the later word stands."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any

from notifier.adapters.cassandra.reader import Reader
from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.together import batches
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.audience.bitmap import block_of, shard_of
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.user_blocks import Apart, Half, Parting, apart, owners

NAMES = 100
"""That are asked for in one question, of a partition: a node warns of many more."""
FEW = 200
"""Rows of a member, of both sides, that are read in one question. Hardly anybody has more."""

# The sequence is the write timestamp: the highest stands, in whatever order they come; of equals the larger value does,
# which is the block.
_WRITE = "INSERT INTO partings (block, member, other, side, until) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?"
_WRITE_OF_ACCOUNT = """
    INSERT INTO partings_of_account (other, shard, member, side, until) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?
"""
OF_BOTH = "SELECT other, until FROM partings WHERE block = ? AND member = ? LIMIT ?"
_OWN = "SELECT other, until FROM partings WHERE block = ? AND member = ? AND side = 'blocks'"
_OTHERS = "SELECT other, until FROM partings WHERE block = ? AND member = ? AND side = 'blocked_by' LIMIT ?"
_BY_NAME = "SELECT other, until FROM partings WHERE block = ? AND member = ? AND side = 'blocked_by' AND other IN ?"
OF_ACCOUNT = "SELECT member, until FROM partings_of_account WHERE other = ? AND shard = ?"


class CassandraPartings:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, partings: Collection[Parting]) -> None:
        # By account first: whom a list hides something from is alerted of it no longer. Cut off anywhere in between,
        # the caller writes all of it again.
        halves = [half for parting in partings for half in parting.halves]
        self._cluster.ask_each(_WRITE_OF_ACCOUNT, [_of_account(half) for half in halves])
        self._cluster.ask_each(_WRITE, [_of_block(half) for half in halves])


async def apart_of(reader: Reader, member: Member, rows: Sequence[Any], follows: Iterable[Subject], most: int) -> Apart:
    """By the answer to OF_BOTH, whose limit was `few(most)`; the table is asked again where that wasn't all.

    Of more than `most` who block the member, the first and those whom the member follows.
    """
    if len(rows) == few(most):
        place = block_of(member), member
        own, others = await reader.all([(_OWN, place), (_OTHERS, (*place, most))])
        named = [(*place, some) for some in batches(owners(follows), NAMES)] if len(others) == most else []
        rows = [*own, *others, *chain(*await reader.each(_BY_NAME, named))]
    return apart((UserId(row.other), from_ms(row.until)) for row in rows)


def few(most: int) -> int:
    """The limit of OF_BOTH."""
    return min(FEW, most)


def _of_block(half: Half) -> tuple[object, ...]:
    return block_of(half.member), half.member, half.other, str(half.side), to_ms(half.until), half.sequence


def _of_account(half: Half) -> tuple[object, ...]:
    return half.other, shard_of(half.member), half.member, str(half.side), to_ms(half.until), half.sequence
