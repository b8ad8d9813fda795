"""Follow the store's change feed, and apply changes to the inbox caches."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.flow.inbox.subject_cache import SubjectCache
from notifier.flow.inbox.viewer_and_page_cache import ViewerCache
from notifier.metrics import Metrics
from notifier.ports.inbox_cache_freshness import BurstChanges, FeedPosition
from notifier.ports.leases_queues_throttles_clock import Clock

READ_INTERVAL = timedelta(milliseconds=500)
"""Maximum age of the last read of the feed when cached data is used. A change that never reached Redis is noticed up to
about this much later."""
MAX_IDLE_TIME = timedelta(minutes=2)
"""Time without a read after which the caches start over, which costs less than reading all missed changes."""


@dataclass(slots=True, kw_only=True)
class ChangeFollower:
    """Reads the feed before cached data is used, not on a timer. One instance per event loop."""

    changes: BurstChanges
    subject_cache: SubjectCache
    viewers: ViewerCache
    clock: Clock
    metrics: Metrics
    position: FeedPosition | None = None
    read_at: datetime | None = None
    """When the latest read began."""

    async def keep_up(self) -> None:
        """Read the feed unless it was read within READ_INTERVAL. Raises StoreUnavailable."""
        now = self.clock.now()
        if self.read_at is None or not self.read_at <= now < self.read_at + READ_INTERVAL:
            await self.catch_up()

    async def catch_up(self) -> None:
        """Apply the changes whose writes returned before this call, or start the caches over.

        Raises StoreUnavailable.
        """
        now = self.clock.now()
        self.metrics.inbox_feed_reads.inc()
        is_idle = self.read_at is None or not self.read_at <= now < self.read_at + MAX_IDLE_TIME
        changes = None if self.position is None or is_idle else await self.changes.after(self.position)
        if changes is None:
            await self._begin()
        else:
            if changes.has_viewer_lapse:
                self.viewers.distrust(self.clock.now())
            for burst in changes.bursts:
                self.subject_cache.apply(burst)
            self.position = changes.position
        self.read_at = now

    async def _begin(self) -> None:
        # Take the position first: everything cached from here on is then read after the position was taken.
        self.position = await self.changes.begin()
        self.subject_cache.begin()
        self.viewers.distrust(self.clock.now())
