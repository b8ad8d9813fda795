"""Groups events into batches that fit into one request."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from notifier.client.event_and_receipt import EventRefusal, MentionEvent

# Limits of `POST /v1/events`, from docs/http.md.
MAX_BATCH_EVENTS = 1_000
MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_EVENT_BYTES = 64 * 1024

BATCH_OVERHEAD = len("[]") - len(",")
"""Bytes of the brackets, minus one comma: every event is counted with a comma, but the last one has none."""

EVENT_CONTENT_TYPE = "application/cloudevents+json"
BATCH_CONTENT_TYPE = "application/cloudevents-batch+json"

TOO_LARGE = EventRefusal(
    code="too_large",
    title="The body is larger than this service accepts.",
    detail=f"The limit of an event is {MAX_EVENT_BYTES} bytes.",
)
"""Refusal of an event that is too large. The client does not send it: the service may close the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedEvent:
    event: MentionEvent
    content: bytes

    @property
    def is_too_large(self) -> bool:
        return len(self.content) > MAX_EVENT_BYTES


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of one request, in order. Never empty."""

    events: tuple[EncodedEvent, ...]

    @property
    def content_type(self) -> str:
        return EVENT_CONTENT_TYPE if len(self.events) == 1 else BATCH_CONTENT_TYPE

    @property
    def body(self) -> bytes:
        if len(self.events) == 1:
            return self.events[0].content
        return b"[" + b",".join(encoded.content for encoded in self.events) + b"]"

    def halves(self) -> "tuple[EventBatch, EventBatch]":
        middle = len(self.events) // 2
        return EventBatch(self.events[:middle]), EventBatch(self.events[middle:])


def batches(events: Iterable[MentionEvent], source: str) -> Iterator[EventBatch]:
    """Yield the events in order, in as few batches as the limits allow.

    An event that is too large gets a batch of its own.
    """
    queued: list[EncodedEvent] = []
    size = BATCH_OVERHEAD
    for event in events:
        encoded = EncodedEvent(event=event, content=event.to_json(source))
        added_size = len(encoded.content) + len(",")
        is_full = len(queued) == MAX_BATCH_EVENTS or size + added_size > MAX_BATCH_BYTES
        if queued and (is_full or encoded.is_too_large or queued[-1].is_too_large):
            yield EventBatch(tuple(queued))
            queued, size = [], BATCH_OVERHEAD
        queued.append(encoded)
        size += added_size
    if queued:
        yield EventBatch(tuple(queued))
