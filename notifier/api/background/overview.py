"""Looking: one look at the system a second and process, however many watch."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Protocol

import msgspec
from litestar.types import Send

from notifier.api.event_stream import BEAT
from notifier.api.processes import Roles, loading
from notifier.api.schemas.system import told
from notifier.bounded_executor import Threads
from notifier.domain.errors import NotifierError, StreamsFull, Unavailable
from notifier.flow.operations.overview import Overview

EVERY = 1.0
"""Seconds."""
SILENT_FOR = 5.0
"""Seconds at most: while a look hangs, watchers hear that the line lives. The demo's page gives a line up after 8."""


class SnapshotReader(Protocol):
    async def read(self) -> bytes:
        """Return the current overview as JSON. Raises StoreUnavailable.

        It runs to its end even when the caller is cancelled. Two calls must never overlap: it counts between readings.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewReader:
    overview: Overview
    roles: Roles
    data: Path
    threads: Threads

    async def read(self) -> bytes:
        return await self.threads.run(self._read)

    def _read(self) -> bytes:
        return msgspec.json.encode(told(self.overview.read(), self.roles, loading(self.data)))


@dataclass(slots=True)
class Looking:
    reader: SnapshotReader
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    now: Callable[[], float] = monotonic
    silent_for: float = SILENT_FOR
    taken: bytes = b""
    taken_at: float | None = None
    running: "asyncio.Task[bytes] | None" = None

    async def latest(self) -> bytes:
        """Not older than a second. Raises what the look raises.

        The look under way is everybody's: it belongs to none of those who wait for it, and outlives them.
        """
        if self.running is None:
            if self.taken_at is not None and self.now() - self.taken_at < EVERY:
                return self.taken
            self.running = asyncio.create_task(self._look())
        return await asyncio.shield(self.running)

    async def events(self) -> AsyncGenerator[bytes]:
        """For one watcher, until it goes. One that reads slowly misses snapshots, and nothing is kept for it."""
        shown: bytes | None = None
        while True:
            try:
                async with asyncio.timeout(self.silent_for):
                    found = await self.latest()
            except TimeoutError:
                yield BEAT
            except NotifierError as error:
                shown = None
                yield b"event: trouble\ndata: " + msgspec.json.encode({"code": error.code}) + b"\n\n"
            else:
                if found is not shown:
                    shown = found
                    yield b"event: system\ndata: " + found + b"\n\n"
            await self.pause(EVERY)

    async def _look(self) -> bytes:
        try:
            self.taken = await self.reader.read()
            self.taken_at = self.now()
            return self.taken
        finally:
            self.running = None


# Turns: of the questions that cost much, one at a time.

PATIENCE = timedelta(milliseconds=50)
"""A log that isn't behind is looked through in a few milliseconds: nobody need be refused for that. Who finds a longer
look under way would hold a thread that the senders of events need."""


@dataclass(frozen=True, slots=True)
class Turns:
    taken: str
    """What whoever comes meanwhile is told."""
    lock: Lock = field(default_factory=Lock)

    def __enter__(self) -> None:
        """Raises Unavailable when somebody else has the turn for longer than one waits."""
        if not self.lock.acquire(timeout=PATIENCE.total_seconds()):
            raise Unavailable(self.taken)

    def __exit__(self, *_: object) -> None:
        self.lock.release()


# Watching: the open streams of `/v1/system/stream` of one process, which are few, and none of which waits for long.

MOST = 64
"""A team's screens; each is a file descriptor that the inboxes need, too."""
TAKEN_WITHIN = 15.0
"""Seconds, as for the live inbox: whoever doesn't take what was written is cut off, and comes back when it reads."""


@dataclass(slots=True)
class Watchers:
    most: int = MOST
    taken_within: float = TAKEN_WITHIN
    here: int = 0

    def require_room(self) -> None:
        """Raises StreamsFull."""
        if self.here >= self.most:
            raise StreamsFull(f"It takes {self.most} watchers.")


@dataclass(frozen=True, slots=True)
class Watching:
    """The stream of one watcher, until it goes or is cut off."""

    watchers: Watchers
    events: AsyncGenerator[bytes]

    def enter(self) -> None:
        self.watchers.here += 1

    def begin(self, writing: "asyncio.Task[None]") -> None:
        """Nothing cuts a watcher off but its own slowness."""

    async def write(self, send: Send) -> None:
        with suppress(TimeoutError):
            async with aclosing(self.events) as events:
                async for event in events:
                    async with asyncio.timeout(self.watchers.taken_within):
                        await send({"type": "http.response.body", "body": event, "more_body": True})

    def leave(self) -> None:
        self.watchers.here -= 1
