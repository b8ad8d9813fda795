"""Joins rows into CQL batches."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import TypeVar

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.domain.audience.bitmap import SHARD_BLOCKS
from notifier.domain.errors import StoreUnavailable

MAX_ROWS_PER_BATCH = 10
"""Maximum rows of distinct partitions in a batch. By default a node warns about more partitions."""

Row = tuple[object, ...]
T = TypeVar("T")


def batched_rows(write: str, rows: Sequence[Row]) -> tuple[str, Row]:
    """Join rows into an unlogged batch. `write` is the statement for one row.

    A batch of several partitions is not atomic. After an error some of the rows may be written.
    """
    return batched_writes([(write, row) for row in rows])


def batched_writes(writes: Sequence[tuple[str, Row]]) -> tuple[str, Row]:
    """Join writes into an unlogged batch, as `batched_rows` does, but each with its own statement."""
    if len(writes) == 1:
        return writes[0]
    statements = "".join(f"{write}; " for write, _ in writes)
    return f"BEGIN UNLOGGED BATCH {statements}APPLY BATCH", tuple(value for _, row in writes for value in row)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


# Writes of many rows, such as those of an import. A row for a whole member block is stored in two tables: in one by
# subject, and in one by block.

BUFFERED_ROWS = 4_096
"""Rows, or pairs of rows, in memory at a time: about 1 MB."""
MAX_ROWS_PER_PARTITION_BATCH = SHARD_BLOCKS
"""Maximum rows of one partition in a batch: one for each member block of a shard.

A node takes half as long per row as with batches of 10.
"""
MAX_BATCHES_IN_FLIGHT = 8
"""Batches in flight: enough to keep a node busy. With many more, some could time out while the node pauses."""
MAX_ATTEMPTS = 3
"""Attempts to write the batches of one call. A node that collects garbage may answer too late."""

_PARTITION_KEY = itemgetter(0, 1)


def put_in_both_tables(cluster: Cluster, inserts: tuple[str, str], rows: Iterable[tuple[Row, Row]]) -> None:
    """Write each pair of rows: the first row to the subject table, the second to the block table.

    The first two columns of a subject row are its partition key. After an interruption the caller must write all rows
    again. The subject table is written first. Push suppression reads it, the inbox reads the block table, and push
    suppression must see a new follow no later than the inbox does.
    """
    insert_by_subject, insert_by_block = inserts
    for chunk in batches(rows, BUFFERED_ROWS):
        put_by_partition(cluster, insert_by_subject, [row for row, _ in chunk])
        block_rows = batches((row for _, row in chunk), MAX_ROWS_PER_BATCH)
        put_batches(cluster, [batched_rows(insert_by_block, batch) for batch in block_rows])


def put_by_partition(cluster: Cluster, insert: str, rows: Iterable[Row]) -> None:
    """Write the rows in batches of one partition each. The first two columns are the partition key."""
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
    """Write the batches, and repeat all of them after StoreUnavailable. The writes must be idempotent."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            cluster.query_all(statements, max_in_flight=MAX_BATCHES_IN_FLIGHT)
            return
        except StoreUnavailable:
            if attempt == MAX_ATTEMPTS:
                raise
