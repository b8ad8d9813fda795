"""CQL's native protocol for the leanest writer: frames encoded in advance, responses only counted.

Version 4 has no checksums around its frames, which saves both sides some work.
"""

import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from notifier.adapters.cassandra.bulk.encoding import RowMessage

HEADER = struct.Struct(">BBhBi")
"""Version, flags, stream, opcode, length of the body."""
VERSION, STREAMS = 4, 1 << 15
ERROR, STARTUP, READY, BATCH = 0x00, 0x01, 0x02, 0x0D
UNLOGGED = 1
LOCAL_QUORUM = 6
TIMEOUT_SECONDS = 30.0
CHUNK = 16
"""Frames written to the socket in one call."""


@dataclass(slots=True)
class FrameConnection:
    """One connection. Responses come in any order, so only their number counts."""

    host: str
    port: int
    window: int
    """Maximum number of frames in flight."""
    _socket: socket.socket = field(init=False)
    _incomplete: bytes = b""

    def __post_init__(self) -> None:
        self._socket = socket.create_connection((self.host, self.port), timeout=TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        options = b"\x00\x01" + _string("CQL_VERSION") + _string("3.0.0")
        self._socket.sendall(HEADER.pack(VERSION, 0, 0, STARTUP, len(options)) + options)
        opcode, _ = next(self._answers())
        assert opcode == READY, opcode

    def close(self) -> None:
        self._socket.close()

    def send(self, chunks: Sequence[bytes], frames: int) -> None:
        """Send the frames and wait for as many responses. Raises ConnectionError with the text of an error response."""
        underway, left = 0, frames
        for chunk in chunks:
            many = min(CHUNK, left)
            while underway + many > self.window:
                underway -= self._taken()
            self._socket.sendall(chunk)
            underway, left = underway + many, left - many
        while underway:
            underway -= self._taken()

    def _taken(self) -> int:
        taken = 0
        for opcode, body in self._answers():
            if opcode == ERROR:
                raise ConnectionError(f"the node returned an error: {body!r}")
            taken += 1
        return taken

    def _answers(self) -> Iterator[tuple[int, bytes]]:
        """Yield all responses that have arrived, at least one."""
        has_answer = False
        while not has_answer:
            chunk = self._socket.recv(1 << 18)
            if not chunk:
                raise ConnectionError("the node closed the connection")
            data, at = self._incomplete + chunk, 0
            while len(data) - at >= HEADER.size:
                _, _, _, opcode, length = HEADER.unpack_from(data, at)
                if len(data) - at - HEADER.size < length:
                    break
                at += HEADER.size + length
                has_answer = True
                yield opcode, data[at - length : at]
            self._incomplete = data[at:]


def batches(messages: Sequence[RowMessage]) -> list[bytes]:
    """Encode the messages as frames, several in a chunk, ready to be sent."""
    frames = [_batch(number % STREAMS, message) for number, message in enumerate(messages)]
    return [b"".join(frames[at : at + CHUNK]) for at in range(0, len(frames), CHUNK)]


def _batch(stream: int, message: RowMessage) -> bytes:
    body = struct.pack(">BH", UNLOGGED, len(message)) + message.joined_rows + struct.pack(">HB", LOCAL_QUORUM, 0)
    return HEADER.pack(VERSION, 0, stream, BATCH, len(body)) + body


def _string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
