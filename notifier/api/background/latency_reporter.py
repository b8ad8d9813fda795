"""Timing: how long people wait for a page, told about once a second to those who send alerts."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.api.background.activity_recorder import Pause
from notifier.bounded_executor import Threads
from notifier.domain.errors import CacheUnavailable
from notifier.metrics import Metrics
from notifier.ports.clock import Clock
from notifier.ports.push import TabReport

LATELY = timedelta(seconds=5)
"""As long a page counts, and as long a word that is told."""
FEWEST = 20
"""Pages: of fewer one slow page, of whoever comes first, would speak for all."""
MOST = 4_096
"""The latest; some 300 kB, and half a millisecond each second."""
TOLD_EVERY = 1.0
"""Seconds, while anybody opens pages."""


@dataclass(slots=True, kw_only=True)
class Timing:
    """For one loop. No page waits for Redis."""

    tabs: TabReport
    owner: str
    """Name of this process in the report."""
    threads: Threads
    clock: Clock
    metrics: Metrics
    pause: Pause = asyncio.sleep
    pages: "deque[tuple[datetime, timedelta]]" = field(default_factory=lambda: deque(maxlen=MOST))
    """When they were answered, and how long that took."""
    untold: bool = False
    going: "asyncio.Task[None] | None" = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Around the making of a page, also of one that fails."""
        began = self.clock.now()
        try:
            yield
        finally:
            now = self.clock.now()
            self.pages.append((now, now - began))
            self.untold = True
            if self.going is None or self.going.done():
                self.going = asyncio.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        while self.untold:
            await self.pause(TOLD_EVERY)
            self.untold = False
            while self.pages and self.pages[0][0] <= self.clock.now() - LATELY:
                self.pages.popleft()
            if len(self.pages) >= FEWEST:
                await self._tell(p99([took for _, took in self.pages]))

    async def _tell(self, found: timedelta) -> None:
        try:
            await self.threads.run(self.tabs.tell, self.owner, found, LATELY)
        except CacheUnavailable:
            # Fails open: what nobody is told of slows no alert.
            self.metrics.outages.labels("cache").inc()


def p99(found: list[timedelta]) -> timedelta:
    """Of a hundred the second slowest: one in a hundred may be slower."""
    return sorted(found)[(len(found) - 1) * 99 // 100]
