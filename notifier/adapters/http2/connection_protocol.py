"""Client side of an HTTP/2 connection, without a socket or clock.

The caller passes received bytes to `receive`, and sends the bytes in `send_buffer`. When the connection breaks, a
request whose last byte was not sent can safely be sent again.
"""

from collections.abc import Callable, Iterable

from notifier.adapters.http2 import frames
from notifier.adapters.http2.frames import Violation, frame
from notifier.adapters.http2.hpack import TABLE_SIZE_ZERO, Decoder, encode_field, encode_fields
from notifier.adapters.http2.limits import Http2Limits
from notifier.adapters.http2.request import MAX_BODY_BYTES, NOT_QUEUED, FinishedRequest, Request, parse_response
from notifier.adapters.http2.send_buffer import SendBuffer, checked_window

CONNECTION_WINDOW = 1 << 24
"""Receive window of all streams together, in bytes. Each stream keeps the default window."""
CONNECTION_PREFACE = (
    frames.PREFACE
    + frames.settings(
        [
            (frames.TABLE_SIZE, 0),
            (frames.ENABLE_PUSH, 0),
            (frames.MAX_HEADER_LIST, frames.HeaderBlockAssembler.MAX_BYTES),
        ]
    )
    + frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
)
MAX_QUEUED_BYTES = 1 << 18
"""No request is started while more bytes than this are queued for the socket."""
MAX_PENDING_ACKS = 10_000
"""Maximum number of acknowledgements queued since the send buffer was last empty."""
MAX_STREAM_ID = 2**31 - 1
NOT_HTTP = "the response is not HTTP"


class Http2Connection:
    """State of one connection, with the requests in flight and the bytes to send."""

    def __init__(self, limits: Http2Limits, now: float) -> None:
        self.send_buffer = SendBuffer(CONNECTION_PREFACE)
        self.finished: list[FinishedRequest] = []
        self.resendable: list[Request] = []
        """Requests that were certainly not processed, and may be sent again."""
        self.last_response_at = 0.0
        self.knows_stream_limit = False
        """Whether the peer's settings have arrived. Until then at most one request is in flight."""
        self.closing_reason = ""
        """Why no more requests may start on this connection, or an empty string."""
        self._limits = limits
        self._requests: dict[int, Request] = {}
        """Requests in flight by stream, the oldest first."""
        self._reader, self._header_blocks, self._decoder = (
            frames.FrameReader(),
            frames.HeaderBlockAssembler(),
            Decoder(),
        )
        self._next_stream = self._peer_stream_limit = 1
        self._unacknowledged_bytes = self._pending_ack_count = 0
        self._last_received_at, self._pinged_at, self._ping_count = now, 0.0, 0
        self._blocked_until_pong = False
        """Whether no request may start before the last PING is acknowledged."""

    @property
    def free_stream_count(self) -> int:
        """Number of requests that may start now; 0 or less if none may."""
        if self.closing_reason or self._blocked_until_pong or len(self.send_buffer.queued) > MAX_QUEUED_BYTES:
            return 0
        return min(self._peer_stream_limit, self._limits.max_streams) - len(self._requests)

    @property
    def is_busy(self) -> bool:
        return bool(self._requests)

    @property
    def has_started_requests(self) -> bool:
        return self._next_stream > 1

    def start_request(self, request: Request, now: float) -> None:
        """Start a request. Call only while `free_stream_count` is positive."""
        stream, post = self._next_stream, request.post
        self._next_stream += 2
        if self._next_stream > MAX_STREAM_ID:
            self.closing_reason = "the connection has used all stream numbers"
        request.begin_attempt(
            stream, self.send_buffer.initial_window, now + self._limits.answer_timeout.total_seconds()
        )
        self._requests[stream] = request
        content_length = encode_fields([("content-length", str(len(post.body)))])  # some push services require it
        block = (
            request.origin.encoded_headers
            + encode_field(":path", post.path)
            + content_length
            + encode_fields(post.headers)
        )
        self.send_buffer.queue_request(request, TABLE_SIZE_ZERO + block if stream == 1 else block)

    def receive(self, data: bytes, now: float) -> None:
        """Process received bytes.

        Raises Violation at the first invalid frame; all frames before it have taken effect.
        """
        self._last_received_at = now
        # Any data shows that the peer is alive, except after an idle time: then the data may be old.
        if not self._blocked_until_pong:
            self._pinged_at = 0.0
        if not self.send_buffer.queued:
            self._pending_ack_count = 0
        for received in self._reader.feed(data):
            kind, flags, stream, payload = received
            if kind in (frames.HEADERS, frames.CONTINUATION) or self._header_blocks.is_open:
                if (block := self._header_blocks.add(received)) is not None:
                    self._on_headers(*block)
            elif (handle := _HANDLERS.get(kind)) is not None:
                handle(self, flags, stream, payload)

    def check_timeouts(self, now: float) -> bool:
        """Time out old requests, and queue a PING after a silence. Return False if a PING was not answered in time.

        Call only after all received bytes were processed: an unread response is not a timeout.
        """
        while self._requests and (request := next(iter(self._requests.values()))).deadline <= now:
            self._fail(request, "no response in time")
        if self._pinged_at:
            return now - self._pinged_at < self._limits.pong_timeout.total_seconds()
        if self._requests and now - self._last_received_at >= self._limits.ping_after.total_seconds():
            self._ping(now)
        return True

    def require_ping_after_idle(self, now: float) -> None:
        """If the connection was idle for `ping_after_idle`, queue a PING. Start no request before its acknowledgement.

        Call before reading: bytes that arrived while idle do not show that the peer is alive now.
        """
        was_idle = now - self._last_received_at >= self._limits.ping_after_idle.total_seconds()
        if was_idle and not self._requests and not self._blocked_until_pong:
            self._blocked_until_pong = True
            self._ping(now)

    def cancel_all(self) -> None:
        for request in [*self._requests.values()]:
            self._reset(request, frames.CANCEL)

    def on_closed(self, reason: str) -> None:
        """Finish the requests that were sent completely: they may have arrived. Make all others resendable."""
        self.closing_reason = self.closing_reason or reason
        sent_completely = [
            request for request in self._requests.values() if self.send_buffer.bytes_sent >= request.end_offset
        ]
        for request in sent_completely:
            self._remove(request)
            self.finished.append((request, request.reply_or_failure(reason, may_have_arrived=True)))
        self._return_unprocessed(
            [*self._requests.values()], others_progressed=bool(sent_completely or self.last_response_at)
        )

    def _ping(self, now: float) -> None:
        self._pinged_at = now
        self._ping_count += 1
        self.send_buffer.queued += frame(frames.PING, 0, 0, self._ping_count.to_bytes(8, "big"))

    def _on_headers(self, stream: int, flags: int, block: bytes) -> None:
        fields = self._decoder.decode(block)
        if (request := self._find_request(stream)) is None:
            return
        if not request.status:  # ignore trailers after the body
            status, headers = parse_response(fields)
            if 100 <= status < 200 and not flags & frames.END_STREAM:
                return
            if status < 200:
                self._fail(request, NOT_HTTP, frames.PROTOCOL_ERROR)
                return
            request.status, request.headers = status, headers
        if flags & frames.END_STREAM:
            self._finish(request)

    def _on_data(self, flags: int, stream: int, payload: bytes) -> None:
        self._unacknowledged_bytes += len(payload)
        if self._unacknowledged_bytes >= CONNECTION_WINDOW // 2:
            self.send_buffer.queued += frames.window_update(0, self._unacknowledged_bytes)
            self._unacknowledged_bytes = 0
        if (request := self._find_request(stream)) is None:
            return
        if not request.status:
            self._fail(request, NOT_HTTP, frames.PROTOCOL_ERROR)
            return
        # DATA frames have no priority: that flag has no meaning here.
        request.body += frames.without_padding_and_priority(flags & ~frames.WITH_PRIORITY, payload)
        if flags & frames.END_STREAM or len(request.body) > MAX_BODY_BYTES:
            self._finish(request, is_early=not flags & frames.END_STREAM)

    def _finish(self, request: Request, *, is_early: bool = False) -> None:
        """Finish a request with its reply. Reset the stream if one direction is still open."""
        if is_early or request.unqueued_body:
            self._reset(request, frames.CANCEL)
        else:
            self._remove(request)
        self.last_response_at = self._last_received_at
        self.finished.append((request, request.reply()))

    def _fail(self, request: Request, reason: str, code: int = frames.CANCEL) -> None:
        """Reset the stream and end the request. A request that was not queued completely did not arrive."""
        self._reset(request, code)
        self.finished.append(
            (request, request.reply_or_failure(reason, may_have_arrived=request.end_offset != NOT_QUEUED))
        )

    def _return_unprocessed(self, requests: Iterable[Request], *, others_progressed: bool) -> None:
        """Make the requests resendable. With `others_progressed`, the attempt does not count."""
        for request in requests:
            self._remove(request)
            request.attempt_count -= others_progressed
            self.resendable.append(request)

    def _reset(self, request: Request, code: int) -> None:
        self.send_buffer.queued += frames.rst_stream(request.stream, code)
        self._remove(request)

    def _remove(self, request: Request) -> None:
        del self._requests[request.stream]
        self.send_buffer.forget_unqueued_body(request)

    def _on_reset(self, flags: int, stream: int, payload: bytes) -> None:
        code = frames.read_uint32(payload)
        if (request := self._find_request(stream)) is None:
            return
        if code == frames.REFUSED_STREAM or self.send_buffer.bytes_sent < request.end_offset:
            self._return_unprocessed([request], others_progressed=False)
            return
        self._remove(request)
        reason = f"the stream was reset: {frames.CODE_NAMES.get(code, f'error {code}')}"
        self.finished.append((request, request.reply_or_failure(reason, may_have_arrived=True)))

    def _on_settings(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & frames.ACK:
            return
        if not self.knows_stream_limit:
            self.knows_stream_limit, self._peer_stream_limit = True, MAX_STREAM_ID
        for setting, value in frames.read_settings(payload):
            if setting == frames.MAX_STREAMS:
                self._peer_stream_limit = value
            elif setting == frames.INITIAL_WINDOW_SIZE:
                self._set_initial_window(value)
            elif setting == frames.MAX_FRAME_SIZE:
                self.send_buffer.max_frame_size = max(value, frames.DEFAULT_FRAME_SIZE)
        self._queue_ack(frame(frames.SETTINGS, frames.ACK, 0))
        self.send_buffer.queue_blocked_bodies()

    def _set_initial_window(self, window: int) -> None:
        """Change the initial window of all streams, including active ones, whose window may become negative."""
        increment = checked_window(window) - self.send_buffer.initial_window
        self.send_buffer.initial_window = window
        for request in [*self._requests.values()]:
            self.send_buffer.change_window(request, increment)

    def _on_window(self, flags: int, stream: int, payload: bytes) -> None:
        increment = frames.read_uint32(payload) & frames.LOWER_31_BITS
        if not stream:
            self.send_buffer.widen_connection_window(increment)
        elif (request := self._find_request(stream)) is not None:
            self.send_buffer.change_window(request, increment)

    def _on_ping(self, flags: int, stream: int, payload: bytes) -> None:
        if not flags & frames.ACK:
            self._queue_ack(frame(frames.PING, frames.ACK, 0, payload[:8]))
        elif int.from_bytes(payload, "big") == self._ping_count:
            self._blocked_until_pong, self._pinged_at = False, 0.0

    def _queue_ack(self, acknowledgement: bytes) -> None:
        self._pending_ack_count += 1
        if self._pending_ack_count > MAX_PENDING_ACKS:
            raise Violation(frames.ENHANCE_YOUR_CALM, "the peer requests acknowledgements without reading them")
        self.send_buffer.queued += acknowledgement

    def _on_goaway(self, flags: int, stream: int, payload: bytes) -> None:
        """Make the requests above the last processed stream resendable. A later GOAWAY may name a lower stream."""
        last_stream, code = frames.read_goaway(payload)
        self.closing_reason = f"the peer sent GOAWAY: {frames.CODE_NAMES.get(code, f'error {code}')}"
        self._return_unprocessed(
            [request for number, request in self._requests.items() if number > last_stream],
            others_progressed=last_stream > 0,
        )

    def _on_push(self, flags: int, stream: int, payload: bytes) -> None:
        raise Violation(frames.PROTOCOL_ERROR, "unexpected push promise")

    def _find_request(self, stream: int) -> Request | None:
        """Return the request of a stream, or None after its end. Raises Violation for a stream never started."""
        if stream >= self._next_stream or not stream & 1:
            raise Violation(frames.PROTOCOL_ERROR, "response to a stream that was never opened")
        return self._requests.get(stream)


_HANDLERS: dict[int, Callable[[Http2Connection, int, int, bytes], None]] = {
    frames.DATA: Http2Connection._on_data,
    frames.RST_STREAM: Http2Connection._on_reset,
    frames.SETTINGS: Http2Connection._on_settings,
    frames.PUSH_PROMISE: Http2Connection._on_push,
    frames.PING: Http2Connection._on_ping,
    frames.GOAWAY: Http2Connection._on_goaway,
    frames.WINDOW_UPDATE: Http2Connection._on_window,
}
