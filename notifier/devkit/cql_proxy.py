"""A proxy before Cassandra that reads what it carries: every second statement is refused, as by a node in trouble.

Half of them are refused as Overloaded and never arrive; the other half take effect and are answered with a time-out.
"""

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from notifier.devkit.tcp_proxy import Conversation, Proxy

HEADER = struct.Struct(">BBhBI")
"""Version, flags, stream, opcode, length: a frame of protocol 4."""
VERSION, ANSWER = 4, 0x84
ERROR, OPTIONS, SUPPORTED, RESULT, EXECUTE, BATCH = 0x00, 0x05, 0x06, 0x08, 0x0A, 0x0D
VOID = struct.pack(">i", 1)
"""How the result of a plain write begins; reads and conditional writes are answered with rows."""
OVERLOADED, WRITE_TIMEOUT = 0x1001, 0x1100
LOCAL_QUORUM = 6
ASKED_WITHIN = 20.0
"""Seconds."""


@dataclass(slots=True, kw_only=True)
class CqlProxy(Proxy):
    refusing: bool = False
    refused: int = 0
    turn: Iterator[int] = field(default_factory=count)

    def refuse(self, seconds: float) -> bool:
        """For so long from the first refusal on: whoever has just lost the node may not be back yet. False when nothing
        was asked."""
        before, deadline = self.refused, time.monotonic() + ASKED_WITHIN
        self.refusing = True
        try:
            while self.refused == before and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(seconds)
        finally:
            self.refusing = False
        return self.refused > before

    def conversation(self) -> "Refusals":
        return Refusals(self)


@dataclass(slots=True)
class Refusals(Conversation):
    """Of one connection; each direction has a thread of its own."""

    proxy: CqlProxy
    asked: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)
    doomed: dict[int, int] = field(default_factory=dict)
    """By stream, the error that it is to be answered with."""

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
            # Instead of it a question without effect, so that the node still decides when there is an answer.
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
    """Those that are whole now; what begins another one is left for the next piece."""
    left += piece
    while len(left) >= HEADER.size:
        end = HEADER.size + HEADER.unpack_from(left)[-1]
        if len(left) < end:
            return
        yield bytes(left[:end])
        del left[:end]


def _string(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text
