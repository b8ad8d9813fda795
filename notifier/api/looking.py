"""Looking: one look at the system a second and process, however many watch."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic

import msgspec

from notifier.domain.errors import NotifierError

EVERY = 1.0
"""Seconds."""


@dataclass(slots=True)
class Looking:
    look: Callable[[], Awaitable[bytes]]
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    now: Callable[[], float] = monotonic
    taken: bytes = b""
    taken_at: float | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def latest(self) -> bytes:
        """Not older than a second. Raises what the look raises."""
        async with self.turn:
            if self.taken_at is None or self.now() - self.taken_at >= EVERY:
                self.taken = await self.look()
                self.taken_at = self.now()
            return self.taken

    async def events(self) -> AsyncIterator[bytes]:
        """For one watcher, until it goes. One that reads slowly misses snapshots, and nothing is kept for it."""
        shown: bytes | None = None
        while True:
            try:
                found = await self.latest()
            except NotifierError as error:
                shown = None
                yield b"event: trouble\ndata: " + msgspec.json.encode({"code": error.code}) + b"\n\n"
            else:
                if found is not shown:
                    shown = found
                    yield b"event: system\ndata: " + found + b"\n\n"
            await self.pause(EVERY)
