"""Encodes inbox rows as CQL BATCH messages; values that all rows share are encoded once."""

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
"""Maximum rows in a message, each in its own partition. By default a node warns from 11 on."""
MESSAGE_BYTES = 5 * 1024
"""Maximum size of a message, as the node counts it.

By default the node warns above it, in its log and in ours, and rejects messages above 50 KiB.
"""
STORED_BYTES = 17
"""Difference between the size of a row as the node counts it and its size on the wire, in bytes.

The node leaves out ids and lengths, and adds the stored write and expiry times. Measured on Cassandra 5.0.8; equal for
lists and bitmaps.
"""

INBOX_ROW = statement("put_inbox_row")

_PREPARED = b"\x01"
_COLUMNS = 8


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RowBatch:
    """Encoded rows of one BATCH message.

    The driver takes it for the statements of a batch: it counts them, and finds none to encode. The protocol handler
    then inserts the body in their place.
    """

    rows: InboxRows
    first: int
    """Index in `rows` of the message's first row."""
    encoded: Sequence[bytes]
    ttl: int
    statement: str = INBOX_ROW

    def __len__(self) -> int:
        return len(self.encoded)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def head(self) -> "RowBatch":
        """Return a message with its first row only."""
        return RowBatch(rows=self.rows, first=self.first, encoded=self.encoded[:1], ttl=self.ttl)

    @property
    def size(self) -> int:
        return sum(map(len, self.encoded))

    @property
    def body(self) -> bytes:
        return b"".join(self.encoded)

    @property
    def routing_key(self) -> bytes:
        """Return the routing key of the first row.

        It consists of range and inbox window, each after its length and before a zero byte.
        """
        return struct.pack(">HiBHiB", 4, self.rows.ranges[self.first], 0, 4, window_of(self.rows.opened_at), 0)

    def values(self) -> Iterator[tuple[object, ...]]:
        """Yield the bound values of each row, for the driver's own batches."""
        rows = self.rows
        key = window_of(rows.opened_at), str(rows.burst.subject), to_ms(rows.opened_at), rows.burst.seq, str(rows.tier)
        for at in range(self.first, self.first + len(self)):
            yield rows.ranges[at], *key, rows.members[at], self.ttl


def messages(rows: InboxRows, ttl: int, query_id: bytes) -> Iterator[RowBatch]:
    """Yield messages. `ttl` is in whole seconds and at least 1; `query_id` is the id of the prepared INBOX_ROW."""
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
    """Encode each row: kind, prepared id, number of values, and each value after its length."""
    number, length = struct.Struct(">ii").pack, struct.Struct(">i").pack
    prefix = b"".join((_PREPARED, struct.pack(">H", len(query_id)), query_id, struct.pack(">H", _COLUMNS)))
    common = (
        struct.pack(">i", window_of(rows.opened_at)),
        str(rows.burst.subject).encode(),
        struct.pack(">q", to_ms(rows.opened_at)),
        struct.pack(">q", rows.burst.seq),
        str(rows.tier).encode(),
    )
    shared = b"".join(length(len(value)) + value for value in common)
    suffix = number(4, ttl)
    return [
        b"".join((prefix, number(4, member_range), shared, length(len(members)), members, suffix))
        for member_range, members in zip(rows.ranges, rows.members, strict=True)
    ]


# Driver internals: only the code below depends on them. It sends a batch whose rows are already encoded.

_HEADER = 9
"""Bytes of a frame before its body; the last four are the body's length."""
_ROWS = _HEADER + 3
"""Offset of the rows, after the kind of the batch and the number of its rows."""


class PreencodedBatch(BatchStatement):  # type: ignore[misc]  # the driver ships no types
    """Batch with encoded rows. The driver never retries it; only the bulk writer does."""

    def __init__(self, message: RowBatch) -> None:
        super().__init__(batch_type=BatchType.UNLOGGED)
        self._statements_and_parameters = message
        self._routing_key = message.routing_key


class PreencodedBatchProtocol(ProtocolHandler):  # type: ignore[misc]  # the driver ships no types
    """Protocol handler that encodes as the driver does, and inserts the rows of a premade batch."""

    @classmethod
    def encode_message(cls, msg: Any, *args: Any, **options: Any) -> bytes:
        frame: bytes = super().encode_message(msg, *args, **options)
        rows = getattr(msg, "queries", None)
        return _spliced(frame, rows.body) if isinstance(rows, RowBatch) else frame


def driver_batch(message: RowBatch, prepared: PreparedStatement) -> BatchStatement:
    """Return the same rows as a regular driver batch. It uses only the driver's public API, at a fifth of the speed."""
    batch = BatchStatement(batch_type=BatchType.UNLOGGED)
    for values in message.values():
        batch.add(prepared, values)
    return batch


def encoding_matches_driver(handler: type[ProtocolHandler], message: RowBatch, prepared: PreparedStatement) -> bool:
    """Return whether our encoding of one row equals the driver's byte by byte."""
    single = message.head()
    try:
        ours, own = PreencodedBatch(single), driver_batch(single, prepared)
        return ours.routing_key == own.routing_key and _encode_batch(handler, ours) == _encode_batch(
            ProtocolHandler, own
        )
    except Exception:  # any error means that the driver's internals have changed
        return False


def _encode_batch(handler: type[ProtocolHandler], batch: BatchStatement) -> object:
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
