"""Who blocks whom: each side in two tables, by the member's block and by the other account; the later word stands."""

from asyncio import gather
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any

from notifier.adapters.cassandra.reader import Reader
from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.together import batches
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.bits import block_of, shard_of
from notifier.domain.parting import Apart, Half, Parting, apart, owners
from notifier.domain.subject import Member, Subject, UserId

NAMES = 100
"""That are asked for in one question, of a partition: a node warns of many more."""

# The sequence is the write timestamp: the highest stands, in whatever order they come; of equals the larger value does,
# which is the block.
_WRITE = "INSERT INTO partings (block, member, other, side, until) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?"
_WRITE_OF_ACCOUNT = """
    INSERT INTO partings_of_account (other, shard, member, side, until) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?
"""
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


async def rows_of(reader: Reader, member: Member, most: int) -> tuple[list[Any], list[Any]]:
    """The member's own, and the first of those of others."""
    place = block_of(member), member
    own, others = await gather(reader(_OWN, place), reader(_OTHERS, (*place, most)))
    return own, others


async def apart_of(
    reader: Reader, member: Member, rows: tuple[list[Any], list[Any]], follows: Iterable[Subject], most: int
) -> Apart:
    """By these rows. Of more than `most` who block the member, these and those whom the member follows."""
    own, others = rows
    if len(others) == most:
        asked = [(block_of(member), member, some) for some in batches(owners(follows), NAMES)]
        others = [*others, *chain(*await reader.each(_BY_NAME, asked))]
    return apart((UserId(row.other), from_ms(row.until)) for row in (*own, *others))


def _of_block(half: Half) -> tuple[object, ...]:
    return block_of(half.member), half.member, half.other, str(half.side), to_ms(half.until), half.sequence


def _of_account(half: Half) -> tuple[object, ...]:
    return half.other, shard_of(half.member), half.member, str(half.side), to_ms(half.until), half.sequence
