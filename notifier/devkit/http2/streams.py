"""Server side of HTTP/2 streams: requests, responses and flow control, without I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from notifier.adapters.http2 import frames
from notifier.adapters.http2.frames import Violation, frame
from notifier.adapters.http2.hpack import TABLE_SIZE_ZERO, Decoder, encode_fields
from notifier.ports.push import Post, Reply

CONNECTION_WINDOW = 1 << 24
MAX_BODY_BYTES = 1 << 20
"""Largest body of a request. No provider accepts even a hundredth of it."""
STATUS_200 = encode_fields([(":status", "200")])


@dataclass(slots=True)
class ServerRequest:
    """A request, as far as it has been received."""

    stream: int
    fields: Sequence[tuple[bytes, bytes]]
    body: bytes = b""

    def post(self) -> Post:
        """Convert the complete request. Raises Violation if it is malformed."""
        scheme = authority = path = ""
        headers: list[tuple[str, str]] = []
        for raw, value in self.fields:
            name, text = raw.decode("latin-1"), value.decode("latin-1")
            match name:
                case ":path":
                    path = text
                case ":scheme":
                    scheme = text
                case ":authority":
                    authority = text
                case ":method":
                    pass
                case "content-length":
                    if text != str(len(self.body)):
                        raise Violation(frames.PROTOCOL_ERROR, "body length differs from content-length")
                case _:
                    headers.append((name, text))
        if not (scheme and path):
            raise Violation(frames.PROTOCOL_ERROR, "request without a scheme or path")
        return Post(origin=f"{scheme}://{authority}", path=path, headers=headers, body=self.body)


@dataclass(slots=True)
class RequestReceiver:
    """Receives requests on one connection."""

    output: list[bytes]
    incomplete: dict[int, ServerRequest] = field(default_factory=dict)
    """Incomplete requests by stream."""
    last_stream: int = 0
    _decoder: Decoder = field(default_factory=Decoder)
    _unacknowledged_bytes: int = 0

    def headers(self, stream: int, flags: int, block: bytes) -> ServerRequest | None:
        """Handle a header block and return the request if it is complete. Raises Violation."""
        fields = self._decoder.decode(block)
        if stream in self.incomplete:  # trailers
            return self.incomplete.pop(stream) if flags & frames.END_STREAM else None
        if not stream & 1 or stream <= self.last_stream:
            raise Violation(frames.PROTOCOL_ERROR, "stream id is even or not new")
        self.last_stream = stream
        request = ServerRequest(stream=stream, fields=fields)
        if flags & frames.END_STREAM:
            return request
        self.incomplete[stream] = request
        return None

    def data(self, stream: int, flags: int, payload: bytes) -> ServerRequest | None:
        """Handle a DATA frame and return the request if it is complete. Raises Violation."""
        self._unacknowledged_bytes += len(payload)
        if self._unacknowledged_bytes >= CONNECTION_WINDOW // 2:
            self.output.append(frames.window_update(0, self._unacknowledged_bytes))
            self._unacknowledged_bytes = 0
        if (request := self.incomplete.get(stream)) is None:
            return None
        # DATA frames have no priority: that flag has no meaning here.
        request.body += frames.without_padding_and_priority(flags & ~frames.WITH_PRIORITY, payload)
        if len(request.body) > MAX_BODY_BYTES:
            raise Violation(frames.ENHANCE_YOUR_CALM, "body is too large")
        return self.incomplete.pop(stream) if flags & frames.END_STREAM else None


@dataclass(slots=True)
class ResponseSender:
    """Sends responses on one connection, within the client's flow-control windows."""

    output: list[bytes]
    window: int = frames.DEFAULT_WINDOW
    initial_window: int = frames.DEFAULT_WINDOW
    unsent: dict[int, bytes] = field(default_factory=dict)
    """Unsent parts of bodies by stream."""
    _windows: dict[int, int] = field(default_factory=dict)
    """Flow-control windows of the streams in `unsent`."""
    _has_sent_headers: bool = False

    def reply(self, stream: int, reply: Reply) -> None:
        block = STATUS_200 if reply.status == 200 else encode_fields([(":status", str(reply.status))])
        if reply.headers:
            block += encode_fields(reply.headers.items())
        if not self._has_sent_headers:
            block, self._has_sent_headers = TABLE_SIZE_ZERO + block, True
        flags = frames.END_HEADERS | (0 if reply.body else frames.END_STREAM)
        self.output.append(frame(frames.HEADERS, flags, stream, block))
        if reply.body:
            self.unsent[stream], self._windows[stream] = reply.body, self.initial_window
            self._send(stream)

    def add_window(self, stream: int, increment: int) -> None:
        if stream in self.unsent:
            self._windows[stream] += increment
            self._send(stream)
        elif not stream:
            self.window += increment
            self._send_all([*self.unsent])

    def set_initial_window(self, window: int) -> None:
        for stream in self._windows:
            self._windows[stream] += window - self.initial_window
        self.initial_window = window
        self._send_all([*self.unsent])

    def forget(self, stream: int) -> None:
        self.unsent.pop(stream, None)
        self._windows.pop(stream, None)

    def _send_all(self, streams: Iterable[int]) -> None:
        for stream in streams:
            self._send(stream)

    def _send(self, stream: int) -> None:
        body = self.unsent[stream]
        while (size := min(len(body), self.window, self._windows[stream], frames.DEFAULT_FRAME_SIZE)) > 0:
            chunk, body = body[:size], body[size:]
            self.window -= size
            self._windows[stream] -= size
            self.output.append(frame(frames.DATA, 0 if body else frames.END_STREAM, stream, chunk))
        self.unsent[stream] = body
        if not body:
            self.forget(stream)
