"""In-memory recent events, token buckets, backpressure and backlog report; they can be wiped."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.delivery.dispatch_backlog import PoolBacklog
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.token_bucket import BucketLimit, TokenBucket
from notifier.ports.leases_queues_throttles_clock import Clock

REMEMBERED = timedelta(hours=24)


@dataclass(slots=True)
class MemoryRecentEvents:
    clock: Clock
    known: dict[EventId, tuple[str, datetime]] = field(default_factory=dict)

    def wipe(self) -> None:
        self.known.clear()

    def content_hashes(self, events: Collection[EventId]) -> Mapping[EventId, str]:
        return {event: self.known[event][0] for event in events if self._remembers(event)}

    def remember(self, hashes: Mapping[EventId, str]) -> None:
        for event, content_hash in hashes.items():
            if not self._remembers(event):
                self.known[event] = (content_hash, self.clock.now() + REMEMBERED)

    def was_accepted(self, source: str | None, id: str) -> bool:
        return any(e.id == id and source in (None, e.source) for e in list(self.known) if self._remembers(e))

    def _remembers(self, event: EventId) -> bool:
        return event in self.known and self.clock.now() < self.known[event][1]


@dataclass(slots=True)
class MemoryTokenBuckets:
    clock: Clock
    held: dict[str, TokenBucket] = field(default_factory=dict)

    def wipe(self) -> None:
        self.held.clear()

    def take(self, name: str, limit: BucketLimit) -> bool:
        bucket = self._bucket(name, limit)
        if bucket.has_token:
            self.held[name] = bucket.spent()
        return bucket.has_token

    def spend(self, spent: Mapping[str, int], limit: BucketLimit) -> Mapping[str, float]:
        for name, count in spent.items():
            bucket = self._bucket(name, limit)
            self.held[name] = bucket.spent(min(count, bucket.tokens + limit.capacity))
        return {name: self.held[name].tokens for name in spent}

    def _bucket(self, name: str, limit: BucketLimit) -> TokenBucket:
        now = self.clock.now()
        return self.held.get(name, TokenBucket.full(limit, now)).with_time_at_most(now).refilled(limit, now)


@dataclass(slots=True)
class MemoryBackpressure:
    clock: Clock
    stored: tuple[float, datetime] | None = None

    def wipe(self) -> None:
        self.stored = None

    def set_level(self, level: float, ttl: timedelta) -> None:
        self.stored = (level, self.clock.now() + ttl)

    def level(self) -> float:
        return self.stored[0] if self.stored and self.clock.now() < self.stored[1] else 0.0


@dataclass(slots=True)
class MemoryBacklogReport:
    clock: Clock
    stored: tuple[Mapping[Pool, PoolBacklog], datetime] | None = None

    def wipe(self) -> None:
        self.stored = None

    def publish(self, backlogs: Mapping[Pool, PoolBacklog], ttl: timedelta) -> None:
        self.stored = (dict(backlogs), self.clock.now() + ttl)

    def read(self) -> Mapping[Pool, PoolBacklog]:
        return self.stored[0] if self.stored and self.clock.now() < self.stored[1] else {}
