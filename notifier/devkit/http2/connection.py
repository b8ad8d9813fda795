"""One HTTP/2 connection of the test server, with configurable misbehavior."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from notifier.adapters.http2 import frames
from notifier.adapters.http2.frames import PREFACE, Violation, frame
from notifier.devkit.http2.behaviour import Conduct
from notifier.devkit.http2.streams import ALL_WINDOW, Answering, RequestReceiver, ServerRequest
from notifier.ports.push import Post, Reply, Silence

Asked = Callable[[Post], Reply | Silence]
"""Request handler. A Silence with `left` means processed without a response; any other Silence refuses the stream."""

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ConnectionCounts:
    """Statistics of a server."""

    connections: int = 0
    acted_upon: int = 0
    most_streams: int = 0
    """Maximum number of concurrent streams on one connection."""
    broken: int = 0
    """Connections on which the client violated the protocol."""


class Linked(Protocol):
    """A connection of any HTTP version."""

    def tell_now(self) -> None: ...

    def abort(self) -> None: ...


@dataclass(slots=True, kw_only=True, eq=False)
class ServerState:
    """State shared by all connections of a server."""

    asked: Asked
    conduct: Conduct
    tally: ConnectionCounts = field(default_factory=ConnectionCounts)
    connections: set[Linked] = field(default_factory=set)

    def answer(self, post: Post) -> Reply | Silence:
        try:
            return self.asked(post)
        except Exception:
            log.exception("whoever answers has failed at %s", post.path)
            return Reply(status=500)


class ServerConnection(asyncio.Protocol):
    def __init__(self, house: ServerState) -> None:
        self._house = house
        self._say: list[bytes] = []
        self._asking, self._answering = RequestReceiver(self._say), Answering(self._say)
        self._reader, self._blocks = frames.FrameReader(), frames.Blocks()
        self._begun = b""
        self._open: set[int] = set()
        """Streams without a complete response."""
        self._told: deque[int | None] = deque()
        """Stream limits in SETTINGS that the client has not acknowledged yet. They are not enforced before."""
        self._takes: int | None = None
        self._late: list[tuple[int, Reply]] = []
        self._came = self._greatest = 0
        """Number of processed requests, and their highest stream. A stream with a slow body may come later."""
        self._last: int | None = None
        """Last stream of a GOAWAY. Higher streams are not processed."""
        self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._house.tally.connections += 1
        self._house.connections.add(self)
        if not self._house.conduct.mute:
            self.tell()
            self._say.append(frames.window_update(0, ALL_WINDOW - frames.WINDOW))
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._house.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        try:
            if len(self._begun) < len(PREFACE):
                data = self._preface(data)
            self._hear(data)
        except Violation as broken:
            self._house.tally.broken += 1
            self._say.append(frames.goaway(self._asking.last, broken.code))
            self._end()
        self._flush()

    def tell(self) -> None:
        """Queue the current SETTINGS."""
        streams, window = self._house.conduct.streams, self._house.conduct.window
        limit = [] if streams is None else [(frames.MOST_STREAMS, streams)]
        self._told.append(streams)
        self._say.append(frames.settings([*limit, (frames.FIRST_WINDOW, window)]))

    def tell_now(self) -> None:
        if not (self._over or self._house.conduct.mute):
            self.tell()
            self._flush()

    def abort(self) -> None:
        self._transport.abort()

    def _preface(self, got: bytes) -> bytes:
        self._begun += got
        if not PREFACE.startswith(self._begun[: len(PREFACE)]):
            raise Violation(frames.PROTOCOL_ERROR, "this isn't HTTP/2")
        remainder, self._begun = self._begun[len(PREFACE) :], self._begun[: len(PREFACE)]
        return remainder

    def _hear(self, got: bytes) -> None:
        for received in self._reader.feed(got):
            if self._over:
                return
            kind, flags, stream, load = received
            if kind in (frames.HEADERS, frames.CONTINUATION) or self._blocks.open:
                if (block := self._blocks.take(received)) is not None:
                    self._on_headers(*block)
            elif (handle := _HANDLERS.get(kind)) is not None:
                handle(self, flags, stream, load)
        if self._late:
            pause = self._house.conduct.latency.total_seconds()
            asyncio.get_running_loop().call_later(pause, self._release, self._late)
            self._late = []

    def _on_headers(self, stream: int, flags: int, block: bytes) -> None:
        new = stream > self._asking.last
        request = self._asking.headers(stream, flags, block)
        if new:
            self._open.add(stream)
            self._house.tally.most_streams = max(self._house.tally.most_streams, len(self._open))
            if self._unwanted(stream):
                self._forget(stream)
                return
        if request is not None:
            self._act(request)

    def _unwanted(self, stream: int) -> bool:
        if self._last is not None and stream > self._last:
            return True  # GOAWAY has told the client; no reset is needed
        crowded = self._takes is not None and len(self._open) > self._takes
        if crowded or stream // 2 < self._house.conduct.refused:
            self._say.append(frames.reset(stream, frames.REFUSED_STREAM))
            return True
        return False

    def _on_data(self, flags: int, stream: int, load: bytes) -> None:
        if (request := self._asking.data(stream, flags, load)) is not None:
            self._act(request)
        elif stream in self._open:
            pause = self._house.conduct.pause.total_seconds()
            asyncio.get_running_loop().call_later(pause, self._take_more, stream, len(load))

    def _take_more(self, stream: int, more: int) -> None:
        self._say.append(frames.window_update(stream, more))
        self._flush()

    def _act(self, asked: ServerRequest) -> None:
        if self._last is not None and asked.stream > self._last:  # the body was completed after GOAWAY
            self._forget(asked.stream)
            return
        post, conduct = asked.post(), self._house.conduct
        self._came += 1
        self._greatest = max(self._greatest, asked.stream)
        self._house.tally.acted_upon += 1
        answer = self._answer(post)
        if self._came == conduct.goaway_after:
            self._last = self._greatest
            self._say.append(frames.goaway(self._last, frames.NO_ERROR))
        if self._came == conduct.cut_after:
            self._cut()
        elif isinstance(answer, Silence):
            if not answer.left:
                self._say.append(frames.reset(asked.stream, frames.REFUSED_STREAM))
                self._forget(asked.stream)
        elif conduct.latency:
            self._late.append((asked.stream, answer))
        else:
            self._reply(asked.stream, answer)

    def _answer(self, post: Post) -> Reply | Silence:
        answer = self._house.answer(post)
        return Silence(reason="it stalls", left=True) if self._house.conduct.stalls else answer

    def _release(self, late: list[tuple[int, Reply]]) -> None:
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
        self._asking.open.pop(stream, None)
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
            self._takes = self._told.popleft() if self._told else self._takes
            return
        for name, value in frames.read_settings(load):
            if name == frames.FIRST_WINDOW:
                self._answering.resize(value)
        self._say.append(frame(frames.SETTINGS, frames.ACK, 0))

    def _on_ping(self, flags: int, stream: int, load: bytes) -> None:
        if not (flags & frames.ACK or self._house.conduct.deaf):
            self._say.append(frame(frames.PING, frames.ACK, 0, load[:8]))

    def _on_window(self, flags: int, stream: int, load: bytes) -> None:
        self._answering.widen(stream, frames.read_number(load))


_HANDLERS: dict[int, Callable[[ServerConnection, int, int, bytes], None]] = {
    frames.DATA: ServerConnection._on_data,
    frames.RST_STREAM: ServerConnection._on_reset,
    frames.SETTINGS: ServerConnection._on_settings,
    frames.PING: ServerConnection._on_ping,
    frames.WINDOW_UPDATE: ServerConnection._on_window,
}
