"""A row of who follows whom: taken, or told with the reason why not."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from notifier.adapters.imports.layout import Found, Layout, Quick, Reject, Unreadable, fault_of, plain
from notifier.domain.audience.id_ranges import HIGHEST
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import LONGEST_ID
from notifier.ports.imports import Numbers, Rows

COLUMNS = FOLLOWER, FOLLOWED = "follower", "followed"
HIMSELF = "Nobody follows himself."


def taken(found: Iterable[tuple[int, Found]], read: int, reject: Reject) -> Rows:
    followers, followed = list[UserId](), list[UserId]()
    for number, row in found:
        if row is None:
            continue
        if isinstance(row, Unreadable):
            reject(number, row.why)
        elif not (plain(row[0]) and plain(row[1]) and row[0] != row[1]) and (why := _fault(*row)):
            reject(number, why)
        else:
            followers.append(UserId(str(row[0])))
            followed.append(UserId(str(row[1])))
    return Rows(followers=followers, followed=followed, read=read)


def _fault(follower: object, followed: object) -> str | None:
    himself = HIMSELF if str(follower) == str(followed) else None
    return fault_of(FOLLOWER, follower) or fault_of(FOLLOWED, followed) or himself


def _quick() -> Quick[Rows | Numbers]:

    return quick


EDGES: Layout[Rows | Numbers] = Layout(of="a follow", needed=COLUMNS, taken=taken, quick=_quick)


# Who follows whom of many rows at once: columns of whole numbers, and of names with which nothing is wrong.


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
