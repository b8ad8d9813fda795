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
