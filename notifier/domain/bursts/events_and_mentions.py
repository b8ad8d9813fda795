"""Events from the tweet service, and the mentions that they contain."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self

from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import Lane, Subject, UserId


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """Id of an upstream event: unique per source, as CloudEvents defines."""

    source: str
    id: str

    def __str__(self) -> str:
        return f"{self.source}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A tweet that mentions accounts, as reported by the tweet service."""

    id: EventId
    tweet: str
    author: UserId
    mentioned: tuple[UserId, ...]
    text: str
    protected: bool
    """Only the author's followers may see the author's tweets."""
    happened_at: datetime
    accepted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent(Event):
    """An event as the log stores it. The hash that detects conflicting events does not cover `released`."""

    released: bool = False
    """An operator released the held mention, so the event is logged again."""

    @classmethod
    def for_release(cls, event: Event, now: datetime) -> Self:
        """Return a released event. It counts as accepted now, so that the wait is not part of the delivery latency."""
        return cls(**_event_fields(event) | {"accepted_at": now}, released=True)

    @property
    def upstream_event(self) -> Event:
        """Return the event without `released`."""
        return Event(**_event_fields(self))


def _event_fields(event: Event) -> dict[str, Any]:
    return {field.name: getattr(event, field.name) for field in fields(Event)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """An event's mention of one account, addressed to one of that account's subjects."""

    event: EventId
    subject: Subject
    tweet: str
    author: UserId
    text: str
    protected: bool
    verdict: Verdict
    lane: Lane
    followers: int
    """Number of followers of the subject when the mention was routed."""
    happened_at: datetime
    accepted_at: datetime
    retracted: bool = False
    """The mention no longer counts, and its text is deleted."""

    @classmethod
    def from_event(cls, event: Event, subject: Subject, verdict: Verdict, *, lane: Lane, followers: int) -> Self:
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
