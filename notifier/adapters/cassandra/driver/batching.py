"""Several rows of one table in a message, which costs client and node hardly more than a single row does."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import TypeVar

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.domain.audience.bitmap import SHARD_BLOCKS
from notifier.domain.errors import StoreUnavailable

TOGETHER = 10
"""Rows of as many partitions in a message: of more, or of more than 5 KiB, the server would warn."""

Row = tuple[object, ...]
T = TypeVar("T")


def together(insert: str, rows: Sequence[Row]) -> tuple[str, Row]:
    """Unlogged: a message that is written in part is put again as a whole."""
    return joined([(insert, row) for row in rows])


def joined(inserts: Sequence[tuple[str, Row]]) -> tuple[str, Row]:
    """The same of several tables."""
    if len(inserts) == 1:
        return inserts[0]
    statements = "".join(f"{insert}; " for insert, _ in inserts)
    return f"BEGIN UNLOGGED BATCH {statements}APPLY BATCH", tuple(value for _, row in inserts for value in row)


def batches(each: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(each)
    while batch := list(islice(iterator, size)):
        yield batch


# What is said of whole blocks and kept twice, by subject and by block: an import's rows, a few messages at once.

ROWS = 4_096
"""That are waited for: 1 MB, so that an import of any size needs little memory."""
OF_ONE = SHARD_BLOCKS
"""Rows of one partition in a message: all that a shard has of a subject. The server needs half the time of 10."""
MESSAGES = 8
"""On their way: enough to keep a node busy, and few enough that none is late when it pauses."""
TRIES = 3
"""A node that collects its garbage may be late all the same; the same rows written again are the same."""

_PARTITION = itemgetter(0, 1)


def put_twofold(cluster: Cluster, inserts: tuple[str, str], rows: Iterable[tuple[Row, Row]]) -> None:
    """Each row by subject, whose first two columns are the partition, and by block. Cut off in between, it is put
    again, and writes the same. By subject first: a push spares whoever follows since a moment ago, or mutes, no later
    than a tab knows of it."""
    for some in batches(rows, ROWS):
        put_by_subject(cluster, inserts[0], [row for row, _ in some])
        put_all(cluster, [together(inserts[1], rows) for rows in batches((row for _, row in some), TOGETHER)])


def put_by_subject(cluster: Cluster, insert: str, rows: Iterable[Row]) -> None:
    by_subject = groupby(sorted(rows, key=_PARTITION), _PARTITION)
    put_all(cluster, [together(insert, some) for _, run in by_subject for some in batches(run, OF_ONE)])


def put_all(cluster: Cluster, messages: Sequence[tuple[str, Row]]) -> None:
    for last in (*[False] * (TRIES - 1), True):
        try:
            cluster.ask_all(messages, at_once=MESSAGES)
            return
        except StoreUnavailable:
            if last:
                raise
