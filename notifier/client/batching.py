"""Batches: events cut to what one request may carry."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from notifier.client.event import EventRefusal, MentionEvent

# The limits of `POST /v1/events`, from docs/http.md.
MOST_EVENTS = 1_000
MOST_BYTES = 4 * 1024 * 1024
"""Of a batch's body."""
LARGEST_EVENT = 64 * 1024

BRACKETS = len("[]") - len(",")
"""Every event is counted with a comma, and there is one comma less than events."""

ONE = "application/cloudevents+json"
MANY = "application/cloudevents-batch+json"

TOO_LARGE = EventRefusal(
    code="too_large",
    title="The body is larger than this service takes.",
    detail=f"An event may have {LARGEST_EVENT} bytes.",
)
"""In the words of the service, which would close the connection in the middle of such an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedEvent:
    """An event and its bytes."""

    event: MentionEvent
    content: bytes

    @property
    def too_large(self) -> bool:
        return len(self.content) > LARGEST_EVENT


@dataclass(frozen=True, slots=True)
class EventBatch:
    """One request's letters, in order; never empty."""

    letters: tuple[QueuedEvent, ...]

    @property
    def kind(self) -> str:
        return ONE if len(self.letters) == 1 else MANY

    @property
    def body(self) -> bytes:
        if len(self.letters) == 1:
            return self.letters[0].content
        return b"[" + b",".join(letter.content for letter in self.letters) + b"]"

    def halves(self) -> "tuple[EventBatch, EventBatch]":
        middle = len(self.letters) // 2
        return EventBatch(self.letters[:middle]), EventBatch(self.letters[middle:])


def batches(events: Iterable[MentionEvent], source: str) -> Iterator[EventBatch]:
    """As few as the limits allow, in order. An event that is too large for any request is alone in its batch."""
    waiting: list[QueuedEvent] = []
    size = BRACKETS
    for event in events:
        letter = QueuedEvent(event=event, content=event.spelled(source))
        more = len(letter.content) + len(",")
        full = len(waiting) == MOST_EVENTS or size + more > MOST_BYTES
        if waiting and (full or letter.too_large or waiting[-1].too_large):
            yield EventBatch(tuple(waiting))
            waiting, size = [], BRACKETS
        waiting.append(letter)
        size += more
    if waiting:
        yield EventBatch(tuple(waiting))
