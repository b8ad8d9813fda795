"""Client side of one HTTP/2 connection: bytes in, bytes out, no socket or clock.

It knows for each request whether its last byte was sent. When a connection breaks, it reports which requests may have
arrived.
"""

from collections.abc import Callable, Iterable

from notifier.adapters.http2 import frames
from notifier.adapters.http2.frames import Violation, frame
from notifier.adapters.http2.hpack import NO_TABLE, Decoder, encoded, field
from notifier.adapters.http2.limits import Http2Limits
from notifier.adapters.http2.request import MAX_BODY, UNSENT, FinishedRequest, RequestInFlight, parsed_response
from notifier.adapters.http2.send_buffer import SendBuffer, require_window

CONNECTION_WINDOW = 1 << 24
"""Receive window of all streams together; answers are read as they arrive. Each stream keeps the initial 64 KiB."""
CONNECTION_PREFACE = (
    frames.PREFACE
    + frames.settings(
        [(frames.TABLE_SIZE, 0), (frames.ENABLE_PUSH, 0), (frames.MAX_HEADER_LIST, frames.HeaderBlocks.MAX_BYTES)]
    )
    + frames.window_update(0, CONNECTION_WINDOW - frames.WINDOW)
)
MAX_QUEUED = 1 << 18
"""Bytes queued for the socket at which no more requests are started."""
MAX_PENDING_ACKS = 10_000
"""Limit for queued acknowledgements. A peer that exceeds it requests answers without reading them."""
LAST_STREAM = 2**31 - 1
NOT_HTTP = "the response is not HTTP"


class Http2Connection:
    def __init__(self, limits: Http2Limits, now: float) -> None:
        self.out = SendBuffer(CONNECTION_PREFACE)
        self.done: list[FinishedRequest] = []
        self.again: list[RequestInFlight] = []
        """Requests that were certainly not processed, and may be sent on another connection."""
        self.answered_at = 0.0
        self.settled = False
        """Whether the peer has announced its stream limit. Until then it gets one stream."""
        self.leaving = ""
        """Why no more requests may start on this connection, or an empty string."""
        self._limits = limits
        self._flights: dict[int, RequestInFlight] = {}
        """Requests in flight by stream, the oldest first."""
        self._reader, self._blocks, self._decoder = frames.FrameReader(), frames.HeaderBlocks(), Decoder()
        self._next = self._streams = 1
        self._unacknowledged_bytes = self._pending_acks = 0
        self._received_at, self._pinged_at, self._ping_count = now, 0.0, 0
        self._proving = False

    @property
    def free_streams(self) -> int:
        """Number of requests that may start now."""
        if self.leaving or self._proving or len(self.out.queued) > MAX_QUEUED:
            return 0
        return min(self._streams, self._limits.streams) - len(self._flights)

    @property
    def is_busy(self) -> bool:
        return bool(self._flights)

    @property
    def has_begun(self) -> bool:
        return self._next > 1

    def begin(self, flight: RequestInFlight, now: float) -> None:
        """Start a request. Call only if there is room."""
        stream, post = self._next, flight.post
        self._next += 2
        if self._next > LAST_STREAM:
            self.leaving = "the connection has used all stream numbers"
        flight.reset(stream, self.out.first_window, now + self._limits.answer_timeout.total_seconds())
        self._flights[stream] = flight
        size = encoded([("content-length", str(len(post.body)))])  # some push services require it
        block = flight.origin.head + field(":path", post.path) + size + encoded(post.headers)
        self.out.request(flight, NO_TABLE + block if stream == 1 else block)

    def receive(self, data: bytes, now: float) -> None:
        """Process received bytes. Raises Violation if the peer violates the protocol; earlier frames stay processed."""
        self._received_at = now
        if not self._proving:
            self._pinged_at = 0.0
        if not self.out.queued:
            self._pending_acks = 0
        for received in self._reader.feed(data):
            kind, flags, stream, load = received
            if kind in (frames.HEADERS, frames.CONTINUATION) or self._blocks.is_open:
                if (block := self._blocks.take(received)) is not None:
                    self._on_headers(*block)
            elif (handle := _HANDLERS.get(kind)) is not None:
                handle(self, flags, stream, load)

    def check_timeouts(self, now: float) -> bool:
        """Time out old requests, and send a PING after a silence. Return False if a PING was not answered in time.

        Call only after all received bytes were processed: an unread answer is not a timeout.
        """
        while self._flights and (flight := next(iter(self._flights.values()))).deadline <= now:
            self._fail(flight, "no response in time")
        if self._pinged_at:
            return now - self._pinged_at < self._limits.pong_timeout.total_seconds()
        if self._flights and now - self._received_at >= self._limits.ping_after.total_seconds():
            self._ping(now)
        return True

    def require_ping_after_idle(self, now: float) -> None:
        """After an idle time, require a PING acknowledgement before new requests.

        Data received during the idle time does not prove that the connection is alive.
        """
        rested = now - self._received_at >= self._limits.idle.total_seconds()
        if rested and not self._flights and not self._pinged_at:
            self._proving = True
            self._ping(now)

    def cancel_all(self) -> None:
        """Cancel all requests: their answers are no longer needed."""
        for flight in [*self._flights.values()]:
            self._reset(flight, frames.CANCEL)

    def on_closed(self, reason: str) -> None:
        """Handle the end of the connection. Only requests that were sent completely may have arrived."""
        self.leaving = self.leaving or reason
        sent = [flight for flight in self._flights.values() if self.out.bytes_sent >= flight.end_offset]
        for flight in sent:
            self._remove(flight)
            self.done.append((flight, flight.unanswered(reason, may_have_arrived=True)))
        self._return_unsent([*self._flights.values()], counts_as_attempt=bool(sent or self.answered_at))

    def _ping(self, now: float) -> None:
        self._pinged_at = now
        self._ping_count += 1
        self.out.queued += frame(frames.PING, 0, 0, self._ping_count.to_bytes(8, "big"))

    def _on_headers(self, stream: int, flags: int, block: bytes) -> None:
        fields = self._decoder.decode(block)
        if (flight := self._flight(stream)) is None:
            return
        if not flight.status:  # ignore trailers after the body
            status, headers = parsed_response(fields)
            if 100 <= status < 200 and not flags & frames.END_STREAM:
                return
            if status < 200:
                self._fail(flight, NOT_HTTP, frames.PROTOCOL_ERROR)
                return
            flight.status, flight.headers = status, headers
        if flags & frames.END_STREAM:
            self._finish(flight)

    def _on_data(self, flags: int, stream: int, load: bytes) -> None:
        self._unacknowledged_bytes += len(load)
        if self._unacknowledged_bytes >= CONNECTION_WINDOW // 2:
            self.out.queued += frames.window_update(0, self._unacknowledged_bytes)
            self._unacknowledged_bytes = 0
        if (flight := self._flight(stream)) is None:
            return
        if not flight.status:
            self._fail(flight, NOT_HTTP, frames.PROTOCOL_ERROR)
            return
        flight.body += frames.payload_without_padding(flags & ~frames.WITH_PRIORITY, load)
        if flags & frames.END_STREAM or len(flight.body) > MAX_BODY:
            self._finish(flight, early=not flags & frames.END_STREAM)

    def _finish(self, flight: RequestInFlight, *, early: bool = False) -> None:
        """Finish a request with its reply. Reset the stream if either side has not sent everything yet."""
        if early or flight.unsent_body:
            self._reset(flight, frames.CANCEL)
        else:
            self._remove(flight)
        self.answered_at = self._received_at
        self.done.append((flight, flight.reply()))

    def _fail(self, flight: RequestInFlight, reason: str, code: int = frames.CANCEL) -> None:
        """Fail a request. One that was not queued completely certainly did not arrive."""
        self._reset(flight, code)
        self.done.append((flight, flight.unanswered(reason, may_have_arrived=flight.end_offset != UNSENT)))

    def _return_unsent(self, flights: Iterable[RequestInFlight], *, counts_as_attempt: bool) -> None:
        """Return unprocessed requests for a resend on another connection.

        With `others`, the attempt is not counted, because other requests made progress. The oldest requests progress on
        each connection, so all of them get through in the end.
        """
        for flight in flights:
            self._remove(flight)
            flight.attempts -= counts_as_attempt
            self.again.append(flight)

    def _reset(self, flight: RequestInFlight, code: int) -> None:
        self.out.queued += frames.reset(flight.stream, code)
        self._remove(flight)

    def _remove(self, flight: RequestInFlight) -> None:
        del self._flights[flight.stream]
        self.out.forget(flight)

    def _on_reset(self, flags: int, stream: int, load: bytes) -> None:
        code = frames.read_number(load)
        if (flight := self._flight(stream)) is None:
            return
        if code == frames.REFUSED_STREAM or self.out.bytes_sent < flight.end_offset:
            self._return_unsent([flight], counts_as_attempt=False)
            return
        self._remove(flight)
        reason = f"the stream was reset: {frames.CODES.get(code, f'error {code}')}"
        self.done.append((flight, flight.unanswered(reason, may_have_arrived=True)))

    def _on_settings(self, flags: int, stream: int, load: bytes) -> None:
        if flags & frames.ACK:
            return
        if not self.settled:
            self.settled, self._streams = True, LAST_STREAM
        for name, value in frames.read_settings(load):
            if name == frames.MAX_STREAMS:
                self._streams = value
            elif name == frames.FIRST_WINDOW:
                self._resize(value)
            elif name == frames.MAX_FRAME_SIZE:
                self.out.max_frame_size = max(value, frames.DEFAULT_FRAME_SIZE)
        self._queue_ack(frame(frames.SETTINGS, frames.ACK, 0))
        self.out.send_blocked()

    def _resize(self, window: int) -> None:
        """Change the initial window of all streams, including active ones, whose window may become negative."""
        more = require_window(window) - self.out.first_window
        self.out.first_window = window
        for flight in [*self._flights.values()]:
            self.out.widen(flight, more)

    def _on_window(self, flags: int, stream: int, load: bytes) -> None:
        more = frames.read_number(load) & frames.MAX_WINDOW
        if not stream:
            self.out.widen_all(more)
        elif (flight := self._flight(stream)) is not None:
            self.out.widen(flight, more)

    def _on_ping(self, flags: int, stream: int, load: bytes) -> None:
        if not flags & frames.ACK:
            self._queue_ack(frame(frames.PING, frames.ACK, 0, load[:8]))
        elif int.from_bytes(load, "big") == self._ping_count:
            self._proving, self._pinged_at = False, 0.0

    def _queue_ack(self, acknowledgement: bytes) -> None:
        self._pending_acks += 1
        if self._pending_acks > MAX_PENDING_ACKS:
            raise Violation(frames.ENHANCE_YOUR_CALM, "the peer requests acknowledgements without reading them")
        self.out.queued += acknowledgement

    def _on_goaway(self, flags: int, stream: int, load: bytes) -> None:
        """Resend the requests above the last processed stream. A later GOAWAY may name a smaller stream."""
        last, code = frames.read_goaway(load)
        self.leaving = f"the peer sent GOAWAY: {frames.CODES.get(code, f'error {code}')}"
        self._return_unsent(
            [flight for number, flight in self._flights.items() if number > last], counts_as_attempt=last > 0
        )

    def _on_push(self, flags: int, stream: int, load: bytes) -> None:
        raise Violation(frames.PROTOCOL_ERROR, "unexpected push promise")

    def _flight(self, stream: int) -> RequestInFlight | None:
        """Return the request of a stream, or None if this side has already ended it.

        Raises Violation for a stream that was never started.
        """
        if stream >= self._next or not stream & 1:
            raise Violation(frames.PROTOCOL_ERROR, "response to a stream that was never opened")
        return self._flights.get(stream)


_HANDLERS: dict[int, Callable[[Http2Connection, int, int, bytes], None]] = {
    frames.DATA: Http2Connection._on_data,
    frames.RST_STREAM: Http2Connection._on_reset,
    frames.SETTINGS: Http2Connection._on_settings,
    frames.PUSH_PROMISE: Http2Connection._on_push,
    frames.PING: Http2Connection._on_ping,
    frames.GOAWAY: Http2Connection._on_goaway,
    frames.WINDOW_UPDATE: Http2Connection._on_window,
}
