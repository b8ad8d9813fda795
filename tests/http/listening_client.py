"""Listeners in one loop with the house: they read a live stream as a browser would, and as slowly as a test wants."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

import httpx
from litestar import Litestar

from notifier.api.processes import HUB
from notifier.domain.bursts.burst import Burst
from notifier.flow.live.hub import Hub, OpenedBursts
from tests.support.example_event import event
from tests.support.http_app import SERVICE_KEY, House

T = TypeVar("T")
WITHIN = 5.0
"""Seconds, on a busy machine; nothing here waits so long when it is right."""


@dataclass(frozen=True, slots=True)
class Said:
    event: str
    data: Any
    id: str


def parsed(text: str) -> list[Said]:
    """By the rules of the standard: a line ends with CR, LF or both, and an empty one ends an event."""
    found, name, data, last = [], "", list[str](), ""
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
                found.append(Said(name, json.loads("\n".join(data)), last))
                name, data = "", []
    return found


def events(said: Sequence[Said]) -> list[str]:
    return [one.event for one in said]


@dataclass(slots=True, kw_only=True)
class Ear:
    """One open stream."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    ended: bool = False
    """The answer was brought to its end, not broken off."""
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    """While it isn't set, the client takes nothing."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None
    taken: int = 0

    async def receive(self) -> dict[str, object]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {key.decode(): value.decode() for key, value in message["headers"]}
        else:
            await self.reads.wait()
            self.body += message["body"]
            self.ended = not message.get("more_body", False)
        self.moved.set()

    @property
    def said(self) -> list[Said]:
        return parsed(self.body.decode())

    async def hear(self, many: int = 1) -> list[Said]:
        """The next events; those of one write come together."""
        await self.until(lambda: len(self.said) >= self.taken + many)
        found = self.said[self.taken :]
        self.taken = len(self.said)
        return found

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN):
            while not true():
                self.moved.clear()
                await self.moved.wait()

    async def over(self) -> None:
        """Returns when the server is through with it."""
        assert self.task
        async with asyncio.timeout(WITHIN):
            await asyncio.wait({self.task})

    async def leave(self) -> None:
        self.left.set()
        await self.over()


@dataclass(frozen=True, slots=True)
class ScriptedReader:
    """Overview of an operator's stream, as a test answers it."""

    answer: Callable[[], Awaitable[bytes]]

    async def read(self) -> bytes:
        return await self.answer()


@dataclass(slots=True)
class SlowBursts:
    """Bursts of the store, which answers when a test lets it."""

    bursts: OpenedBursts
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def opened_since(self, moment: datetime) -> Sequence[Burst]:
        self.asked.set()
        await self.answers.wait()
        return await self.bursts.opened_since(moment)


@dataclass(slots=True, kw_only=True)
class Studio:
    """A house on the air, in the test's own loop; its clockwork stands still unless the test turns it."""

    house: House = field(default_factory=House)
    app: Litestar = field(init=False)
    ears: list[Ear] = field(default_factory=list)
    numbers: int = 0

    def __post_init__(self) -> None:
        self.app = self.house.app(still)

    @property
    def hub(self) -> Hub:
        return cast(Hub, self.app.state[HUB])

    async def listen(
        self, user: str, last: str | None = None, *, reads: bool = True, token: str = "", origin: str = ""
    ) -> Ear:
        """The stream has begun, or was refused."""
        ear = Ear()
        if reads:
            ear.reads.set()
        headers = {"authorization": f"Bearer {token or self.house.token(user)}", "host": "house"}
        headers |= {} if last is None else {"last-event-id": last}
        headers |= {"origin": origin} if origin else {}
        app = cast(Callable[..., Awaitable[None]], self.app)
        ear.task = asyncio.create_task(_call(app, _scope(headers), ear))
        self.ears.append(ear)
        await ear.until(lambda: bool(ear.body) if reads else bool(ear.status))
        return ear

    async def mention(self, by: str = "ada", whom: str = "nova", *, protected: bool = False) -> None:
        await self.say(by, whom, protected=protected)
        self.house.sequence()

    async def say(self, by: str = "ada", whom: str = "nova", *, protected: bool = False) -> None:
        """Accepted; nothing more has happened yet."""
        self.numbers += 1
        body = event(f"live-{self.numbers}", author=by, mentions=[whom], protected=protected)
        answer = await self.ask("POST", "/v1/events", SERVICE_KEY, json=body)
        assert answer.status_code == 202, answer.text

    async def ask(self, method: str, path: str, bearer: str, **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(cast(Any, self.app))  # the two libraries spell ASGI differently
        headers = {"Authorization": f"Bearer {bearer}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://house") as client:
            return await client.request(method, path, headers=headers, **more)

    async def as_user(self, user: str, method: str, path: str, **more: Any) -> Any:
        answer = await self.ask(method, path, self.house.token(user), **more)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    async def unread(self, user: str) -> Mapping[str, object]:
        return cast(Mapping[str, object], await self.as_user(user, "GET", "/v1/inbox/unread"))

    async def settle(self) -> None:
        """Time passes in which nothing is missed."""
        self.house.clock.advance(timedelta(seconds=10))
        await self.hub.sweep()
        self.hub.caught_up_at = self.house.clock.now()

    async def quiet(self) -> None:
        """Until whatever could still be written was written."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def close(self) -> None:
        self.hub.close()
        for ear in self.ears:
            await ear.leave()
        await asyncio.gather(*self.hub.shift.tasks, return_exceptions=True)


def on_air(play: Callable[[Studio], Awaitable[T]]) -> T:
    async def run() -> T:
        studio = Studio()
        try:
            return await play(studio)
        finally:
            with suppress(TimeoutError):
                await studio.close()

    return asyncio.run(run())


async def still(seconds: float) -> None:
    """The pace between two writes is nothing; loops take their first step and no other."""
    if seconds < 0.5:
        await asyncio.sleep(0)
    else:
        await asyncio.Event().wait()


async def _call(app: Callable[..., Awaitable[None]], scope: dict[str, object], ear: Ear) -> None:
    try:
        await app(scope, ear.receive, ear.send)
    finally:
        ear.moved.set()


def _scope(headers: Mapping[str, str]) -> dict[str, object]:
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
        "server": ("house", 80),
        "state": {},
    }
