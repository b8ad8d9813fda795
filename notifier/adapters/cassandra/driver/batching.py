"""Joins rows into batches; a batch costs hardly more than a single row."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import TypeVar

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.domain.audience.bitmap import SHARD_BLOCKS
from notifier.domain.errors import StoreUnavailable

MAX_ROWS_PER_BATCH = 10
"""Maximum rows of distinct partitions in a batch. The server warns above this number, and above 5 KiB."""

Row = tuple[object, ...]
T = TypeVar("T")


def batched_rows(insert: str, rows: Sequence[Row]) -> tuple[str, Row]:
    """Join rows of one table into an unlogged batch.

    The batch is not atomic: after an error some rows may be written, and the caller writes all of them again.
    """
    return batched_inserts([(insert, row) for row in rows])


def batched_inserts(inserts: Sequence[tuple[str, Row]]) -> tuple[str, Row]:
    """Join rows of several tables into an unlogged batch, which is not atomic."""
    if len(inserts) == 1:
        return inserts[0]
    statements = "".join(f"{insert}; " for insert, _ in inserts)
    return f"BEGIN UNLOGGED BATCH {statements}APPLY BATCH", tuple(value for _, row in inserts for value in row)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


# Rows of member blocks, each stored by subject and by block. An import writes them a few batches at a time.

BUFFERED_ROWS = 4_096
"""Rows buffered at a time: 1 MB, so that an import of any size needs little memory."""
MAX_ROWS_PER_PARTITION_BATCH = SHARD_BLOCKS
"""Maximum rows of one partition in a batch: all block rows of a shard and subject.

The server takes half as long per row as with batches of 10.
"""
MAX_BATCHES_IN_FLIGHT = 8
"""Batches in flight: enough to keep a node busy, and few enough that none times out when the node pauses."""
MAX_ATTEMPTS = 3
"""Attempts per chunk of batches: a node in garbage collection may time out, and the writes are idempotent."""

_PARTITION_KEY = itemgetter(0, 1)


def put_in_both_tables(cluster: Cluster, inserts: tuple[str, str], rows: Iterable[tuple[Row, Row]]) -> None:
    """Write each pair of rows to the subject table and the block table. The write is idempotent.

    The first two columns of a subject row are its partition key. After an interruption the caller writes all rows
    again. The subject table comes first: push suppression then sees a new follow or mute no later than the inbox does.
    """
    insert_by_subject, insert_by_block = inserts
    for chunk in batches(rows, BUFFERED_ROWS):
        put_in_subject_table(cluster, insert_by_subject, [row for row, _ in chunk])
        block_rows = batches((row for _, row in chunk), MAX_ROWS_PER_BATCH)
        put_batches(cluster, [batched_rows(insert_by_block, batch) for batch in block_rows])


def put_in_subject_table(cluster: Cluster, insert: str, rows: Iterable[Row]) -> None:
    """Write the rows in batches of one partition each."""
    partitions = groupby(sorted(rows, key=_PARTITION_KEY), _PARTITION_KEY)
    put_batches(
        cluster,
        [
            batched_rows(insert, batch)
            for _, group in partitions
            for batch in batches(group, MAX_ROWS_PER_PARTITION_BATCH)
        ],
    )


def put_batches(cluster: Cluster, statements: Sequence[tuple[str, Row]]) -> None:
    """Write batches, and write all of them again after an error. Raises StoreUnavailable after the last attempt."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            cluster.query_all(statements, max_in_flight=MAX_BATCHES_IN_FLIGHT)
            return
        except StoreUnavailable:
            if attempt == MAX_ATTEMPTS:
                raise
