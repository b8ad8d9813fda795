"""Who follows whom of many rows at once: columns of whole numbers, and of names with which nothing is wrong."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from notifier.adapters.tables.edge import COLUMNS, HIMSELF
from notifier.adapters.tables.layout import Reject
from notifier.domain.audience.id_ranges import HIGHEST
from notifier.domain.upstream.validation import LONGEST_ID
from notifier.ports.imports import Numbers, Rows


def quick(some: Any, first: int, passed: int, reject: Reject) -> Rows | Numbers | None:
    columns = [some.column(name) for name in COLUMNS]
    return _numbers(columns, first, passed, reject) or _names(columns, passed)


def _numbers(columns: list[Any], first: int, passed: int, reject: Reject) -> Numbers | None:
    """Of whole numbers that may be in a range."""
    if any(column.null_count or not pa.types.is_integer(column.type) for column in columns):
        return None
    followers, followed = (column.to_numpy() for column in columns)
    if max(followers.max(), followed.max()) > HIGHEST or min(followers.min(), followed.min()) < 0:
        return None
    for place in np.flatnonzero(followers == followed).tolist():
        reject(first + place + 1, HIMSELF)
    return Numbers(followers=followers.astype(np.int64), followed=followed.astype(np.int64), read=passed)


def _names(columns: list[Any], passed: int) -> Rows | None:
    if not all(map(_plain, columns)) or pc.any(pc.equal(*columns)).as_py():
        return None
    followers, followed = (column.to_pylist() for column in columns)
    return Rows(followers=followers, followed=followed, read=passed)


def _plain(column: Any) -> bool:
    """Of names with which nothing is wrong, as nearly all are."""
    if column.null_count or not pa.types.is_string(column.type):
        return False
    lengths = pc.min_max(pc.utf8_length(column)).as_py()
    printable = pc.all(pc.utf8_is_printable(column)).as_py()
    return bool(printable and lengths["min"] > 0 and lengths["max"] <= LONGEST_ID)
