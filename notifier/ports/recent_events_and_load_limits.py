"""Ports of disposable cache data: event hashes, token buckets, backpressure and backlog."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Protocol

from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.delivery.dispatch_backlog import PoolBacklog
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.token_bucket import BucketLimit


class RecentEvents(Protocol):
    """IDs of the mention events of the last day, with a hash of each content. Blocking. Raises CacheUnavailable."""

    def content_hashes(self, events: Collection[EventId]) -> Mapping[EventId, str]:
        """Return the stored hashes. Damaged ones are missing."""
        ...

    def remember(self, hashes: Mapping[EventId, str]) -> None:
        """Store the hashes. Call this after the events are in the log; the first hash of an ID is kept."""
        ...

    def was_accepted(self, source: str | None, id: str) -> bool:
        """Return whether an event with this ID was accepted recently; from any source if `source` is None."""
        ...


class TokenBuckets(Protocol):
    """Token buckets shared by all processes, on the server's clock. A lost bucket is full again.

    Not idempotent: a repeated call takes the tokens twice. Blocking. Raises CacheUnavailable; the tokens may then
    have been taken.
    """

    def take(self, name: str, limit: BucketLimit) -> bool:
        """Take one token; return False if none is left."""
        ...

    def spend(self, spent: Mapping[str, int], limit: BucketLimit) -> Mapping[str, float]:
        """Take tokens that this process has already granted; return the tokens left in each bucket.

        The number is negative if several processes granted the same tokens. It is never below the negative capacity.
        """
        ...


class Backpressure(Protocol):
    """Backpressure level that the monitor reports to the dispatcher. Blocking. Raises CacheUnavailable."""

    def set_level(self, level: float, ttl: timedelta) -> None:
        """Set the level: 0 is none, 1 stops P2. It expires after `ttl`, so a dead monitor blocks nothing."""
        ...

    def level(self) -> float:
        """Return the level; 0 if it has expired or is damaged."""
        ...


class BacklogReport(Protocol):
    """Pending work in the ledger, as reported by the dispatcher. Blocking. Raises CacheUnavailable."""

    def publish(self, backlogs: Mapping[Pool, PoolBacklog], ttl: timedelta) -> None:
        """Store the backlog of each pool. It expires after `ttl`."""
        ...

    def read(self) -> Mapping[Pool, PoolBacklog]:
        """Return the backlog of each pool; empty if the report has expired or is damaged."""
        ...
