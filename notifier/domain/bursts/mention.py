"""One account named in one tweet."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self

from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import Lane, Subject, UserId


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """The upstream's name of an event: unique by source, as CloudEvents has it."""

    source: str
    id: str

    def __str__(self) -> str:
        return f"{self.source}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A tweet that mentions accounts, as the tweet service told it."""

    id: EventId
    tweet: str
    author: UserId
    mentioned: tuple[UserId, ...]
    text: str
    protected: bool
    """The author's tweets are for the author's followers only."""
    happened_at: datetime
    accepted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival(Event):
    """An event as the log brings it. What is added is no part of what the tweet service said, nor of its digest."""

    released: bool = False
    """It was held, and somebody let it go."""

    @classmethod
    def again(cls, event: Event, now: datetime) -> Self:
        """Accepted at the moment it is let go: what it waited is nobody's lateness."""
        return cls(**_fields(event) | {"accepted_at": now}, released=True)

    @property
    def told(self) -> Event:
        return Event(**_fields(self))


def _fields(event: Event) -> dict[str, Any]:
    return {field.name: getattr(event, field.name) for field in fields(Event)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """One mentioned account's part of an event, on its way to that account's subject."""

    event: EventId
    subject: Subject
    tweet: str
    author: UserId
    text: str
    protected: bool
    verdict: Verdict
    lane: Lane
    followers: int
    """The size of the subject when it was routed: what the budget and collapse go by."""
    happened_at: datetime
    accepted_at: datetime
    retracted: bool = False
    """It counts no longer, and its text is gone."""

    @classmethod
    def of(cls, event: Event, subject: Subject, verdict: Verdict, *, lane: Lane, followers: int) -> Self:
        return cls(
            event=event.id,
            subject=subject,
            tweet=event.tweet,
            author=event.author,
            text=event.text,
            protected=event.protected,
            verdict=verdict,
            lane=lane,
            followers=followers,
            happened_at=event.happened_at,
            accepted_at=event.accepted_at,
        )
