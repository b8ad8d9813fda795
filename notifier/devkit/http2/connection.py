"""One HTTP/2 connection of the test server, with configurable misbehavior."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from notifier.adapters.http2 import frames
from notifier.adapters.http2.frames import PREFACE, Violation, frame
from notifier.devkit.http2.streams import CONNECTION_WINDOW, RequestReceiver, ResponseSender, ServerRequest
from notifier.ports.push import NoReply, Post, Reply

RequestHandler = Callable[[Post], Reply | NoReply]
"""Handler of requests. For a NoReply the client gets REFUSED_STREAM, or nothing if `may_have_arrived` is set."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Behavior:
    """Configurable limits, delays and faults of the HTTP/2 test server."""

    max_concurrent_streams: int | None = 1_000
    """Concurrent streams per connection. FCM allows 100, and Apple sometimes only 1. None: no limit is announced."""
    latency: timedelta = timedelta(0)
    """Delay between a request and its response."""
    goaway_after: int | None = None
    """Number of processed requests after which a connection sends GOAWAY, finishes the open responses, and closes."""
    cut_after: int | None = None
    """Number of processed requests after which a connection closes. Open requests get no response."""
    refuse_first_streams: int = 0
    """How many of each connection's first streams are refused (REFUSED_STREAM)."""
    never_responds: bool = False
    """Whether requests are processed but get no response."""
    ignores_pings: bool = False
    """Whether pings are not acknowledged."""
    sends_no_settings: bool = False
    """Whether SETTINGS are never sent, so that a client does not know the stream limit."""
    initial_window: int = 65_535
    """Initial flow-control window in bytes for the body of a request."""
    window_update_delay: timedelta = timedelta(0)
    """Delay between the data of a request and the window update for it."""


@dataclass(slots=True, kw_only=True)
class ServerCounts:
    """Statistics of a server, over all of its connections."""

    connections: int = 0
    processed: int = 0
    max_streams: int = 0
    """Maximum number of concurrent streams on one connection."""
    violations: int = 0
    """Connections on which the client violated the protocol."""


class AnyServerConnection(Protocol):
    """A connection of any HTTP version."""

    def send_settings_now(self) -> None: ...

    def abort(self) -> None: ...


@dataclass(slots=True, kw_only=True, eq=False)
class ServerState:
    """State shared by all connections of a server."""

    handler: RequestHandler
    behavior: Http2Behavior
    counts: ServerCounts = field(default_factory=ServerCounts)
    connections: set[AnyServerConnection] = field(default_factory=set)

    def answer(self, post: Post) -> Reply | NoReply:
        try:
            return self.handler(post)
        except Exception:
            log.exception("request handler failed for %s", post.path)
            return Reply(status=500)


class ServerConnection(asyncio.Protocol):
    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._output: list[bytes] = []
        self._receiver, self._sender = RequestReceiver(self._output), ResponseSender(self._output)
        self._reader, self._blocks = frames.FrameReader(), frames.HeaderBlockAssembler()
        self._preface_bytes = b""
        self._open_streams: set[int] = set()
        """Streams whose response has not begun."""
        self._unacknowledged_settings: deque[int | None] = deque()
        """Stream limits of SETTINGS that the client has not acknowledged. A limit applies once it is acknowledged."""
        self._stream_limit: int | None = None
        self._delayed_replies: list[tuple[int, Reply]] = []
        self._processed_requests = 0
        self._highest_processed_stream = 0
        """The last processed request may have a lower stream, because its body took longer."""
        self._goaway_stream: int | None = None
        """Last stream of the GOAWAY that was sent. Higher streams are not processed."""
        self._is_closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.counts.connections += 1
        self._server.connections.add(self)
        if not self._server.behavior.sends_no_settings:
            self.queue_settings()
            self._output.append(frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW))
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._server.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        try:
            if len(self._preface_bytes) < len(PREFACE):
                data = self._read_preface(data)
            self._process(data)
        except Violation as violation:
            self._server.counts.violations += 1
            self._output.append(frames.goaway(self._receiver.last_stream, violation.code))
            self._close_on_flush()
        self._flush()

    def queue_settings(self) -> None:
        streams, window = self._server.behavior.max_concurrent_streams, self._server.behavior.initial_window
        limit = [] if streams is None else [(frames.MAX_STREAMS, streams)]
        self._unacknowledged_settings.append(streams)
        self._output.append(frames.settings([*limit, (frames.INITIAL_WINDOW_SIZE, window)]))

    def send_settings_now(self) -> None:
        if not (self._is_closing or self._server.behavior.sends_no_settings):
            self.queue_settings()
            self._flush()

    def abort(self) -> None:
        self._transport.abort()

    def _read_preface(self, data: bytes) -> bytes:
        self._preface_bytes += data
        if not PREFACE.startswith(self._preface_bytes[: len(PREFACE)]):
            raise Violation(frames.PROTOCOL_ERROR, "not HTTP/2")
        remainder, self._preface_bytes = self._preface_bytes[len(PREFACE) :], self._preface_bytes[: len(PREFACE)]
        return remainder

    def _process(self, data: bytes) -> None:
        for received in self._reader.feed(data):
            if self._is_closing:
                return
            kind, flags, stream, payload = received
            if kind in (frames.HEADERS, frames.CONTINUATION) or self._blocks.is_open:
                if (block := self._blocks.add(received)) is not None:
                    self._on_headers(*block)
            elif (handle := _HANDLERS.get(kind)) is not None:
                handle(self, flags, stream, payload)
        if self._delayed_replies:
            pause = self._server.behavior.latency.total_seconds()
            asyncio.get_running_loop().call_later(pause, self._send_delayed, self._delayed_replies)
            self._delayed_replies = []

    def _on_headers(self, stream: int, flags: int, block: bytes) -> None:
        is_new = stream > self._receiver.last_stream
        request = self._receiver.headers(stream, flags, block)
        if is_new:
            self._open_streams.add(stream)
            self._server.counts.max_streams = max(self._server.counts.max_streams, len(self._open_streams))
            if self._reject_forbidden(stream):
                self._forget(stream)
                return
        if request is not None:
            self._respond(request)

    def _reject_forbidden(self, stream: int) -> bool:
        """Reject a new stream that GOAWAY, the limit or the behavior forbids. Return whether it was rejected."""
        if self._goaway_stream is not None and stream > self._goaway_stream:
            return True  # GOAWAY has told the client; no reset is needed
        exceeds_limit = self._stream_limit is not None and len(self._open_streams) > self._stream_limit
        if exceeds_limit or stream // 2 < self._server.behavior.refuse_first_streams:
            self._output.append(frames.rst_stream(stream, frames.REFUSED_STREAM))
            return True
        return False

    def _on_data(self, flags: int, stream: int, payload: bytes) -> None:
        if (request := self._receiver.data(stream, flags, payload)) is not None:
            self._respond(request)
        elif stream in self._open_streams:
            pause = self._server.behavior.window_update_delay.total_seconds()
            asyncio.get_running_loop().call_later(pause, self._widen_window, stream, len(payload))

    def _widen_window(self, stream: int, size: int) -> None:
        self._output.append(frames.window_update(stream, size))
        self._flush()

    def _respond(self, request: ServerRequest) -> None:
        if self._goaway_stream is not None and request.stream > self._goaway_stream:  # its body ended after GOAWAY
            self._forget(request.stream)
            return
        post, behavior = request.post(), self._server.behavior
        self._processed_requests += 1
        self._highest_processed_stream = max(self._highest_processed_stream, request.stream)
        self._server.counts.processed += 1
        reply = self._handle(post)
        if self._processed_requests == behavior.goaway_after:
            self._goaway_stream = self._highest_processed_stream
            self._output.append(frames.goaway(self._goaway_stream, frames.NO_ERROR))
        if self._processed_requests == behavior.cut_after:
            self._cut()
        elif isinstance(reply, NoReply):
            if not reply.may_have_arrived:
                self._output.append(frames.rst_stream(request.stream, frames.REFUSED_STREAM))
                self._forget(request.stream)
        elif behavior.latency:
            self._delayed_replies.append((request.stream, reply))
        else:
            self._reply(request.stream, reply)

    def _handle(self, post: Post) -> Reply | NoReply:
        reply = self._server.answer(post)
        return (
            NoReply(reason="stalled by the script", may_have_arrived=True)
            if self._server.behavior.never_responds
            else reply
        )

    def _send_delayed(self, delayed: list[tuple[int, Reply]]) -> None:
        for stream, reply in delayed:
            if stream in self._open_streams:
                self._reply(stream, reply)
        self._flush()

    def _reply(self, stream: int, reply: Reply) -> None:
        self._sender.reply(stream, reply)
        self._open_streams.discard(stream)
        if self._goaway_stream is not None and not self._open_streams:
            self._close_on_flush()

    def _forget(self, stream: int) -> None:
        self._open_streams.discard(stream)
        self._receiver.incomplete.pop(stream, None)
        self._sender.forget(stream)

    def _cut(self) -> None:
        """Close the connection and drop all queued frames except a GOAWAY."""
        self._output[:] = [] if self._goaway_stream is None else [frames.goaway(self._goaway_stream, frames.NO_ERROR)]
        self._delayed_replies = []
        self._close_on_flush()

    def _close_on_flush(self) -> None:
        self._is_closing = True

    def _flush(self) -> None:
        if self._output and not self._transport.is_closing():
            self._transport.write(b"".join(self._output))
        self._output.clear()
        if self._is_closing:
            self._transport.close()

    def _on_reset(self, flags: int, stream: int, payload: bytes) -> None:
        self._forget(stream)

    def _on_settings(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & frames.ACK:
            self._stream_limit = (
                self._unacknowledged_settings.popleft() if self._unacknowledged_settings else self._stream_limit
            )
            return
        for name, value in frames.read_settings(payload):
            if name == frames.INITIAL_WINDOW_SIZE:
                self._sender.set_initial_window(value)
        self._output.append(frame(frames.SETTINGS, frames.ACK, 0))

    def _on_ping(self, flags: int, stream: int, payload: bytes) -> None:
        if not (flags & frames.ACK or self._server.behavior.ignores_pings):
            self._output.append(frame(frames.PING, frames.ACK, 0, payload[:8]))

    def _on_window(self, flags: int, stream: int, payload: bytes) -> None:
        self._sender.add_window(stream, frames.read_uint32(payload))


_HANDLERS: dict[int, Callable[[ServerConnection, int, int, bytes], None]] = {
    frames.DATA: ServerConnection._on_data,
    frames.RST_STREAM: ServerConnection._on_reset,
    frames.SETTINGS: ServerConnection._on_settings,
    frames.PING: ServerConnection._on_ping,
    frames.WINDOW_UPDATE: ServerConnection._on_window,
}
