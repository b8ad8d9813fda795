"""Batches rows of one table; a batch costs hardly more than a single row."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import TypeVar

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.domain.audience.bitmap import SHARD_BLOCKS
from notifier.domain.errors import StoreUnavailable

ROWS_IN_A_BATCH = 10
"""Maximum rows of distinct partitions in a batch. The server warns above this number, and above 5 KiB."""

Row = tuple[object, ...]
T = TypeVar("T")


def batched_rows(insert: str, rows: Sequence[Row]) -> tuple[str, Row]:
    """Join rows of one table into an unlogged batch. The caller repeats a partly applied batch as a whole."""
    return batched_inserts([(insert, row) for row in rows])


def batched_inserts(inserts: Sequence[tuple[str, Row]]) -> tuple[str, Row]:
    """Join rows of several tables into an unlogged batch."""
    if len(inserts) == 1:
        return inserts[0]
    statements = "".join(f"{insert}; " for insert, _ in inserts)
    return f"BEGIN UNLOGGED BATCH {statements}APPLY BATCH", tuple(value for _, row in inserts for value in row)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


# Block rows, stored by subject and by block: imported rows, a few batches at a time.

ROWS = 4_096
"""Rows buffered at a time: 1 MB, so that an import of any size needs little memory."""
OF_ONE = SHARD_BLOCKS
"""Maximum rows of one partition in a batch: all rows of a shard and subject. The server needs half the time of 10."""
MESSAGES = 8
"""Batches in flight: enough to keep a node busy, and few enough that none times out when the node pauses."""
ATTEMPTS = 3
"""A node in garbage collection may time out. Writing the same rows again is idempotent."""

_PARTITION = itemgetter(0, 1)


def put_in_both_tables(cluster: Cluster, inserts: tuple[str, str], rows: Iterable[tuple[Row, Row]]) -> None:
    """Write each pair of rows to the subject table and the block table. The write is idempotent.

    The first two columns of a subject row are its partition key. After an interruption the caller writes all rows
    again. The subject table comes first: push suppression then sees a new follow or mute no later than the inbox does.
    """
    for page in batches(rows, ROWS):
        put_in_subject_table(cluster, inserts[0], [row for row, _ in page])
        put_messages(
            cluster, [batched_rows(inserts[1], rows) for rows in batches((row for _, row in page), ROWS_IN_A_BATCH)]
        )


def put_in_subject_table(cluster: Cluster, insert: str, rows: Iterable[Row]) -> None:
    by_subject = groupby(sorted(rows, key=_PARTITION), _PARTITION)
    put_messages(cluster, [batched_rows(insert, batch) for _, run in by_subject for batch in batches(run, OF_ONE)])


def put_messages(cluster: Cluster, messages: Sequence[tuple[str, Row]]) -> None:
    for last in (*[False] * (ATTEMPTS - 1), True):
        try:
            cluster.query_all(messages, at_once=MESSAGES)
            return
        except StoreUnavailable:
            if last:
                raise
