"""Following the store's change feed: what bounds the age of everything that the inbox caches."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.flow.inbox.subject_cache import SubjectCache
from notifier.flow.inbox.viewer_cache import ViewerCache
from notifier.metrics import Metrics
from notifier.ports.coordination import Clock
from notifier.ports.inbox_versions import BurstChanges, Position

READ_EVERY = timedelta(milliseconds=500)
"""An inbox is never answered from a cache that has not been compared with the store for longer: a retraction that Redis
was not told of is gone within this time."""
IDLE_FOR = timedelta(minutes=2)
"""After so long without a reader, to begin anew costs less than to read what was missed. Longer than clients that poll
let a page rest."""


@dataclass(slots=True, kw_only=True)
class ChangeFollower:
    """For one event loop. Reads the feed when somebody opens an inbox, and never by itself."""

    changes: BurstChanges
    subjects: SubjectCache
    viewers: ViewerCache
    clock: Clock
    metrics: Metrics
    position: Position | None = None
    read_at: datetime | None = None
    """When the latest read began."""

    async def keep_up(self) -> None:
        """Read the feed unless that was done lately. Raises StoreUnavailable."""
        now = self.clock.now()
        if self.read_at is None or not self.read_at <= now < self.read_at + READ_EVERY:
            await self.catch_up()

    async def catch_up(self) -> None:
        """Apply every change whose write returned before this call. Raises StoreUnavailable."""
        now = self.clock.now()
        self.metrics.inbox_feed_reads.inc()
        idle = self.read_at is None or not self.read_at <= now < self.read_at + IDLE_FOR
        found = None if self.position is None or idle else await self.changes.after(self.position)
        if found is None:
            await self._begin()
        else:
            if found.viewers_lapsed:
                self.viewers.distrust(self.clock.now())
            for burst in found.bursts:
                self.subjects.apply(burst)
            self.position = found.position
        self.read_at = now

    async def _begin(self) -> None:
        # What is cached from here on was read after the position that is followed.
        self.position = await self.changes.begin()
        self.subjects.begin()
        self.viewers.distrust(self.clock.now())
