"""The small caches in memory, by the clock they are given; each can be wiped."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.bursts.mention import EventId
from notifier.domain.delivery.backlog import Behind
from notifier.domain.delivery.slice import Pool
from notifier.ports.clock import Clock

REMEMBERED = timedelta(hours=24)


@dataclass(slots=True)
class MemoryRecent:
    clock: Clock
    known: dict[EventId, tuple[str, datetime]] = field(default_factory=dict)

    def wipe(self) -> None:
        self.known.clear()

    def digests(self, events: Collection[EventId]) -> Mapping[EventId, str]:
        return {event: self.known[event][0] for event in events if self._remembers(event)}

    def remember(self, digests: Mapping[EventId, str]) -> None:
        for event, digest in digests.items():
            if not self._remembers(event):
                self.known[event] = (digest, self.clock.now() + REMEMBERED)

    def recall(self, source: str | None, id: str) -> bool:
        return any(e.id == id and source in (None, e.source) for e in list(self.known) if self._remembers(e))

    def _remembers(self, event: EventId) -> bool:
        return event in self.known and self.clock.now() < self.known[event][1]


@dataclass(slots=True)
class MemoryBuckets:
    clock: Clock
    held: dict[str, tuple[float, datetime]] = field(default_factory=dict)
    """The tokens left, and when they were counted."""

    def wipe(self) -> None:
        self.held.clear()

    def take(self, name: str, capacity: int, refill: timedelta) -> bool:
        tokens = self._left(name, capacity, refill)
        if tokens < 1:
            return False
        self.held[name] = (tokens - 1, self.clock.now())
        return True

    def spend(self, spent: Mapping[str, int], capacity: int, refill: timedelta) -> Mapping[str, float]:
        left = {name: max(-capacity, self._left(name, capacity, refill) - count) for name, count in spent.items()}
        self.held |= {name: (tokens, self.clock.now()) for name, tokens in left.items()}
        return left

    def _left(self, name: str, capacity: int, refill: timedelta) -> float:
        now = self.clock.now()
        tokens, counted = self.held.get(name, (float(capacity), now))
        return min(float(capacity), tokens + max(timedelta(0), now - counted) / refill)


@dataclass(slots=True)
class MemoryPressure:
    clock: Clock
    said: tuple[float, datetime] | None = None

    def wipe(self) -> None:
        self.said = None

    def raise_to(self, level: float, lasting: timedelta) -> None:
        self.said = (level, self.clock.now() + lasting)

    def level(self) -> float:
        return self.said[0] if self.said and self.clock.now() < self.said[1] else 0.0


@dataclass(slots=True)
class MemoryBacklogReport:
    clock: Clock
    said: tuple[Mapping[Pool, Behind], datetime] | None = None

    def wipe(self) -> None:
        self.said = None

    def tell(self, behind: Mapping[Pool, Behind], lasting: timedelta) -> None:
        self.said = (dict(behind), self.clock.now() + lasting)

    def told(self) -> Mapping[Pool, Behind]:
        return self.said[0] if self.said and self.clock.now() < self.said[1] else {}
