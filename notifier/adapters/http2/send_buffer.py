"""Send buffer of a connection: queued frames, and bodies limited by flow control."""

from notifier.adapters.http2 import frames
from notifier.adapters.http2.frames import Violation, frame
from notifier.adapters.http2.request import Flight


class SendBuffer:
    __slots__ = ("_stuck", "_window", "first_window", "gone", "largest", "queued")

    def __init__(self, queued: bytes) -> None:
        self.queued = bytearray(queued)
        self.gone = 0
        """Total bytes handed to the socket since the connection began."""
        self.largest = frames.LARGEST
        self.first_window = self._window = frames.WINDOW
        self._stuck: dict[int, Flight] = {}

    def sent(self, many: int) -> None:
        self.gone += many
        del self.queued[:many]

    def request(self, flight: Flight, block: bytes) -> None:
        self._head(flight.stream, block, end=not flight.rest)
        if flight.rest:
            self._push(flight)
        else:
            self._ended(flight)

    def forget(self, flight: Flight) -> None:
        self._stuck.pop(flight.stream, None)

    def widen(self, flight: Flight, more: int) -> None:
        flight.window = within(flight.window + more)
        if flight.stream in self._stuck:
            self._push(flight)

    def widen_all(self, more: int) -> None:
        self._window = within(self._window + more)
        self.push_all()

    def push_all(self) -> None:
        for flight in [*self._stuck.values()]:
            if self._window <= 0:
                return
            self._push(flight)

    def _head(self, stream: int, block: bytes, *, end: bool) -> None:
        """Queue a header block in one frame, or, if it is too large, in consecutive frames."""
        size, flags = self.largest, frames.END_STREAM if end else 0
        kind = frames.HEADERS
        while len(block) > size:
            self.queued += frame(kind, flags, stream, block[:size])
            kind, flags, block = frames.CONTINUATION, 0, block[size:]
        self.queued += frame(kind, flags | frames.END_HEADERS, stream, block)

    def _push(self, flight: Flight) -> None:
        """Queue as much of the body as the windows allow, in frames of the allowed size."""
        while flight.rest:
            size = min(len(flight.rest), flight.window, self._window, self.largest)
            if size <= 0:
                self._stuck[flight.stream] = flight
                return
            chunk, flight.rest = flight.rest[:size], flight.rest[size:]
            flight.window -= size
            self._window -= size
            self.queued += frame(frames.DATA, 0 if flight.rest else frames.END_STREAM, flight.stream, chunk)
        self._stuck.pop(flight.stream, None)
        self._ended(flight)

    def _ended(self, flight: Flight) -> None:
        flight.ends = self.gone + len(self.queued)


def within(window: int) -> int:
    if window > frames.MOST_WINDOW:
        raise Violation(frames.FLOW_CONTROL_ERROR, "a window that is too large")
    return window
