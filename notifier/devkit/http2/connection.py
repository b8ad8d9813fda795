"""One HTTP/2 connection of the test server, with configurable misbehavior."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from notifier.adapters.http2 import frames
from notifier.adapters.http2.frames import PREFACE, Violation, frame
from notifier.devkit.http2.behaviour import Http2Behaviour
from notifier.devkit.http2.streams import ALL_WINDOW, RequestReceiver, ResponseSender, ServerRequest
from notifier.ports.push import NoReply, Post, Reply

RequestHandler = Callable[[Post], Reply | NoReply]
"""Request handler. A Silence with `left` means processed without a response; any other Silence refuses the stream."""

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ConnectionCounts:
    """Statistics of a server."""

    connections: int = 0
    processed: int = 0
    most_streams: int = 0
    """Maximum number of concurrent streams on one connection."""
    violations: int = 0
    """Connections on which the client violated the protocol."""


class ServerConnectionLike(Protocol):
    """A connection of any HTTP version."""

    def send_settings_now(self) -> None: ...

    def abort(self) -> None: ...


@dataclass(slots=True, kw_only=True, eq=False)
class ServerState:
    """State shared by all connections of a server."""

    handler: RequestHandler
    behaviour: Http2Behaviour
    counts: ConnectionCounts = field(default_factory=ConnectionCounts)
    connections: set[ServerConnectionLike] = field(default_factory=set)

    def answer(self, post: Post) -> Reply | NoReply:
        try:
            return self.handler(post)
        except Exception:
            log.exception("request handler failed for %s", post.path)
            return Reply(status=500)


class ServerConnection(asyncio.Protocol):
    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._say: list[bytes] = []
        self._asking, self._answering = RequestReceiver(self._say), ResponseSender(self._say)
        self._reader, self._blocks = frames.FrameReader(), frames.HeaderBlockAssembler()
        self._begun = b""
        self._open: set[int] = set()
        """Streams without a complete response."""
        self._unacknowledged_settings: deque[int | None] = deque()
        """Stream limits in SETTINGS that the client has not acknowledged yet. They are not enforced before."""
        self._takes: int | None = None
        self._late: list[tuple[int, Reply]] = []
        self._requests_received = self._greatest = 0
        """Number of processed requests, and their highest stream. A stream with a slow body may come later."""
        self._last: int | None = None
        """Last stream of a GOAWAY. Higher streams are not processed."""
        self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.counts.connections += 1
        self._server.connections.add(self)
        if not self._server.behaviour.sends_no_settings:
            self.queue_settings()
            self._say.append(frames.window_update(0, ALL_WINDOW - frames.DEFAULT_WINDOW))
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._server.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        try:
            if len(self._begun) < len(PREFACE):
                data = self._preface(data)
            self._process(data)
        except Violation as broken:
            self._server.counts.violations += 1
            self._say.append(frames.goaway(self._asking.last, broken.code))
            self._end()
        self._flush()

    def queue_settings(self) -> None:
        """Queue the current SETTINGS."""
        streams, window = self._server.behaviour.streams, self._server.behaviour.window
        limit = [] if streams is None else [(frames.MAX_STREAMS, streams)]
        self._unacknowledged_settings.append(streams)
        self._say.append(frames.settings([*limit, (frames.INITIAL_WINDOW_SIZE, window)]))

    def send_settings_now(self) -> None:
        if not (self._over or self._server.behaviour.sends_no_settings):
            self.queue_settings()
            self._flush()

    def abort(self) -> None:
        self._transport.abort()

    def _preface(self, data: bytes) -> bytes:
        self._begun += data
        if not PREFACE.startswith(self._begun[: len(PREFACE)]):
            raise Violation(frames.PROTOCOL_ERROR, "not HTTP/2")
        remainder, self._begun = self._begun[len(PREFACE) :], self._begun[: len(PREFACE)]
        return remainder

    def _process(self, data: bytes) -> None:
        for received in self._reader.feed(data):
            if self._over:
                return
            kind, flags, stream, load = received
            if kind in (frames.HEADERS, frames.CONTINUATION) or self._blocks.is_open:
                if (block := self._blocks.take(received)) is not None:
                    self._on_headers(*block)
            elif (handle := _HANDLERS.get(kind)) is not None:
                handle(self, flags, stream, load)
        if self._late:
            pause = self._server.behaviour.latency.total_seconds()
            asyncio.get_running_loop().call_later(pause, self._send_late, self._late)
            self._late = []

    def _on_headers(self, stream: int, flags: int, block: bytes) -> None:
        new = stream > self._asking.last
        request = self._asking.headers(stream, flags, block)
        if new:
            self._open.add(stream)
            self._server.counts.most_streams = max(self._server.counts.most_streams, len(self._open))
            if self._unwanted(stream):
                self._forget(stream)
                return
        if request is not None:
            self._respond(request)

    def _unwanted(self, stream: int) -> bool:
        if self._last is not None and stream > self._last:
            return True  # GOAWAY has told the client; no reset is needed
        crowded = self._takes is not None and len(self._open) > self._takes
        if crowded or stream // 2 < self._server.behaviour.refused_streams:
            self._say.append(frames.reset(stream, frames.REFUSED_STREAM))
            return True
        return False

    def _on_data(self, flags: int, stream: int, load: bytes) -> None:
        if (request := self._asking.data(stream, flags, load)) is not None:
            self._respond(request)
        elif stream in self._open:
            pause = self._server.behaviour.pause.total_seconds()
            asyncio.get_running_loop().call_later(pause, self._take_more, stream, len(load))

    def _take_more(self, stream: int, more: int) -> None:
        self._say.append(frames.window_update(stream, more))
        self._flush()

    def _respond(self, request: ServerRequest) -> None:
        if self._last is not None and request.stream > self._last:  # the body was completed after GOAWAY
            self._forget(request.stream)
            return
        post, conduct = request.post(), self._server.behaviour
        self._requests_received += 1
        self._greatest = max(self._greatest, request.stream)
        self._server.counts.processed += 1
        answer = self._answer(post)
        if self._requests_received == conduct.goaway_after:
            self._last = self._greatest
            self._say.append(frames.goaway(self._last, frames.NO_ERROR))
        if self._requests_received == conduct.cut_after:
            self._cut()
        elif isinstance(answer, NoReply):
            if not answer.may_have_arrived:
                self._say.append(frames.reset(request.stream, frames.REFUSED_STREAM))
                self._forget(request.stream)
        elif conduct.latency:
            self._late.append((request.stream, answer))
        else:
            self._reply(request.stream, answer)

    def _answer(self, post: Post) -> Reply | NoReply:
        answer = self._server.answer(post)
        return (
            NoReply(reason="stalled by the script", may_have_arrived=True)
            if self._server.behaviour.never_responds
            else answer
        )

    def _send_late(self, late: list[tuple[int, Reply]]) -> None:
        for stream, reply in late:
            if stream in self._open:
                self._reply(stream, reply)
        self._flush()

    def _reply(self, stream: int, reply: Reply) -> None:
        self._answering.reply(stream, reply)
        self._open.discard(stream)
        if self._last is not None and not self._open:
            self._end()

    def _forget(self, stream: int) -> None:
        self._open.discard(stream)
        self._asking.incomplete.pop(stream, None)
        self._answering.forget(stream)

    def _cut(self) -> None:
        """Close the connection and drop all queued frames except a GOAWAY."""
        self._say[:] = [] if self._last is None else [frames.goaway(self._last, frames.NO_ERROR)]
        self._late = []
        self._end()

    def _end(self) -> None:
        self._over = True

    def _flush(self) -> None:
        if self._say and not self._transport.is_closing():
            self._transport.write(b"".join(self._say))
        self._say.clear()
        if self._over:
            self._transport.close()

    def _on_reset(self, flags: int, stream: int, load: bytes) -> None:
        self._forget(stream)

    def _on_settings(self, flags: int, stream: int, load: bytes) -> None:
        if flags & frames.ACK:
            self._takes = self._unacknowledged_settings.popleft() if self._unacknowledged_settings else self._takes
            return
        for name, value in frames.read_settings(load):
            if name == frames.INITIAL_WINDOW_SIZE:
                self._answering.resize(value)
        self._say.append(frame(frames.SETTINGS, frames.ACK, 0))

    def _on_ping(self, flags: int, stream: int, load: bytes) -> None:
        if not (flags & frames.ACK or self._server.behaviour.ignores_pings):
            self._say.append(frame(frames.PING, frames.ACK, 0, load[:8]))

    def _on_window(self, flags: int, stream: int, load: bytes) -> None:
        self._answering.widen(stream, frames.read_uint32(load))


_HANDLERS: dict[int, Callable[[ServerConnection, int, int, bytes], None]] = {
    frames.DATA: ServerConnection._on_data,
    frames.RST_STREAM: ServerConnection._on_reset,
    frames.SETTINGS: ServerConnection._on_settings,
    frames.PING: ServerConnection._on_ping,
    frames.WINDOW_UPDATE: ServerConnection._on_window,
}
