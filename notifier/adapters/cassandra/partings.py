"""Who blocks whom: each side in two tables, by the member's block and by the other account; the later word stands."""

from collections.abc import Collection, Iterable
from typing import Any

from notifier.adapters.cassandra.session import Cluster
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.bits import block_of, shard_of
from notifier.domain.parting import Apart, Half, Parting, apart
from notifier.domain.subject import UserId

# The sequence is the write timestamp: the highest stands, in whatever order they come; of equals the larger value does,
# which is the block.
_WRITE = "INSERT INTO partings (block, member, other, side, until) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?"
_WRITE_OF_ACCOUNT = """
    INSERT INTO partings_of_account (other, shard, member, side, until) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?
"""
OF_MEMBER = "SELECT other, until FROM partings WHERE block = ? AND member = ?"
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


def apart_by(rows: Iterable[Any]) -> Apart:
    """By the answer to OF_MEMBER."""
    return apart((UserId(row.other), from_ms(row.until)) for row in rows)


def _of_block(half: Half) -> tuple[object, ...]:
    return block_of(half.member), half.member, half.other, str(half.side), to_ms(half.until), half.sequence


def _of_account(half: Half) -> tuple[object, ...]:
    return half.other, shard_of(half.member), half.member, str(half.side), to_ms(half.until), half.sequence
