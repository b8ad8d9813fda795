"""Encodes inbox rows as CQL BATCH messages.

Values that all rows share are encoded once.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.protocol import BatchMessage, ProtocolHandler
from cassandra.query import BatchStatement, BatchType, PreparedStatement

from notifier.adapters.cassandra.driver.session import PROTOCOL_VERSION
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.codec.messagepack import to_ms
from notifier.domain.audience.inbox_rows import InboxRows, window_of

MAX_ROWS_PER_MESSAGE = 10
"""Maximum rows in a message. Each row has its own partition, and by default a node warns about more than 10."""
MAX_MESSAGE_BYTES = 5 * 1024
"""Maximum size of a message, as the node counts it.

With default settings a node warns about a larger message, and the driver logs the warning. The node rejects a message
above 50 KiB.
"""
ROW_OVERHEAD_BYTES = 17
"""Bytes that the node counts for a row in addition to the row's size on the wire.

Measured on Cassandra 5.0.8; equal for rows with lists and with bitmaps.
"""

PUT_INBOX_ROW = load_statement("put_inbox_row")

_PREPARED_KIND = b"\x01"
_VALUES_PER_ROW = 8


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RowMessage:
    """BATCH message of encoded inbox rows.

    This object replaces the list of statements in a batch of the driver. Its length is the number of rows, but
    iterating over it yields nothing. So the driver encodes no row, and the protocol handler inserts the encoded rows.
    """

    rows: InboxRows
    first_index: int
    """Index in `rows` of the message's first row."""
    encoded_rows: Sequence[bytes]
    ttl: int
    """TTL in seconds."""
    statement: str = PUT_INBOX_ROW

    def __len__(self) -> int:
        return len(self.encoded_rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def first_row(self) -> "RowMessage":
        return RowMessage(
            rows=self.rows, first_index=self.first_index, encoded_rows=self.encoded_rows[:1], ttl=self.ttl
        )

    @property
    def byte_count(self) -> int:
        return sum(map(len, self.encoded_rows))

    @property
    def joined_rows(self) -> bytes:
        return b"".join(self.encoded_rows)

    @property
    def routing_key(self) -> bytes:
        """Return the routing key of the first row: range and inbox window, each with its length and a zero byte."""
        return struct.pack(">HiBHiB", 4, self.rows.ranges[self.first_index], 0, 4, window_of(self.rows.opened_at), 0)

    def values(self) -> Iterator[tuple[object, ...]]:
        """Yield the values of each row in the order of PUT_INBOX_ROW, for a regular batch of the driver."""
        rows = self.rows
        key = window_of(rows.opened_at), str(rows.burst.subject), to_ms(rows.opened_at), rows.burst.seq, str(rows.tier)
        for index in range(self.first_index, self.first_index + len(self)):
            yield rows.ranges[index], *key, rows.members[index], self.ttl


def divide_into_messages(rows: InboxRows, ttl: int, query_id: bytes) -> Iterator[RowMessage]:
    """Encode the rows, and divide them into messages. A row above MAX_MESSAGE_BYTES gets a message of its own.

    `ttl` is at least 1 second. `query_id` is the id of the prepared PUT_INBOX_ROW.
    """
    encoded = _encode_rows(rows, ttl, query_id)
    first_index = message_bytes = 0
    for index, row in enumerate(encoded):
        row_bytes = len(row) + ROW_OVERHEAD_BYTES
        row_count = index - first_index
        if row_count == MAX_ROWS_PER_MESSAGE or (row_count and message_bytes + row_bytes > MAX_MESSAGE_BYTES):
            yield RowMessage(rows=rows, first_index=first_index, encoded_rows=encoded[first_index:index], ttl=ttl)
            first_index, message_bytes = index, 0
        message_bytes += row_bytes
    if encoded:
        yield RowMessage(rows=rows, first_index=first_index, encoded_rows=encoded[first_index:], ttl=ttl)


def _encode_rows(rows: InboxRows, ttl: int, query_id: bytes) -> Sequence[bytes]:
    """Encode each row: kind of query, length of its id, the id, number of values, and each value after its length."""
    pack_length_and_int, pack_length = struct.Struct(">ii").pack, struct.Struct(">i").pack
    prefix = b"".join((_PREPARED_KIND, struct.pack(">H", len(query_id)), query_id, struct.pack(">H", _VALUES_PER_ROW)))
    shared_values = (
        struct.pack(">i", window_of(rows.opened_at)),
        str(rows.burst.subject).encode(),
        struct.pack(">q", to_ms(rows.opened_at)),
        struct.pack(">q", rows.burst.seq),
        str(rows.tier).encode(),
    )
    encoded_shared_values = b"".join(pack_length(len(value)) + value for value in shared_values)
    suffix = pack_length_and_int(4, ttl)
    return [
        b"".join(
            (
                prefix,
                pack_length_and_int(4, member_range),
                encoded_shared_values,
                pack_length(len(members)),
                members,
                suffix,
            )
        )
        for member_range, members in zip(rows.ranges, rows.members, strict=True)
    ]


# The code below inserts encoded rows into a batch of the driver. It depends on internals of the driver.

_FRAME_HEADER_BYTES = 9
"""Bytes of a frame before its body; the last four are the body's length."""
_ROWS_OFFSET = _FRAME_HEADER_BYTES + 3
"""Offset of the rows in a frame. Before them are the kind of the batch and the number of its rows."""


class PreencodedBatch(BatchStatement):  # type: ignore[misc]  # the driver ships no types
    """Batch with encoded rows."""

    def __init__(self, message: RowMessage) -> None:
        super().__init__(batch_type=BatchType.UNLOGGED)
        self._statements_and_parameters = message
        self._routing_key = message.routing_key


class PreencodedBatchProtocol(ProtocolHandler):  # type: ignore[misc]  # the driver ships no types
    """Protocol handler that encodes as the driver does, and inserts the rows of a PreencodedBatch."""

    @classmethod
    def encode_message(cls, msg: Any, *args: Any, **options: Any) -> bytes:
        frame: bytes = super().encode_message(msg, *args, **options)
        row_message = getattr(msg, "queries", None)
        return _splice_rows(frame, row_message.joined_rows) if isinstance(row_message, RowMessage) else frame


def driver_batch(message: RowMessage, prepared: PreparedStatement) -> BatchStatement:
    """Return the rows as a regular batch of the driver, which is sent at a fifth of the speed."""
    batch = BatchStatement(batch_type=BatchType.UNLOGGED)
    for values in message.values():
        batch.add(prepared, values)
    return batch


def encoding_matches_driver(handler: type[ProtocolHandler], message: RowMessage, prepared: PreparedStatement) -> bool:
    """Return whether our encoding of the first row, and its routing key, equal those of the driver."""
    first_row = message.first_row()
    try:
        ours, regular = PreencodedBatch(first_row), driver_batch(first_row, prepared)
        same_key = ours.routing_key == regular.routing_key
        return same_key and _encode_batch(handler, ours) == _encode_batch(ProtocolHandler, regular)
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
    return handler.encode_message(message, 1, PROTOCOL_VERSION, compressor=None, allow_beta_protocol_version=False)


def _splice_rows(frame: bytes, rows: bytes) -> bytes:
    length = struct.pack(">i", len(frame) - _FRAME_HEADER_BYTES + len(rows))
    return b"".join(
        (frame[: _FRAME_HEADER_BYTES - 4], length, frame[_FRAME_HEADER_BYTES:_ROWS_OFFSET], rows, frame[_ROWS_OFFSET:])
    )
