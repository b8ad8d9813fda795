"""Inbox rows as the bytes of a BATCH message: one structured array a message, no Python for a single row."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from notifier.adapters.cassandra.statements import statement
from notifier.codec.moments import to_ms
from notifier.domain.bits import BLOCK_BYTES, BLOCK_MEMBERS
from notifier.domain.block import BLOCK_SLOT, Rows, window_of

PARTITIONS = 10
"""In a message; from 11 on the node warns, as shipped."""
MESSAGE_BYTES = 5 * 1024
"""In a message of several partitions, as the node counts. Above it warns, in its log and in ours, and above 50 KiB it
refuses, as shipped; 45 KiB would spare it a tenth to a fifth of a row's time. A single partition has no such bound."""
UNCOUNTED = 25
"""Of a row's bytes at least as many are ids and lengths, which the node leaves out."""
MUTATION_ROWS = 1_000
"""Reads beside larger mutations have a p99 of 14 ms, instead of 6 to 7."""

BLOCK_ROW = statement("put_block_row")
MEMBER_ROW = statement("put_member_row")

_PREPARED = 1
_LENGTH = "_bytes"
Array = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The ids under which the nodes know the two statements."""

    block_row: bytes
    member_row: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """Rows of one statement. The driver takes it for the statements of a batch: it counts them, and finds none to
    encode; the protocol handler then puts the body in their place.
    """

    statement: str
    rows: Array

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    @property
    def size(self) -> int:
        return self.rows.nbytes

    @property
    def body(self) -> bytes:
        return self.rows.tobytes()

    @property
    def routing_key(self) -> bytes:
        """Of the first row's partition: block and inbox window, each with its length before and a zero behind it."""
        first = self.rows[0]
        return struct.pack(">HiBHiB", 4, int(first["block"]), 0, 4, int(first["inbox_window"]), 0)

    def values(self) -> Iterator[list[object]]:
        """As one would bind them, for the driver's own batches."""
        for row in self.rows:
            yield [_value(name, row[name]) for name in _values(self.rows)]


def messages(rows: Rows, ttl: int, prepared: Prepared) -> Iterator[Message]:
    """`ttl` in whole seconds, at least one."""
    if len(rows.blocks):
        shared = _rows(rows, prepared.block_row, len(rows.blocks), ttl, BLOCK_BYTES)
        shared["block"], shared["slot"] = rows.blocks, BLOCK_SLOT
        shared["members"] = np.frombuffer(rows.bitmaps, dtype=f"V{BLOCK_BYTES}")
        for begin in range(0, len(shared), PARTITIONS):
            yield Message(BLOCK_ROW, shared[begin : begin + PARTITIONS])
    if len(rows.members):
        single = _rows(rows, prepared.member_row, len(rows.members), ttl, 0)
        blocks, single["slot"] = np.divmod(rows.members, BLOCK_MEMBERS)
        single["block"] = blocks
        for begin, end in _cuts(blocks, single.itemsize - UNCOUNTED):
            yield Message(MEMBER_ROW, single[begin:end])


def _rows(rows: Rows, statement: bytes, count: int, ttl: int, bitmap: int) -> Array:
    """With what all have in common."""
    subject, tier = str(rows.burst.subject).encode(), str(rows.tier).encode()
    made = np.empty(count, dtype=_layout(len(statement), len(subject), len(tier), bitmap))
    for name in _values(made):
        made[name + _LENGTH] = made.dtype[name].itemsize
    made["kind"], made["id_length"], made["id"] = _PREPARED, len(statement), np.void(statement)
    made["count"] = len(_values(made))
    made["inbox_window"], made["opened_at"] = window_of(rows.opened_at), to_ms(rows.opened_at)
    made["subject"], made["tier"] = np.void(subject), np.void(tier)
    made["seq"], made["ttl"] = rows.burst.seq, ttl
    return made


@lru_cache(maxsize=1024)
def _layout(statement: int, subject: int, tier: int, bitmap: int) -> np.dtype[np.void]:
    """One row of a BATCH message: the kind, the prepared id, the count of values, and each value behind its length."""
    values = [("block", ">i4"), ("inbox_window", ">i4"), ("slot", ">i2"), ("opened_at", ">i8")]
    values += [("subject", f"V{subject}"), ("seq", ">i8"), ("tier", f"V{tier}")]
    values += [("members", f"V{bitmap}")] if bitmap else []
    fields = [("kind", "u1"), ("id_length", ">u2"), ("id", f"V{statement}"), ("count", ">u2")]
    for name, kind in [*values, ("ttl", ">i4")]:
        fields += [(name + _LENGTH, ">i4"), (name, kind)]
    return np.dtype(fields)


def _cuts(blocks: npt.NDArray[np.int64], row_bytes: int) -> Iterator[tuple[int, int]]:
    """Where messages begin and end: one large block each, or several sparse ones."""
    begin, filled = 0, 0
    for first, end in _pieces(blocks):
        if filled and (filled == PARTITIONS or (end - begin) * row_bytes > MESSAGE_BYTES):
            yield begin, first
            begin, filled = first, 0
        filled += 1
    yield begin, len(blocks)


def _pieces(blocks: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """The rows of each block, at most a mutation's at a time."""
    edges = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(blocks)]
    for first, end in pairwise(edges):
        for begin in range(first, end, MUTATION_ROWS):
            yield begin, min(end, begin + MUTATION_ROWS)


def _values(rows: Array) -> list[str]:
    """The columns: what stands behind a length of its own."""
    names = rows.dtype.names or ()
    return [name.removesuffix(_LENGTH) for name in names if name.endswith(_LENGTH)]


def _value(name: str, value: Any) -> object:
    """Numbers are as the array has them; text and bitmaps are bytes there."""
    if not isinstance(value, np.void):
        return int(value)
    return value.tobytes().decode() if name in ("subject", "tier") else value.tobytes()
