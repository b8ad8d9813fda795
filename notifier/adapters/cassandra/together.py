"""Several rows of one table in a message, which costs client and node hardly more than a single row does."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

TOGETHER = 10
"""Rows of as many partitions in a message: of more, or of more than 5 KiB, the server would warn."""

Row = tuple[object, ...]
T = TypeVar("T")


def together(insert: str, rows: Sequence[Row]) -> tuple[str, Row]:
    """Unlogged: a message that is written in part is put again as a whole."""
    if len(rows) == 1:
        return insert, rows[0]
    inserts = f"{insert}; " * len(rows)
    return f"BEGIN UNLOGGED BATCH {inserts}APPLY BATCH", tuple(value for row in rows for value in row)


def batches(each: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(each)
    while batch := list(islice(iterator, size)):
        yield batch
