"""Encode and decode HTTP/2 frames (RFC 9113)."""

from collections.abc import Iterable
from struct import Struct, error

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0x0, 0x1, 0x2, 0x3
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 0x6, 0x7, 0x8, 0x9, 0xB

CODES = {
    NO_ERROR: "no error",
    PROTOCOL_ERROR: "protocol error",
    INTERNAL_ERROR: "internal error",
    FLOW_CONTROL_ERROR: "flow control error",
    0x4: "settings timeout",
    0x5: "stream closed",
    FRAME_SIZE_ERROR: "frame size error",
    REFUSED_STREAM: "refused stream",
    CANCEL: "cancelled",
    COMPRESSION_ERROR: "compression error",
    0xA: "connect error",
    ENHANCE_YOUR_CALM: "enhance your calm",
    0xC: "inadequate security",
    0xD: "HTTP/1.1 required",
}
"""Readable names of the error codes in RST_STREAM and GOAWAY."""

TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, FIRST_WINDOW, MAX_FRAME_SIZE, MAX_HEADER_LIST = range(1, 7)
"""Identifiers of settings."""

WINDOW = 65_535
"""Initial window in bytes, of each stream and of the whole connection."""
DEFAULT_FRAME_SIZE = 16_384
"""Default maximum payload of a frame, which every peer accepts. This client does not ask for larger frames."""
MAX_WINDOW = 2**31 - 1

_HEAD = Struct("!HBBBI")
_SETTING = Struct("!HI")
_NUMBER = Struct("!I")
_PAIR = Struct("!II")

Frame = tuple[int, int, int, bytes]
"""Type, flags, stream id and payload."""


class Violation(Exception):
    """Protocol violation by the peer. The connection ends with this code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def frame(kind: int, flags: int, stream: int, load: bytes = b"") -> bytes:
    return _HEAD.pack(len(load) >> 8, len(load) & 0xFF, kind, flags, stream) + load


def settings(pairs: Iterable[tuple[int, int]]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in pairs))


def window_update(stream: int, more: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(more))


def reset(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def goaway(last: int, code: int) -> bytes:
    return frame(GOAWAY, 0, 0, _PAIR.pack(last, code))


def read_settings(load: bytes) -> list[tuple[int, int]]:
    if len(load) % _SETTING.size:
        raise Violation(FRAME_SIZE_ERROR, "invalid length of a SETTINGS frame")
    return list(_SETTING.iter_unpack(load))


def read_number(load: bytes) -> int:
    """Read the payload of RST_STREAM or WINDOW_UPDATE. Raises Violation."""
    if len(load) != _NUMBER.size:
        raise Violation(FRAME_SIZE_ERROR, "payload is not four bytes")
    return int.from_bytes(load, "big")


def read_goaway(load: bytes) -> tuple[int, int]:
    """Return the last stream that may have been processed, and the error code. Raises Violation."""
    try:
        last, code = _PAIR.unpack_from(load)
    except error:
        raise Violation(FRAME_SIZE_ERROR, "GOAWAY frame is too short") from None
    return last & MAX_WINDOW, code


def payload_without_padding(flags: int, load: bytes) -> bytes:
    """Return the payload of DATA or HEADERS without padding and priority. Raises Violation."""
    if not flags & (PADDED | WITH_PRIORITY):
        return load
    begin = bool(flags & PADDED) + (5 if flags & WITH_PRIORITY else 0)
    end = len(load) - (load[0] if flags & PADDED and load else 0)
    if begin > end:
        raise Violation(PROTOCOL_ERROR, "padding is longer than the payload")
    return load[begin:end]


class FrameReader:
    """Splits received bytes into frames, and buffers an incomplete frame."""

    __slots__ = ("_incomplete",)

    def __init__(self) -> None:
        self._incomplete = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the complete frames. Raises Violation for a frame above the agreed size."""
        buffer = self._incomplete + data if self._incomplete else data
        complete: list[Frame] = []
        at, end, unpack = 0, len(buffer), _HEAD.unpack_from
        while end - at >= 9:
            high, low, kind, flags, stream = unpack(buffer, at)
            length = high << 8 | low
            if length > DEFAULT_FRAME_SIZE:
                raise Violation(FRAME_SIZE_ERROR, "frame is too large")
            stop = at + 9 + length
            if stop > end:
                break
            complete.append((kind, flags, stream & MAX_WINDOW, buffer[at + 9 : stop]))
            at = stop
        self._incomplete = buffer[at:]
        return complete


class HeaderBlocks:
    """Assembles header blocks from several frames. No other frame may arrive within a block."""

    __slots__ = ("_block", "_first")

    MAX_BYTES = 65_536
    """Maximum bytes of a block. No honest peer needs more, and an endless block would fill the memory."""

    def __init__(self) -> None:
        self._first: tuple[int, int] | None = None
        self._block = b""

    def take(self, frame_: Frame) -> tuple[int, int, bytes] | None:
        """Add a frame. Return the stream, the flags of the first frame and the block once it is complete, else None.

        Raises Violation for any other frame within a block.
        """
        kind, flags, stream, load = frame_
        if self._first is None:
            if kind == CONTINUATION:
                raise Violation(PROTOCOL_ERROR, "CONTINUATION without HEADERS")
            load = payload_without_padding(flags, load)
            if flags & END_HEADERS:
                return stream, flags, load
            self._first = stream, flags
        elif kind != CONTINUATION or stream != self._first[0]:
            raise Violation(PROTOCOL_ERROR, "another frame inside a header block")
        self._block += load
        if len(self._block) > self.MAX_BYTES:
            raise Violation(ENHANCE_YOUR_CALM, "header block is too large")
        if not flags & END_HEADERS:
            return None
        (stream, flags), block = self._first, self._block
        self._first, self._block = None, b""
        return stream, flags, block

    @property
    def is_open(self) -> bool:
        return self._first is not None
