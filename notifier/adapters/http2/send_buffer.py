"""Send buffer of a connection: queued frames, and bodies limited by flow control."""

from notifier.adapters.http2 import frames
from notifier.adapters.http2.frames import Violation, frame
from notifier.adapters.http2.request import RequestInFlight


class SendBuffer:
    __slots__ = ("_blocked", "_window", "bytes_sent", "first_window", "max_frame_size", "queued")

    def __init__(self, queued: bytes) -> None:
        self.queued = bytearray(queued)
        self.bytes_sent = 0
        """Total bytes handed to the socket since the connection began."""
        self.max_frame_size = frames.DEFAULT_FRAME_SIZE
        self.first_window = self._window = frames.WINDOW
        self._blocked: dict[int, RequestInFlight] = {}

    def on_sent(self, count: int) -> None:
        self.bytes_sent += count
        del self.queued[:count]

    def request(self, flight: RequestInFlight, block: bytes) -> None:
        self._head(flight.stream, block, end=not flight.unsent_body)
        if flight.unsent_body:
            self._send_body(flight)
        else:
            self._finish(flight)

    def forget(self, flight: RequestInFlight) -> None:
        self._blocked.pop(flight.stream, None)

    def widen(self, flight: RequestInFlight, more: int) -> None:
        flight.window = require_window(flight.window + more)
        if flight.stream in self._blocked:
            self._send_body(flight)

    def widen_all(self, more: int) -> None:
        self._window = require_window(self._window + more)
        self.send_blocked()

    def send_blocked(self) -> None:
        for flight in [*self._blocked.values()]:
            if self._window <= 0:
                return
            self._send_body(flight)

    def _head(self, stream: int, block: bytes, *, end: bool) -> None:
        """Queue a header block in one frame, or, if it is too large, in consecutive frames."""
        size, flags = self.max_frame_size, frames.END_STREAM if end else 0
        kind = frames.HEADERS
        while len(block) > size:
            self.queued += frame(kind, flags, stream, block[:size])
            kind, flags, block = frames.CONTINUATION, 0, block[size:]
        self.queued += frame(kind, flags | frames.END_HEADERS, stream, block)

    def _send_body(self, flight: RequestInFlight) -> None:
        """Queue as much of the body as the windows allow, in frames of the allowed size."""
        while flight.unsent_body:
            size = min(len(flight.unsent_body), flight.window, self._window, self.max_frame_size)
            if size <= 0:
                self._blocked[flight.stream] = flight
                return
            chunk, flight.unsent_body = flight.unsent_body[:size], flight.unsent_body[size:]
            flight.window -= size
            self._window -= size
            self.queued += frame(frames.DATA, 0 if flight.unsent_body else frames.END_STREAM, flight.stream, chunk)
        self._blocked.pop(flight.stream, None)
        self._finish(flight)

    def _finish(self, flight: RequestInFlight) -> None:
        flight.end_offset = self.bytes_sent + len(self.queued)


def require_window(window: int) -> int:
    if window > frames.MAX_WINDOW:
        raise Violation(frames.FLOW_CONTROL_ERROR, "flow-control window is too large")
    return window
