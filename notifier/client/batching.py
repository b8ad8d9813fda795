"""Groups events into batches that fit into one request."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from notifier.client.event import EventRefusal, MentionEvent

# Limits of `POST /v1/events`, from docs/http.md.
MOST_EVENTS = 1_000
MOST_BYTES = 4 * 1024 * 1024
"""Size of the body of a batch."""
MAX_EVENT_BYTES = 64 * 1024

BRACKETS = len("[]") - len(",")
"""Bytes of a batch besides its events. Each event is counted with a comma, but the last one has none."""

EVENT_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"

TOO_LARGE = EventRefusal(
    code="too_large",
    title="The body is larger than this service accepts.",
    detail=f"The limit of an event is {MAX_EVENT_BYTES} bytes.",
)
"""Same code and texts as the service's refusal. The service would close the connection amid such an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedEvent:
    """An event with its encoded content."""

    event: MentionEvent
    content: bytes

    @property
    def too_large(self) -> bool:
        return len(self.content) > MAX_EVENT_BYTES


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of one request, in order. Never empty."""

    events: tuple[QueuedEvent, ...]

    @property
    def kind(self) -> str:
        return EVENT_TYPE if len(self.events) == 1 else BATCH_TYPE

    @property
    def body(self) -> bytes:
        if len(self.events) == 1:
            return self.events[0].content
        return b"[" + b",".join(queued.content for queued in self.events) + b"]"

    def halves(self) -> "tuple[EventBatch, EventBatch]":
        middle = len(self.events) // 2
        return EventBatch(self.events[:middle]), EventBatch(self.events[middle:])


def batches(events: Iterable[MentionEvent], source: str) -> Iterator[EventBatch]:
    """Yield as few batches as the limits allow, in order. An event that exceeds the limit gets its own batch."""
    queued: list[QueuedEvent] = []
    size = BRACKETS
    for event in events:
        encoded = QueuedEvent(event=event, content=event.to_json(source))
        added_size = len(encoded.content) + len(",")
        full = len(queued) == MOST_EVENTS or size + added_size > MOST_BYTES
        if queued and (full or encoded.too_large or queued[-1].too_large):
            yield EventBatch(tuple(queued))
            queued, size = [], BRACKETS
        queued.append(encoded)
        size += added_size
    if queued:
        yield EventBatch(tuple(queued))
