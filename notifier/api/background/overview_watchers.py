"""Watching: the open streams of `/v1/system/stream` of one process, which are few, and none of which waits for long."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from litestar import Response
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from notifier.domain.errors import StreamsFull

LOGGER = logging.getLogger("notifier.api")

MOST = 64
"""A team's screens; each is a file descriptor that the inboxes need, too."""
TAKEN_WITHIN = 15.0
"""Seconds, as for the live inbox: whoever doesn't take what was written is cut off, and comes back when it reads."""
MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@dataclass(slots=True)
class Watchers:
    most: int = MOST
    taken_within: float = TAKEN_WITHIN
    here: int = 0

    def require_room(self) -> None:
        """Raises StreamsFull."""
        if self.here >= self.most:
            raise StreamsFull(f"It takes {self.most} watchers.")


class Watching(Response[None]):
    """The answer to one watcher, until it goes or is cut off."""

    def __init__(self, watchers: Watchers, events: AsyncGenerator[bytes]) -> None:
        super().__init__(None, media_type=MEDIA_TYPE, headers=HEADERS)
        self.watchers, self.events = watchers, events

    def to_asgi_response(self, *_: object, **__: Any) -> ASGIResponse:
        return _Body(self.watchers, self.events)


class _Body(ASGIResponse):
    _should_set_content_length = False

    def __init__(self, watchers: Watchers, events: AsyncGenerator[bytes]) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers=HEADERS)
        self.watchers, self.events = watchers, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Counted here and not where there was still room to refuse it: who goes in between would hold a place for ever.
        self.watchers.here += 1
        try:
            await self.start_response(send)
            await self._talk(receive, send)
        finally:
            self.watchers.here -= 1

    async def _talk(self, receive: Receive, send: Send) -> None:
        writing = asyncio.create_task(self._write(send))
        tasks = {writing, asyncio.create_task(_gone(receive))}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
        error = None if writing.cancelled() else writing.exception()
        if error and not isinstance(error, TimeoutError):
            # The answer has begun: there is nobody to tell but the log.
            LOGGER.error("A stream of the system failed", exc_info=error)

    async def _write(self, send: Send) -> None:
        async with aclosing(self.events) as events:
            async for event in events:
                async with asyncio.timeout(self.watchers.taken_within):
                    await send({"type": "http.response.body", "body": event, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
