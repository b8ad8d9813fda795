"""CQL proxy that injects errors into every second statement.

Half of the errors are Overloaded, and the statement never reaches the node. The other half are write timeouts of
statements that take effect.
"""

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from notifier.devkit.tcp_proxy import Conversation, Proxy

HEADER = struct.Struct(">BBhBI")
"""Frame header of protocol 4: version, flags, stream, opcode, length."""
VERSION, ANSWER = 4, 0x84
ERROR, OPTIONS, SUPPORTED, RESULT, EXECUTE, BATCH = 0x00, 0x05, 0x06, 0x08, 0x0A, 0x0D
VOID = struct.pack(">i", 1)
"""Start of the result of a plain write. Reads and conditional writes return rows."""
OVERLOADED, WRITE_TIMEOUT = 0x1001, 0x1100
LOCAL_QUORUM = 6
ASKED_WITHIN = 20.0
"""Seconds to wait for the first statement."""


@dataclass(slots=True, kw_only=True)
class CqlProxy(Proxy):
    refusing: bool = False
    refused: int = 0
    turn: Iterator[int] = field(default_factory=count)

    def refuse(self, seconds: float) -> bool:
        """Inject errors for the given seconds after the first one. Return False if no statement was refused.

        The time starts at the first error, because a client that has lost the node may still be reconnecting.
        """
        refused_earlier, deadline = self.refused, time.monotonic() + ASKED_WITHIN
        self.refusing = True
        try:
            while self.refused == refused_earlier and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(seconds)
        finally:
            self.refusing = False
        return self.refused > refused_earlier

    def conversation(self) -> "Refusals":
        return Refusals(self)


@dataclass(slots=True)
class Refusals(Conversation):
    """Error injection on one connection. Each direction has its own thread."""

    proxy: CqlProxy
    asked: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)
    doomed: dict[int, int] = field(default_factory=dict)
    """Error code to inject, by stream."""

    def forth(self, piece: bytes) -> bytes:
        return b"".join(map(self._asked, _frames(self.asked, piece)))

    def back(self, piece: bytes) -> bytes:
        return b"".join(map(self._answered, _frames(self.answered, piece)))

    def _asked(self, frame: bytes) -> bytes:
        _, _, stream, opcode, _ = HEADER.unpack_from(frame)
        if not self.proxy.refusing or opcode not in (EXECUTE, BATCH):
            return frame
        turn = next(self.proxy.turn) % 4
        if turn == 1:
            self.doomed[stream] = OVERLOADED
            # Send a request without effect instead, so that the response still depends on the node.
            return HEADER.pack(VERSION, 0, stream, OPTIONS, 0)
        if turn == 3:
            self.doomed[stream] = WRITE_TIMEOUT
        return frame

    def _answered(self, frame: bytes) -> bytes:
        _, _, stream, opcode, _ = HEADER.unpack_from(frame)
        error = self.doomed.pop(stream, None)
        if error == OVERLOADED and opcode == SUPPORTED:
            return self._error(stream, error, b"")
        if error == WRITE_TIMEOUT and opcode == RESULT and frame[HEADER.size :].startswith(VOID):
            return self._error(stream, error, struct.pack(">Hii", LOCAL_QUORUM, 0, 1) + _string(b"SIMPLE"))
        return frame

    def _error(self, stream: int, code: int, more: bytes) -> bytes:
        self.proxy.refused += 1
        body = struct.pack(">i", code) + _string(b"refused by the trial") + more
        return HEADER.pack(ANSWER, 0, stream, ERROR, len(body)) + body


def _frames(left: bytearray, piece: bytes) -> Iterator[bytes]:
    """Yield the complete frames. An incomplete frame stays in the buffer until the next chunk."""
    left += piece
    while len(left) >= HEADER.size:
        end = HEADER.size + HEADER.unpack_from(left)[-1]
        if len(left) < end:
            return
        yield bytes(left[:end])
        del left[:end]


def _string(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text
