"""Test clients that read the live stream in the API's own event loop."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

import httpx
from litestar import Litestar

from notifier.api.http_server import HUB_KEY
from notifier.domain.bursts.burst import Burst
from notifier.flow.live.hub import LiveHub, OpenedBursts
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import SERVICE_KEY, MemoryBackend

T = TypeVar("T")
WAIT_LIMIT = 5.0
"""Seconds. Generous for a busy machine; no correct test waits this long."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    event: str
    data: Any
    id: str


def parse_events(text: str) -> list[StreamEvent]:
    """Parse by the SSE standard: a line ends with CR, LF or both, and an empty line ends an event."""
    events, name, data, last = [], "", list[str](), ""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match key:
            case "event":
                name = value
            case "data":
                data.append(value)
            case "id":
                last = value
            case "" if not line and data:
                events.append(StreamEvent(name, json.loads("\n".join(data)), last))
                name, data = "", []
    return events


def event_types(events: Sequence[StreamEvent]) -> list[str]:
    return [event.event for event in events]


@dataclass(slots=True, kw_only=True)
class OpenStream:
    """A client's connection to the stream, open or closed; it reads as fast or slowly as the test sets."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    ended: bool = False
    """The response was completed, not broken off."""
    reading: asyncio.Event = field(default_factory=asyncio.Event)
    """The client reads nothing until this is set."""
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None
    consumed: int = 0

    async def receive(self) -> dict[str, object]:
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {key.decode(): value.decode() for key, value in message["headers"]}
        else:
            await self.reading.wait()
            self.body += message["body"]
            self.ended = not message.get("more_body", False)
        self.changed.set()

    @property
    def events(self) -> list[StreamEvent]:
        return parse_events(self.body.decode())

    async def next_events(self, count: int = 1) -> list[StreamEvent]:
        """Return the events after those consumed so far; events of one write arrive together."""
        await self.wait_until(lambda: len(self.events) >= self.consumed + count)
        new = self.events[self.consumed :]
        self.consumed = len(self.events)
        return new

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_LIMIT):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def wait_closed(self) -> None:
        """Wait until the server has finished with the stream."""
        assert self.task
        async with asyncio.timeout(WAIT_LIMIT):
            await asyncio.wait({self.task})

    async def disconnect(self) -> None:
        self.disconnected.set()
        await self.wait_closed()


@dataclass(frozen=True, slots=True)
class ScriptedReader:
    """Returns what the test supplies as the overview of an operator's stream."""

    respond: Callable[[], Awaitable[bytes]]

    async def read(self) -> bytes:
        return await self.respond()


@dataclass(slots=True)
class SlowBursts:
    """Reads bursts of the store, and returns them when the test allows it."""

    bursts: OpenedBursts
    requested: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def opened_since(self, moment: datetime) -> Sequence[Burst]:
        self.requested.set()
        await self.released.wait()
        return await self.bursts.opened_since(moment)


@dataclass(slots=True, kw_only=True)
class LiveBackend:
    """A system with a live API in the event loop of the test; background loops run only when the test drives them."""

    backend: MemoryBackend = field(default_factory=MemoryBackend)
    app: Litestar = field(init=False)
    streams: list[OpenStream] = field(default_factory=list)
    mention_count: int = 0

    def __post_init__(self) -> None:
        self.app = self.backend.app(frozen_sleep)

    @property
    def hub(self) -> LiveHub:
        return cast(LiveHub, self.app.state[HUB_KEY])

    async def listen(
        self, user: str, last: str | None = None, *, reading: bool = True, token: str = "", origin: str = ""
    ) -> OpenStream:
        """Open a stream, and return once it has begun or was refused."""
        stream = OpenStream()
        if reading:
            stream.reading.set()
        headers = {"authorization": f"Bearer {token or self.backend.token(user)}", "host": "backend"}
        headers |= {} if last is None else {"last-event-id": last}
        headers |= {"origin": origin} if origin else {}
        app = cast(Callable[..., Awaitable[None]], self.app)
        stream.task = asyncio.create_task(_call(app, http_scope(headers), stream))
        self.streams.append(stream)
        await stream.wait_until(lambda: bool(stream.body) if reading else bool(stream.status))
        return stream

    async def mention(self, author: str = "ada", account: str = "nova", *, protected: bool = False) -> None:
        await self.accept_mention(author, account, protected=protected)
        self.backend.sequence()

    async def accept_mention(self, author: str = "ada", account: str = "nova", *, protected: bool = False) -> None:
        """Send a mention to the gateway, and process it no further."""
        self.mention_count += 1
        body = event(f"live-{self.mention_count}", author=author, mentions=[account], protected=protected)
        response = await self.request("POST", "/v1/events", SERVICE_KEY, json=body)
        assert response.status_code == 202, response.text

    async def request(self, method: str, path: str, bearer: str, **options: Any) -> httpx.Response:
        transport = httpx.ASGITransport(cast(Any, self.app))  # the two libraries spell ASGI differently
        headers = {"Authorization": f"Bearer {bearer}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://backend") as client:
            return await client.request(method, path, headers=headers, **options)

    async def as_user(self, user: str, method: str, path: str, **options: Any) -> Any:
        response = await self.request(method, path, self.backend.token(user), **options)
        assert response.status_code < 300, response.text
        return response.json() if response.content else None

    async def unread(self, user: str) -> Mapping[str, object]:
        return cast(Mapping[str, object], await self.as_user(user, "GET", "/v1/inbox/unread"))

    async def settle(self) -> None:
        """Let 10 seconds pass in which the hub misses nothing."""
        self.backend.clock.advance(timedelta(seconds=10))
        await self.hub.sweep()
        self.hub.caught_up_at = self.backend.clock.now()

    async def drain(self) -> None:
        """Wait until the tasks have written all that they can write now."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def close(self) -> None:
        self.hub.close()
        for stream in self.streams:
            await stream.disconnect()
        await asyncio.gather(*self.hub.background_tasks.tasks, return_exceptions=True)


def run_live(scenario: Callable[[LiveBackend], Awaitable[T]]) -> T:
    async def run() -> T:
        live = LiveBackend()
        try:
            return await scenario(live)
        finally:
            with suppress(TimeoutError):
                await live.close()

    return asyncio.run(run())


async def frozen_sleep(seconds: float) -> None:
    """Skip the pause between two writes, and stop every background loop after its first step."""
    if seconds < 0.5:
        await asyncio.sleep(0)
    else:
        await asyncio.Event().wait()


async def _call(app: Callable[..., Awaitable[None]], scope: dict[str, object], stream: OpenStream) -> None:
    try:
        await app(scope, stream.receive, stream.send)
    finally:
        stream.changed.set()


def http_scope(headers: Mapping[str, str]) -> dict[str, object]:
    """Return the ASGI scope of a request for a user's stream."""
    path = "/v1/inbox/stream"
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
        "client": ("127.0.0.1", 40_000),
        "server": ("backend", 80),
        "state": {},
    }
