"""Encode and decode HTTP/2 frames (RFC 9113)."""

from collections.abc import Iterable, Iterator
from struct import Struct, error

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0x0, 0x1, 0x2, 0x3
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 0x6, 0x7, 0x8, 0x9, 0xB

CODE_NAMES = {
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
"""Error codes of RST_STREAM and GOAWAY."""

TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST = range(1, 7)
"""Identifiers of settings."""

DEFAULT_WINDOW = 65_535
"""Default flow-control window in bytes, of each stream and of the whole connection."""
DEFAULT_FRAME_SIZE = 16_384
"""Default maximum payload of a frame, which every peer accepts. This client does not ask for larger frames."""
MAX_WINDOW = 2**31 - 1
LOWER_31_BITS = 2**31 - 1
"""Mask of a stream number or window increment, which drops the reserved bit."""

_FRAME_HEADER = Struct("!HBBBI")
_SETTING_ENTRY = Struct("!HI")
_UINT32 = Struct("!I")
_UINT32_PAIR = Struct("!II")

Frame = tuple[int, int, int, bytes]
"""Type, flags, stream id and payload."""


class Violation(Exception):
    """Protocol violation by the peer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _FRAME_HEADER.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def settings(pairs: Iterable[tuple[int, int]]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING_ENTRY.pack(*pair) for pair in pairs))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _UINT32.pack(increment))


def rst_stream(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, _UINT32.pack(code))


def goaway(last_stream: int, code: int) -> bytes:
    return frame(GOAWAY, 0, 0, _UINT32_PAIR.pack(last_stream, code))


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    if len(payload) % _SETTING_ENTRY.size:
        raise Violation(FRAME_SIZE_ERROR, "invalid length of a SETTINGS frame")
    return list(_SETTING_ENTRY.iter_unpack(payload))


def read_uint32(payload: bytes) -> int:
    """Read the payload of RST_STREAM or WINDOW_UPDATE. Raises Violation."""
    if len(payload) != _UINT32.size:
        raise Violation(FRAME_SIZE_ERROR, "payload is not four bytes")
    return int.from_bytes(payload, "big")


def read_goaway(payload: bytes) -> tuple[int, int]:
    """Return the last stream that may have been processed, and the error code. Raises Violation."""
    try:
        last_stream, code = _UINT32_PAIR.unpack_from(payload)
    except error:
        raise Violation(FRAME_SIZE_ERROR, "GOAWAY frame is too short") from None
    return last_stream & LOWER_31_BITS, code


def without_padding_and_priority(flags: int, payload: bytes) -> bytes:
    """Return the payload of DATA or HEADERS without padding and priority. Raises Violation."""
    if not flags & (PADDED | WITH_PRIORITY):
        return payload
    begin = bool(flags & PADDED) + (5 if flags & WITH_PRIORITY else 0)
    end = len(payload) - (payload[0] if flags & PADDED and payload else 0)
    if begin > end:
        raise Violation(PROTOCOL_ERROR, "padding is longer than the payload")
    return payload[begin:end]


class FrameReader:
    """Splits received bytes into frames, and buffers an incomplete frame."""

    __slots__ = ("_incomplete",)

    def __init__(self) -> None:
        self._incomplete = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the complete frames. Raises Violation at a payload larger than DEFAULT_FRAME_SIZE."""
        buffer = self._incomplete + data if self._incomplete else data
        pos, end, unpack = 0, len(buffer), _FRAME_HEADER.unpack_from
        try:
            while end - pos >= 9:
                high, low, kind, flags, stream = unpack(buffer, pos)
                length = high << 8 | low
                if length > DEFAULT_FRAME_SIZE:
                    raise Violation(FRAME_SIZE_ERROR, "frame is too large")
                begin, stop = pos + 9, pos + 9 + length
                if stop > end:
                    break
                pos = stop
                yield kind, flags, stream & LOWER_31_BITS, buffer[begin:stop]
        finally:  # also if the caller stops early
            self._incomplete = buffer[pos:]


class HeaderBlockAssembler:
    """Assembles a header block from the frames that carry it. No other frame may arrive within a block."""

    __slots__ = ("_block", "_block_start")

    MAX_BYTES = 65_536
    """Maximum bytes of a block. Real responses need far less, and an endless block would fill the memory."""

    def __init__(self) -> None:
        self._block_start: tuple[int, int] | None = None
        self._block = b""

    def add(self, frame_: Frame) -> tuple[int, int, bytes] | None:
        """Add a frame. Return the stream, the first frame's flags and the block once complete, else None.

        Raises Violation.
        """
        kind, flags, stream, payload = frame_
        if self._block_start is None:
            if kind == CONTINUATION:
                raise Violation(PROTOCOL_ERROR, "CONTINUATION without HEADERS")
            payload = without_padding_and_priority(flags, payload)
            if flags & END_HEADERS:
                return stream, flags, payload
            self._block_start = stream, flags
        elif kind != CONTINUATION or stream != self._block_start[0]:
            raise Violation(PROTOCOL_ERROR, "another frame inside a header block")
        self._block += payload
        if len(self._block) > self.MAX_BYTES:
            raise Violation(ENHANCE_YOUR_CALM, "header block is too large")
        if not flags & END_HEADERS:
            return None
        (stream, flags), block = self._block_start, self._block
        self._block_start, self._block = None, b""
        return stream, flags, block

    @property
    def is_open(self) -> bool:
        return self._block_start is not None
