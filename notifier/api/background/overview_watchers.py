"""Watching: the open streams of `/v1/system/stream` of one process, which are few, and none of which waits for long."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass

from litestar.types import Send

from notifier.domain.errors import StreamsFull

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
