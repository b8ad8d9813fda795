"""Stream server-sent events until the source ends or the client disconnects."""

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
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""`X-Accel-Buffering` makes nginx forward each event immediately."""
KEEP_ALIVE = b":\n\n"
"""SSE comment that shows the client that the connection is alive."""


class EventSource(Protocol):
    def open(self) -> None:
        """Called before the first byte."""
        ...

    async def write(self, send: Send) -> None:
        """Send events until the stream ends. The task of this call is canceled when the client disconnects."""
        ...

    def started(self, writing: "asyncio.Task[None]") -> None:
        """Called with the task that runs `write`. The source may cancel the task to cut the client off."""
        ...

    def closed(self) -> None:
        """Called once after each `open` that did not fail, even after an error in `write`."""
        ...


class EventStream(Response[None]):
    def __init__(self, source: EventSource, headers: Mapping[str, str] = STREAM_HEADERS) -> None:
        super().__init__(None, media_type=MEDIA_TYPE, headers=headers)
        self._source, self._stream_headers = source, headers

    def to_asgi_response(self, *_: object, **__: Any) -> ASGIResponse:
        return _Body(self._source, self._stream_headers)


class _Body(ASGIResponse):
    _should_set_content_length = False

    def __init__(self, source: EventSource, headers: Mapping[str, str]) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers=headers.items())
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Open the source here and not in the route: if the client disconnected in between, nothing would close it.
        self._source.open()
        try:
            await self.start_response(send)
            await self._run(scope, receive, send)
        finally:
            self._source.closed()

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        writing = asyncio.create_task(self._source.write(send))
        tasks = {writing, asyncio.create_task(_disconnected(receive))}
        self._source.started(writing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
        if not writing.cancelled() and (error := writing.exception()):
            # The response has started, so the error can only be logged.
            LOGGER.error("event stream failed", exc_info=error, extra={"path": scope["path"]})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
