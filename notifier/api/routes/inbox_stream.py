"""`/v1/inbox/stream`: changes of a user's inbox as server-sent events."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

import msgspec
from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter
from litestar.types import Send

from notifier.api.container import ApiContainer, UserRequest, WiredContainer
from notifier.api.event_stream import KEEP_ALIVE, MEDIA_TYPE, STREAM_HEADERS, EventStream
from notifier.api.problems import problem_responses
from notifier.api.routes.inbox import BadgeBody, badge_body
from notifier.api.schemas.inbox_items import ItemBody, item_body
from notifier.domain.ids import BurstKey
from notifier.flow.live.hub import HEARTBEAT_INTERVAL
from notifier.flow.live.streams_and_events import Listener, Stream, StreamEvent, StreamPosition, StreamUpdate

WRITE_INTERVAL_SECONDS = 0.25
"""Pause after a write to a client. In a storm, a burst grows faster than a user can read."""
MAX_EVENT_ID_LENGTH = 512
"""Maximum characters of a `Last-Event-ID`. A longer one is treated as invalid."""
RETRY_FIELD = b"retry: 2000\n\n"
"""Tells the client to wait two seconds before it reconnects."""
STREAM_DESCRIPTION = (
    "Events: row, group and marked (their data is an ItemBody), hidden (a HiddenBody), count (a BadgeBody) "
    "and reset (an empty object)."
)

LastEvent = Annotated[str | None, HeaderParameter(name="Last-Event-ID")]


class HiddenBody(msgspec.Struct, kw_only=True):
    """The item that is no longer shown."""

    burst: str


Body = ItemBody | HiddenBody | BadgeBody


@get(
    "/stream",
    responses={200: ResponseSpec(str, media_type=MEDIA_TYPE, description=STREAM_DESCRIPTION)}
    | problem_responses(400, 401, 403, 404, 429, 503),
)
async def live(request: UserRequest, container: WiredContainer, last_event: LastEvent = None) -> EventStream:
    """Stream the changes of the inbox as server-sent events, until the token is no longer accepted.

    With `Last-Event-ID` the stream first sends what changed since that event. After a `reset` event, load the first
    page again.
    """
    listener, stream = await container.hub.open(request.user, request.auth)
    if last_event is not None:
        position = (
            container.opaque_ids.stream_position(request.user, last_event)
            if len(last_event) <= MAX_EVENT_ID_LENGTH
            else None
        )
        container.hub.registry.resume(listener, stream, position)
    return EventStream(InboxEventSource(container, listener, stream), {**STREAM_HEADERS, "Vary": "Authorization"})


def frame(event: StreamEvent, id: str, data: Body | None) -> bytes:
    """Return one server-sent event. JSON escapes line breaks, so `data` is always a single line."""
    body = b"{}" if data is None else msgspec.json.encode(data)
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (id.encode(), event.encode(), body)


@dataclass(frozen=True, slots=True)
class InboxEventSource:
    container: ApiContainer
    listener: Listener
    stream: Stream

    def open(self) -> None:
        """Do nothing, because the hub has already registered the stream."""

    def started(self, writing: "asyncio.Task[None]") -> None:
        self.stream.abort = writing.cancel

    def closed(self) -> None:
        if self.stream.is_cut_off:
            self.container.hub.metrics.streams_cut.inc()
        self.container.hub.close_stream(self.listener, self.stream)

    async def write(self, send: Send) -> None:
        """Send events until the hub ends the stream or cuts the client off."""
        await self._send(send, RETRY_FIELD + self.frames())
        while not self.stream.is_closing:
            await self.stream.wake_event.wait()
            self.stream.wake_event.clear()
            if self.stream.is_cut_off:
                return
            silence = self.container.clock.now() - self.stream.written_at
            if frames := self.frames() or (KEEP_ALIVE if silence >= HEARTBEAT_INTERVAL else b""):
                await self._send(send, frames)
                await self.container.pause(WRITE_INTERVAL_SECONDS)
        await self._send(send, self.frames(), more=False)

    def frames(self) -> bytes:
        """Return all pending events.

        The last event has the id of the position after all events. Earlier events have the id of the position before
        all events: a client that resumes from an earlier event receives all events again.
        """
        updates = self.stream.take(self.listener.view(self.container.clock.now()), self.listener.badge)
        if not updates:
            return b""
        previous_id = self._event_id() if len(updates) > 1 else ""
        self.stream.as_of = max(self.stream.as_of, self.container.hub.as_of())
        self.stream.marks_fingerprint = self.listener.marks_fingerprint
        last_id = self._event_id()
        *earlier, last = updates
        return b"".join([*(self._frame(update, previous_id) for update in earlier), self._frame(last, last_id)])

    def _frame(self, update: StreamUpdate, id: str) -> bytes:
        self.container.hub.metrics.stream_events.labels(update.event).inc()
        if update.item is not None:
            burst_id = self._opaque_id(update.item.entry.key)
            return frame(update.event, id, item_body(update.item, burst_id, self.container.clock.now()))
        if update.hidden_burst is not None:
            return frame(update.event, id, HiddenBody(burst=self._opaque_id(update.hidden_burst)))
        return frame(update.event, id, None if update.badge is None else badge_body(update.badge))

    def _opaque_id(self, burst: BurstKey) -> str:
        return self.container.opaque_ids.id(self.listener.user, burst)

    def _event_id(self) -> str:
        position = StreamPosition(
            as_of=self.stream.as_of,
            visibility_fingerprint=self.listener.visibility_fingerprint,
            marks_fingerprint=self.stream.marks_fingerprint,
        )
        return self.container.opaque_ids.event_id(self.listener.user, position)

    async def _send(self, send: Send, body: bytes, *, more: bool = True) -> None:
        self.stream.written_at, self.stream.is_writing = self.container.clock.now(), True
        await send({"type": "http.response.body", "body": body, "more_body": more})
        self.stream.is_writing = False
