"""Inbox rows as the bytes of a BATCH message: what all rows have in common is encoded once."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.protocol import BatchMessage, ProtocolHandler
from cassandra.query import BatchStatement, BatchType, PreparedStatement

from notifier.adapters.cassandra.driver.session import PROTOCOL
from notifier.adapters.cassandra.driver.statements import statement
from notifier.codec.storage import to_ms
from notifier.domain.audience.inbox_rows import InboxRows, window_of

PARTITIONS = 10
"""In a message; from 11 on the node warns, as shipped. Each row is in a partition of its own."""
MESSAGE_BYTES = 5 * 1024
"""In a message, as the node counts. Above it warns, in its log and in ours, and above 50 KiB it refuses, as shipped."""
STORED_BYTES = 17
"""By so much the node counts a row larger than we send it: it leaves out ids and lengths, and adds the times of writing
and expiry that it stores. Measured on Cassandra 5.0.8, equal for lists and bitmaps."""

INBOX_ROW = statement("put_inbox_row")

_PREPARED = b"\x01"
_COLUMNS = 8


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RowBatch:
    """Some rows. The driver takes it for the statements of a batch: it counts them, and finds none to encode; the
    protocol handler then puts the body in their place.
    """

    rows: InboxRows
    first: int
    """Of the message's rows, the first among `rows`."""
    encoded: Sequence[bytes]
    ttl: int
    statement: str = INBOX_ROW

    def __len__(self) -> int:
        return len(self.encoded)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def head(self) -> "RowBatch":
        """Return a message of its first row alone."""
        return RowBatch(rows=self.rows, first=self.first, encoded=self.encoded[:1], ttl=self.ttl)

    @property
    def size(self) -> int:
        return sum(map(len, self.encoded))

    @property
    def body(self) -> bytes:
        return b"".join(self.encoded)

    @property
    def routing_key(self) -> bytes:
        """Of the first row's partition: range and inbox window, each with its length before and a zero behind it."""
        return struct.pack(">HiBHiB", 4, self.rows.ranges[self.first], 0, 4, window_of(self.rows.opened_at), 0)

    def values(self) -> Iterator[tuple[object, ...]]:
        """As one would bind them, for the driver's own batches."""
        rows = self.rows
        key = window_of(rows.opened_at), str(rows.burst.subject), to_ms(rows.opened_at), rows.burst.seq, str(rows.tier)
        for at in range(self.first, self.first + len(self)):
            yield rows.ranges[at], *key, rows.members[at], self.ttl


def messages(rows: InboxRows, ttl: int, query_id: bytes) -> Iterator[RowBatch]:
    """`ttl` in whole seconds, at least one; `query_id` is that of the prepared INBOX_ROW."""
    encoded = _encoded(rows, ttl, query_id)
    begin = filled = 0
    for at, row in enumerate(encoded):
        counted = len(row) + STORED_BYTES
        if at - begin == PARTITIONS or (at > begin and filled + counted > MESSAGE_BYTES):
            yield RowBatch(rows=rows, first=begin, encoded=encoded[begin:at], ttl=ttl)
            begin, filled = at, 0
        filled += counted
    if encoded:
        yield RowBatch(rows=rows, first=begin, encoded=encoded[begin:], ttl=ttl)


def _encoded(rows: InboxRows, ttl: int, query_id: bytes) -> Sequence[bytes]:
    """Each row of a BATCH message: the kind, the prepared id, the count of values, and each value behind its length."""
    number, length = struct.Struct(">ii").pack, struct.Struct(">i").pack
    before = b"".join((_PREPARED, struct.pack(">H", len(query_id)), query_id, struct.pack(">H", _COLUMNS)))
    common = (
        struct.pack(">i", window_of(rows.opened_at)),
        str(rows.burst.subject).encode(),
        struct.pack(">q", to_ms(rows.opened_at)),
        struct.pack(">q", rows.burst.seq),
        str(rows.tier).encode(),
    )
    between = b"".join(length(len(value)) + value for value in common)
    after = number(4, ttl)
    return [
        b"".join((before, number(4, member_range), between, length(len(members)), members, after))
        for member_range, members in zip(rows.ranges, rows.members, strict=True)
    ]


# The one place that knows cassandra-driver from inside: a batch whose rows are encoded already.

_HEADER = 9
"""Bytes of a frame before its body; the last four are the body's length."""
_ROWS = _HEADER + 3
"""Behind the kind of the batch and the number of its rows."""


class Premade(BatchStatement):  # type: ignore[misc]  # the driver ships no types
    """Sent again by nobody but us."""

    def __init__(self, message: RowBatch) -> None:
        super().__init__(batch_type=BatchType.UNLOGGED)
        self._statements_and_parameters = message
        self._routing_key = message.routing_key


class Splicing(ProtocolHandler):  # type: ignore[misc]  # the driver ships no types
    """The driver's own encoding of everything, with the rows of a premade batch put where it found none."""

    @classmethod
    def encode_message(cls, msg: Any, *args: Any, **options: Any) -> bytes:
        frame: bytes = super().encode_message(msg, *args, **options)
        rows = getattr(msg, "queries", None)
        return _spliced(frame, rows.body) if isinstance(rows, RowBatch) else frame


def stock(message: RowBatch, prepared: PreparedStatement) -> BatchStatement:
    """The same rows in the driver's own way: by its public parts alone, at a fifth of the speed."""
    batch = BatchStatement(batch_type=BatchType.UNLOGGED)
    for values in message.values():
        batch.add(prepared, values)
    return batch


def fits(handler: type[ProtocolHandler], message: RowBatch, prepared: PreparedStatement) -> bool:
    """Whether one row is encoded as the driver itself does it, to the byte."""
    one = message.head()
    try:
        ours, own = Premade(one), stock(one, prepared)
        return ours.routing_key == own.routing_key and _encoded_driver_splice(handler, ours) == _encoded_driver_splice(
            ProtocolHandler, own
        )
    except Exception:  # whatever a changed driver may say: it is not the one that this was written for
        return False


def _encoded_driver_splice(handler: type[ProtocolHandler], batch: BatchStatement) -> object:
    message = BatchMessage(
        batch.batch_type,
        batch._statements_and_parameters,
        ConsistencyLevel.LOCAL_QUORUM,
        ConsistencyLevel.SERIAL,
        1,
    )
    return handler.encode_message(message, 1, PROTOCOL, compressor=None, allow_beta_protocol_version=False)


def _spliced(frame: bytes, rows: bytes) -> bytes:
    length = struct.pack(">i", len(frame) - _HEADER + len(rows))
    return b"".join((frame[: _HEADER - 4], length, frame[_HEADER:_ROWS], rows, frame[_ROWS:]))
