"""Server-sent events: one answer that lasts until its client goes or is cut off."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from litestar import Response
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

LOGGER = logging.getLogger("notifier.api")

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""The second tells nginx to pass on each event at once."""
BEAT = b":\n\n"
"""A comment, by which a client hears that the connection lives."""


class Talk(Protocol):
    """What one stream sends."""

    def enter(self) -> None:
        """Called before the first byte."""
        ...

    async def write(self, send: Send) -> None:
        """Send events until there are no more. Cancelled when the client goes."""
        ...

    def begin(self, writing: "asyncio.Task[None]") -> None:
        """Called with the task that runs `write`: cancelling it cuts the client off."""
        ...

    def leave(self) -> None:
        """Called once for each `enter`, however the stream ends."""
        ...


class EventStream(Response[None]):
    """The answer of an open stream."""

    def __init__(self, talk: Talk, headers: Mapping[str, str] = HEADERS) -> None:
        super().__init__(None, media_type=MEDIA_TYPE, headers=headers)
        self._talk, self._given = talk, headers

    def to_asgi_response(self, *_: object, **__: Any) -> ASGIResponse:
        return _Body(self._talk, self._given)


class _Body(ASGIResponse):
    _should_set_content_length = False

    def __init__(self, talk: Talk, headers: Mapping[str, str]) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers=headers.items())
        self._talk = talk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Entered here and not in the route: a client that goes in between would hold a place for ever.
        self._talk.enter()
        try:
            await self.start_response(send)
            await self._run(scope, receive, send)
        finally:
            self._talk.leave()

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        writing = asyncio.create_task(self._talk.write(send))
        tasks = {writing, asyncio.create_task(_gone(receive))}
        self._talk.begin(writing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
        if not writing.cancelled() and (error := writing.exception()):
            # The answer has begun: only the log can be told.
            LOGGER.error("event stream failed", exc_info=error, extra={"path": scope["path"]})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
