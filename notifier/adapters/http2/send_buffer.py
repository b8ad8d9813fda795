"""Send buffer of a connection: queued frames, and bodies under flow control."""

from notifier.adapters.http2 import frames
from notifier.adapters.http2.frames import Violation, frame
from notifier.adapters.http2.request import Request


class SendBuffer:
    """Bytes to send on one connection, and requests whose bodies wait until the peer widens a flow-control window."""

    __slots__ = ("_blocked", "_connection_window", "bytes_sent", "initial_window", "max_frame_size", "queued")

    def __init__(self, queued: bytes) -> None:
        self.queued = bytearray(queued)
        self.bytes_sent = 0
        """Total bytes handed to the socket since the connection began."""
        self.max_frame_size = frames.DEFAULT_FRAME_SIZE
        self.initial_window = self._connection_window = frames.DEFAULT_WINDOW
        self._blocked: dict[int, Request] = {}

    def on_sent(self, count: int) -> None:
        self.bytes_sent += count
        del self.queued[:count]

    def queue_request(self, request: Request, block: bytes) -> None:
        self._queue_headers(request.stream, block, is_last=not request.unqueued_body)
        if request.unqueued_body:
            self._queue_body(request)
        else:
            self._record_end(request)

    def forget_unqueued_body(self, request: Request) -> None:
        self._blocked.pop(request.stream, None)

    def change_window(self, request: Request, increment: int) -> None:
        """Change the window of the request's stream; the increment may be negative."""
        request.window = checked_window(request.window + increment)
        if request.stream in self._blocked:
            self._queue_body(request)

    def widen_connection_window(self, increment: int) -> None:
        self._connection_window = checked_window(self._connection_window + increment)
        self.queue_blocked_bodies()

    def queue_blocked_bodies(self) -> None:
        for request in [*self._blocked.values()]:
            if self._connection_window <= 0:
                return
            self._queue_body(request)

    def _queue_headers(self, stream: int, block: bytes, *, is_last: bool) -> None:
        """Queue a header block in one frame, or, if it is too large, in consecutive frames."""
        size, flags = self.max_frame_size, frames.END_STREAM if is_last else 0
        kind = frames.HEADERS
        while len(block) > size:
            self.queued += frame(kind, flags, stream, block[:size])
            kind, flags, block = frames.CONTINUATION, 0, block[size:]
        self.queued += frame(kind, flags | frames.END_HEADERS, stream, block)

    def _queue_body(self, request: Request) -> None:
        """Queue as much of the body as the windows allow, in frames of the allowed size."""
        while request.unqueued_body:
            size = min(len(request.unqueued_body), request.window, self._connection_window, self.max_frame_size)
            if size <= 0:
                self._blocked[request.stream] = request
                return
            chunk, request.unqueued_body = request.unqueued_body[:size], request.unqueued_body[size:]
            request.window -= size
            self._connection_window -= size
            self.queued += frame(frames.DATA, 0 if request.unqueued_body else frames.END_STREAM, request.stream, chunk)
        self._blocked.pop(request.stream, None)
        self._record_end(request)

    def _record_end(self, request: Request) -> None:
        request.end_offset = self.bytes_sent + len(self.queued)


def checked_window(window: int) -> int:
    if window > frames.MAX_WINDOW:
        raise Violation(frames.FLOW_CONTROL_ERROR, "flow-control window is too large")
    return window
