"""CQL proxy that can make statements to Cassandra fail.

While it injects errors, one statement in four does not reach the node, and fails as Overloaded. One plain write in four
takes effect, but its response is replaced by a write timeout.
"""

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from notifier.devkit.tcp_proxy import ConnectionHook, TcpProxy

HEADER = struct.Struct(">BBhBI")
"""Frame header of protocol 4: version, flags, stream, opcode, length."""
REQUEST_VERSION, RESPONSE_VERSION = 4, 0x84
ERROR, OPTIONS, SUPPORTED, RESULT, EXECUTE, BATCH = 0x00, 0x05, 0x06, 0x08, 0x0A, 0x0D
VOID = struct.pack(">i", 1)
"""Start of the result of a plain write. Reads and conditional writes return rows."""
OVERLOADED, WRITE_TIMEOUT = 0x1001, 0x1100
LOCAL_QUORUM = 6
FIRST_ERROR_TIMEOUT_SECONDS = 20.0
"""Time limit of the wait for the first injected error."""


@dataclass(slots=True, kw_only=True)
class CqlProxy(TcpProxy):
    """Proxy in front of Cassandra that can inject errors."""

    is_refusing: bool = False
    """Whether errors are injected now."""
    error_count: int = 0
    statement_numbers: Iterator[int] = field(default_factory=count)

    def refuse(self, seconds: float) -> bool:
        """Inject errors for the given seconds, counted from the first error. Return whether there was an error.

        Before the first error, a client that has lost the node may still be reconnecting.
        """
        earlier_count, deadline = self.error_count, time.monotonic() + FIRST_ERROR_TIMEOUT_SECONDS
        self.is_refusing = True
        try:
            while self.error_count == earlier_count and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(seconds)
        finally:
            self.is_refusing = False
        return self.error_count > earlier_count

    def new_hook(self) -> "RefusalHook":
        return RefusalHook(self)


@dataclass(slots=True)
class RefusalHook(ConnectionHook):
    """Error injection on one connection. Requests and responses are changed in different threads."""

    proxy: CqlProxy
    request_buffer: bytearray = field(default_factory=bytearray)
    response_buffer: bytearray = field(default_factory=bytearray)
    injected_errors: dict[int, int] = field(default_factory=dict)
    """Codes of the errors to inject into responses, by stream."""

    def change_request(self, chunk: bytes) -> bytes:
        return b"".join(map(self._change_request_frame, _frames(self.request_buffer, chunk)))

    def change_response(self, chunk: bytes) -> bytes:
        return b"".join(map(self._change_response_frame, _frames(self.response_buffer, chunk)))

    def _change_request_frame(self, frame: bytes) -> bytes:
        _, _, stream, opcode, _ = HEADER.unpack_from(frame)
        if not self.proxy.is_refusing or opcode not in (EXECUTE, BATCH):
            return frame
        statement_number = next(self.proxy.statement_numbers) % 4
        if statement_number == 1:
            self.injected_errors[stream] = OVERLOADED
            # Send a request without effect instead, so that a response comes only if the node answers.
            return HEADER.pack(REQUEST_VERSION, 0, stream, OPTIONS, 0)
        if statement_number == 3:
            self.injected_errors[stream] = WRITE_TIMEOUT
        return frame

    def _change_response_frame(self, frame: bytes) -> bytes:
        _, _, stream, opcode, _ = HEADER.unpack_from(frame)
        error = self.injected_errors.pop(stream, None)
        if error == OVERLOADED and opcode == SUPPORTED:
            return self._error(stream, error, b"")
        if error == WRITE_TIMEOUT and opcode == RESULT and frame[HEADER.size :].startswith(VOID):
            return self._error(stream, error, struct.pack(">Hii", LOCAL_QUORUM, 0, 1) + _string(b"SIMPLE"))
        return frame

    def _error(self, stream: int, code: int, details: bytes) -> bytes:
        self.proxy.error_count += 1
        body = struct.pack(">i", code) + _string(b"refused by the test proxy") + details
        return HEADER.pack(RESPONSE_VERSION, 0, stream, ERROR, len(body)) + body


def _frames(buffer: bytearray, chunk: bytes) -> Iterator[bytes]:
    """Yield the complete frames. An incomplete frame stays in the buffer until the next chunk."""
    buffer += chunk
    while len(buffer) >= HEADER.size:
        end = HEADER.size + HEADER.unpack_from(buffer)[-1]
        if len(buffer) < end:
            return
        yield bytes(buffer[:end])
        del buffer[:end]


def _string(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text
